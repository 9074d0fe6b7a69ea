// Planning without computing: memory that no page stands behind, and operators answered by the shapes of their results.
#pragma once

#include "operators.h"

#include <map>

namespace hpu {

extern std::atomic<bool> faking;

// From here on, to the end of the process. What has at most so many elements, and whose values are known, is computed still.
void begin_fake(int64_t computed_elements);

// Memory that reads as zero and takes no room until it is written; of the host's own, or the device's.
c10::DataPtr unbacked(size_t nbytes, bool of_host);
constexpr size_t kUnbackedFrom = size_t{1} << 16;  // bytes; what is smaller is cheaper to have

// Values are unknown where an operator that was left out would have written them.
bool is_unknown(const at::Tensor& tensor);
void mark_unknown(const at::Tensor& tensor);

// Leaves out the operator, with its results in the stack; false: it has to be computed, and the stack is as it was.
bool answer_by_shape(const OperatorFacts& facts, const c10::OperatorHandle& op, torch::jit::Stack* stack);
bool leave_out_copy(const at::Tensor& to, const at::Tensor& from);
void note_read(const at::Tensor& tensor);  // the host asks for values

struct FakeBooks {
  int64_t left_out = 0, host_peak = 0;
  std::map<std::string, int64_t> computed;   // operators that have no rule for shapes, and so were computed
  std::map<std::string, int64_t> estimated;  // those whose result's size depends on values that are unknown
  std::map<std::string, int64_t> reads;      // lines that asked for unknown values
};
FakeBooks fake_books();

}  // namespace hpu
