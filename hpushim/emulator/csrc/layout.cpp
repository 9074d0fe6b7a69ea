// A Gaudi lays out the result of a pointwise operator in rows, where the CPU keeps the strides of the arguments. So a view
// that the CPU's strides allow can fail there, and the reason is told. While the device draws the CPU's random numbers,
// whose order follows the strides, the CPU's are kept; such a view fails all the same.
#include "objections.h"
#include "operators.h"
#include "refusals.h"

#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <c10/util/Backtrace.h>

namespace hpu {
namespace {

c10::DimVector rows_of(const c10::DimVector& sizes) {
  c10::DimVector rows(sizes.size(), 1);
  for (size_t i = rows.size(); i > 1; --i) rows[i - 2] = rows[i - 1] * std::max<int64_t>(sizes[i - 1], 1);
  return rows;
}

// The strides of a tensor if the memory beneath it, of these sizes, were not laid out by `from` but by `to`.
c10::DimVector laid_out(at::IntArrayRef strides, at::IntArrayRef sizes, at::IntArrayRef from, at::IntArrayRef to) {
  c10::DimVector found(strides.begin(), strides.end());
  for (int64_t& stride : found) {
    // The dimension of the result along which this one goes: the widest whose stride divides it.
    int64_t widest = 0, other = stride;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] < 2 || from[i] <= widest || from[i] > stride || stride % from[i] != 0) continue;
      widest = from[i];
      other = stride / from[i] * to[i];
    }
    stride = other;
  }
  return found;
}

// Whether the program itself asks for the view. Operators of torch's that are made of others (reshape, linear, instance_norm) choose
// by the strides that they see, which are the CPU's here: on hpu they would go another way. Only the calls on the stack tell.
bool program_asks() {
  const std::string calls = c10::get_backtrace(0, 256);
  const std::string mark = "at::_ops::";
  const auto first = calls.rfind(mark);  // what the program called is the outermost
  if (first == std::string::npos) return true;
  const auto from = first + mark.size();
  const std::string called = calls.substr(from, calls.find("::", from) - from);
  return called.find("view") != std::string::npos || called.find("unflatten") != std::string::npos;
}

// The strides that a tensor has on hpu, where results lie in rows.
c10::DimVector in_rows(const at::Tensor& self, const KeptLayout& kept) {
  if (!cpu_strides.load(std::memory_order_relaxed)) return c10::DimVector(self.strides());
  return laid_out(self.strides(), kept.sizes, kept.strides, rows_of(kept.sizes));
}

}  // namespace

void remember_cpu_strides(const at::Tensor& result, at::IntArrayRef strides) {
  Block* block = block_of(result);
  if (block != nullptr && !block->kept)
    block->kept = std::make_unique<const KeptLayout>(KeptLayout{c10::DimVector(result.sizes()), c10::DimVector(strides)});
}

bool keeps_cpu_strides(const at::Tensor& tensor) {
  const Block* block = block_of(tensor);
  return block != nullptr && block->kept != nullptr;
}

bool is_contiguous_on_hpu(const at::Tensor& self) {
  if (!keeps_cpu_strides(self)) return self.is_contiguous();
  const auto strides = in_rows(self, *block_of(self)->kept);
  int64_t next = 1;
  for (int64_t i = self.dim() - 1; i >= 0; --i) {
    if (self.size(i) == 1) continue;
    if (strides[i] != next) return self.numel() == 0;
    next *= self.size(i);
  }
  return true;
}

void object_to_view(const at::Tensor& self, at::IntArrayRef size) {
  const KeptLayout& kept = *block_of(self)->kept;
  const auto wanted = at::infer_size_dv(size, self.numel());
  const auto fits = [&](at::IntArrayRef strides) { return at::detail::computeStride(self.sizes(), strides, wanted).has_value(); };
  const bool cpus = cpu_strides.load(std::memory_order_relaxed);
  if (fits(in_rows(self, kept))) return;
  if (!fits(cpus ? c10::DimVector(self.strides()) : laid_out(self.strides(), kept.sizes, rows_of(kept.sizes), kept.strides))) return;
  if (cpus && !program_asks()) return;
  note("unsupported", "a view of a pointwise operator's result");
  TORCH_CHECK(false, user_line(), ": view size is not compatible with input tensor's size and stride (at least one dimension spans "
              "across two contiguous subspaces). Use .reshape(...) instead. The strides of the CPU and of CUDA would allow this view; "
              "a pointwise operator's result is contiguous on hpu (", signed_by("strides"), ")");
}

}  // namespace hpu
