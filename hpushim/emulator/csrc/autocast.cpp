// torch.autocast("hpu"): one boxed kernel, and lists that are data (they come from the compatibility matrix).
#include "device.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <unordered_map>

namespace hpu {
namespace {

using c10::IValue;
using torch::jit::Stack;

enum class Cast { kLower, kLowerFirst, kFloat32, kWidest };

// Also of a fake tensor, by which torch.compile learns of a dtype: its device is hpu, its memory is not.
bool counts(const at::Tensor& t) {
  return t.defined() && t.device().type() == at::kHPU && t.is_floating_point() && t.scalar_type() != at::kDouble;
}

// Every tensor among the arguments, alone or in a list, replaced by what `change` gives.
template <class F>
void for_tensors(Stack* stack, size_t arguments, bool first_only, F change) {
  const size_t first = stack->size() - arguments;
  for (size_t i = first; i < stack->size(); ++i) {
    IValue& value = (*stack)[i];
    if (value.isTensor()) {
      value = change(value.toTensor());
      if (first_only) return;
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> out;
      for (const at::Tensor& t : value.toTensorVector()) out.push_back(change(t));
      value = std::move(out);
    }
  }
}

at::ScalarType widest(Stack* stack, size_t arguments) {
  auto found = at::autocast::get_autocast_dtype(at::kHPU);
  for_tensors(stack, arguments, false, [&](const at::Tensor& t) {
    if (counts(t) && t.scalar_type() == at::kFloat) found = at::kFloat;
    return t;
  });
  return found;
}

struct CastKernel final : c10::OperatorKernel {
  explicit CastKernel(Cast how) : how(how) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    c10::impl::ExcludeDispatchKeyGuard once(c10::DispatchKey::AutocastHPU);
    const size_t arguments = op.schema().arguments().size();
    const auto to = how == Cast::kFloat32  ? at::kFloat
                    : how == Cast::kWidest ? widest(stack, arguments)
                                           : at::autocast::get_autocast_dtype(at::kHPU);
    for_tensors(stack, arguments, how == Cast::kLowerFirst, [&](const at::Tensor& t) {
      return counts(t) && t.scalar_type() != to ? at::autocast::cached_cast(to, t, at::kHPU) : t;
    });
    op.callBoxed(stack);
  }
  const Cast how;
};

torch::Library* registered = nullptr;  // outlives the threads that call its kernels

}  // namespace

void set_autocast_lists(const std::vector<std::string>& lower, const std::vector<std::string>& lower_first,
                        const std::vector<std::string>& float32, const std::vector<std::string>& widest) {
  std::unordered_map<std::string, Cast> wanted;  // a name on several lists counts for the first
  for (const auto& n : lower_first) wanted.emplace(n, Cast::kLowerFirst);
  for (const auto& n : lower) wanted.emplace(n, Cast::kLower);
  for (const auto& n : float32) wanted.emplace(n, Cast::kFloat32);
  for (const auto& n : widest) wanted.emplace(n, Cast::kWidest);
  delete registered;
  registered = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutocastHPU, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto found = wanted.find(name.name.substr(6));
    if (found == wanted.end()) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || op->schema().is_mutable()) continue;
    const std::string full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    registered->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunctor(
                                       std::make_unique<CastKernel>(found->second)));
  }
}

void register_autocast_fallthrough() {
  static auto* all = new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::AutocastHPU, __FILE__, __LINE__);
  all->fallback(torch::CppFunction::makeFallthrough());
}

}  // namespace hpu
