// What HCCL takes: read from the compatibility matrix, handed over by hpushim.emulator.hccl.
#pragma once

#ifdef HPU_DISTRIBUTED
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#endif

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace hpu {

// Dtypes as bits of c10::ScalarType; 0: no list is known.
struct CollectiveRule {
  uint64_t takes = 0;       // others are refused
  uint64_t exact = 0;       // others are computed in float32
  bool even_bytes = false;  // an odd number of bytes is refused
};

struct Refusal {
  std::string code, advice;
};

using NamedCollectives = std::vector<std::tuple<std::string, uint64_t, uint64_t, bool>>;
using NamedRefusals = std::vector<std::tuple<std::string, std::string, std::string>>;  // what, code, advice
void set_collectives(const NamedCollectives& collectives, const NamedRefusals& refused);

#ifdef HPU_DISTRIBUTED

using Tensors = std::vector<at::Tensor>;

// Objects to `what` if the matrix says that hccl does not do `key`.
void object_to(const std::string& key, const std::string& what);
// Objects to what HCCL would not take in the collective `name`, as torch.distributed calls it.
void check(const char* name, const Tensors& tensors);
void check(const char* name, const Tensors& tensors, const c10d::ReduceOp& op);

// gloo moves elements of one, two, four and eight bytes, and does not look into them.
at::Tensor carrier(const at::Tensor& tensor);
Tensors carriers(const Tensors& tensors);
std::vector<Tensors> carriers(const std::vector<Tensors>& lists);

// What a reduction is done on: the tensors, or float32 copies of them where HCCL makes some.
class Summands {
 public:
  // `apart` from the tensors themselves: gloo brings a scattered sum at every wait, which would undo a division.
  Summands(const char* name, const Tensors& tensors, bool apart = false);
  Tensors& carried() { return carried_; }
  // Brings the results back, divided into so many shares. HCCL's process group waits here too.
  void settle(const c10::intrusive_ptr<c10d::Work>& work, int shares) const;

 private:
  Tensors originals_, carried_;
};

#endif

}  // namespace hpu
