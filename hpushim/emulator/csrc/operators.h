// What the fallback and the ledger know about an operator, worked out once from its schema.
#pragma once

#include "device.h"
#include "objections.h"

#include <ATen/core/stack.h>
#include <torch/library.h>

namespace hpu {

enum class ArgumentKind : uint8_t { kTensor, kTensors, kOptionalTensors, kGenerator, kDevice };

// What an argument says of the graph that the operator is in.
enum class Meaning : uint8_t {
  kNothing,  // a device, a generator
  kTensors,
  kChoice,  // what the operator does: a flag, a name, a dtype, along which dimension
  kValue,   // a number: another one is another graph
};

struct Argument {
  ArgumentKind kind;
  bool written;
  bool takes_host;  // CPU tensors of any size may stand here
  uint16_t position;
  bool optional;
  bool is_out;
  bool is_index;  // positions, which the device takes in 32 bits too
  std::string name;
};

struct OperatorFacts {
  std::string name;  // aten::add.Tensor
  uint64_t id;       // a hash of the name: the same in every process
  size_t argument_count;
  std::vector<Argument> arguments;  // those that carry a tensor, a generator or a device
  std::vector<std::string> names;   // of all arguments
  std::vector<Meaning> meanings;    // likewise
  std::vector<bool> lists;          // likewise: is it a list of tensors?
  size_t returns;
  bool writes;              // into one of its arguments
  bool pointwise;           // results are contiguous on hpu, as torch's fake tensors have it
  bool draws_unseen;        // random without a generator argument
  bool is_dropout;
  bool is_complex;          // torch.complex
  bool reads_back;          // the shape or value of the result needs the data: a host sync
  bool compute;
  mutable std::atomic<int64_t> calls{0};
  mutable std::atomic<int64_t> fallbacks{0};  // calls that Gaudi would have run on the CPU
  mutable std::atomic<uint64_t> lacks{0};      // narrow dtypes, by bit, that the CPU kernel was found to lack
  mutable std::atomic<const OperatorRule*> rule{nullptr};
  mutable std::atomic<bool> takes_whole{false};  // whole numbers too where the CPU's kernel does not: they go through float32
  mutable std::atomic<bool> patched{false};  // its numbers are patched into one graph: not they, the results' shapes count
};

// True if the device runs the call itself, false if it would hand it to the CPU.
inline bool object_to_operator(const OperatorFacts& facts, const torch::jit::Stack& stack) {
  const auto* rule = facts.rule.load(std::memory_order_relaxed);
  return rule == nullptr || object_to_operator_slow(facts, *rule, stack);
}

// Lazy mode copies host tensors among the arguments to the card; eager mode refuses them.
extern std::atomic<bool> host_arguments_move;  // fallback.cpp

const OperatorFacts& facts_of(const c10::OperatorHandle& op);

void run_on_host(const OperatorFacts& facts, const c10::OperatorHandle& op, torch::jit::Stack* stack);
void run_any_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack);

struct KernelOnHost final : c10::OperatorKernel {
  explicit KernelOnHost(const OperatorFacts& f) : facts(f) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack);
  const OperatorFacts& facts;
};

// An hpu tensor over `storage` with the geometry of `like`.
at::Tensor view_of(const c10::Storage& storage, const at::Tensor& like);

// Strides that a result has on the CPU and not on a Gaudi (layout.cpp).
void remember_cpu_strides(const at::Tensor& result, at::IntArrayRef strides);
bool keeps_cpu_strides(const at::Tensor& tensor);
// What is_contiguous() answers on a Gaudi.
bool is_contiguous_on_hpu(const at::Tensor& tensor);
// A view that only those strides allow is refused, with the reason.
void object_to_view(const at::Tensor& self, at::IntArrayRef size);

// The ledger's part in one call of an operator: made before it, told of its results.
class Watched {
 public:
  Watched(const OperatorFacts& facts, const torch::jit::Stack& stack);
  void results(const torch::jit::Stack& stack);

 private:
  const OperatorFacts& facts_;
  bool counted_ = false, graphs_ = false, eager_ = false, derived_ = false;
  uint64_t source_ = 0, lineage_ = 0;
};
void came_from_host(const at::Tensor& tensor);                      // a copy of the host's
void came_from(const at::Tensor& tensor, const at::Tensor& source);  // a copy, or made in the likeness, of another one

// Operators, by name without overload, whose numbers are patched into one graph, and those that take whole numbers through float32.
void set_marked_operators(const std::vector<std::string>& patched, const std::vector<std::string>& whole);

void register_operators();  // kernels.cpp
std::vector<std::pair<std::string, int64_t>> operator_calls();
void reset_operator_calls();
std::vector<std::pair<std::string, int64_t>> fallback_operators();

}  // namespace hpu
