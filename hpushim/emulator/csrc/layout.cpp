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

// Whether reshape() asks for the view: it copies where the strides do not fit. While a dispatch mode is on, as prove's is, torch
// makes it of view() by the strides that it sees, which are the CPU's here. Only the calls on the stack tell the two apart.
bool is_for_reshape() { return c10::get_backtrace(0, 256).find("reshape") != std::string::npos; }

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

void object_to_view(const at::Tensor& self, at::IntArrayRef size) {
  const KeptLayout& kept = *block_of(self)->kept;
  const auto wanted = at::infer_size_dv(size, self.numel());
  const auto fits = [&](at::IntArrayRef strides) { return at::detail::computeStride(self.sizes(), strides, wanted).has_value(); };
  const auto rows = rows_of(kept.sizes);
  const bool cpus = cpu_strides.load(std::memory_order_relaxed);
  const bool in_rows = fits(cpus ? laid_out(self.strides(), kept.sizes, kept.strides, rows) : c10::DimVector(self.strides()));
  if (in_rows || !fits(cpus ? c10::DimVector(self.strides()) : laid_out(self.strides(), kept.sizes, rows, kept.strides))) return;
  if (cpus && is_for_reshape()) return;
  note("unsupported", "a view of a pointwise operator's result");
  TORCH_CHECK(false, user_line(), ": view size is not compatible with input tensor's size and stride (at least one dimension spans "
              "across two contiguous subspaces). Use .reshape(...) instead. The strides of the CPU and of CUDA would allow this view; "
              "a pointwise operator's result is contiguous on hpu (", signed_by("strides"), ")");
}

}  // namespace hpu
