// CPU kernels know fewer of the narrow dtypes than the device does. Where one lacks a floating dtype that the device
// computes in, or whole numbers that it takes, it runs in float32 and the results are rounded or cut off to that dtype; where one
// wants positions in 64 bits, it gets them.
#include "widen.h"

#include <ATen/native/TypeProperties.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>

namespace hpu {
namespace {

using c10::IValue;
using torch::jit::Stack;

constexpr uint64_t bit(at::ScalarType dtype) { return 1ull << static_cast<int>(dtype); }
constexpr uint64_t kNarrow = bit(at::ScalarType::BFloat16) | bit(at::ScalarType::Half) |
                             bit(at::ScalarType::Float8_e5m2) | bit(at::ScalarType::Float8_e4m3fn);

constexpr uint64_t kWhole = bit(at::kBool) | bit(at::kByte) | bit(at::kChar) | bit(at::kShort) | bit(at::kInt) | bit(at::kLong);

constexpr uint64_t kIndex = 1ull << 63;  // beside the dtypes: positions in 32 bits

// The dtypes that go through float32 where the CPU's kernel lacks them.
uint64_t widened(const OperatorFacts& facts) {
  return facts.takes_whole.load(std::memory_order_relaxed) ? kNarrow | kWhole : kNarrow;
}

// The narrow dtypes among the arguments, as bits.
uint64_t narrow_dtypes(const OperatorFacts& facts, const Stack& stack) {
  const size_t first = stack.size() - facts.argument_count;
  uint64_t found = 0;
  const auto add = [&](const at::Tensor& t) {
    if (t.defined()) found |= bit(t.scalar_type());
  };
  for (const auto& argument : facts.arguments) {
    const IValue& value = stack[first + argument.position];
    if (value.isTensor()) {
      add(value.toTensor());
      if (argument.is_index && value.toTensor().defined() && value.toTensor().scalar_type() == at::kInt) found |= kIndex;
    } else if (argument.kind == ArgumentKind::kTensors || argument.kind == ArgumentKind::kOptionalTensors) {
      if (!value.isList()) continue;
      for (const IValue& item : value.toListRef())
        if (item.isTensor()) add(item.toTensor());
    }
  }
  return found & (widened(facts) | kIndex);
}

bool lacks_a_kernel(const c10::Error& error) {
  const std::string& text = error.msg();
  for (const char* said : {"not implemented for '", "Unsupported datatype",  // the latter of _add_relu
                           "Promotion for Float8 Types is not supported", "Expected a long tensor for index",
                           "Expected dtype int64 for index"})
    if (text.find(said) != std::string::npos) return true;
  return false;
}

// The wide stand-ins of the arguments, and the way back.
class Wide {
 public:
  explicit Wide(uint64_t dtypes) : dtypes_(dtypes) {}

  bool takes(const at::Tensor& tensor) const { return tensor.defined() && (dtypes_ & bit(tensor.scalar_type())) != 0; }

  at::Tensor of(const at::Tensor& narrow) {
    if (!takes(narrow)) return narrow;
    for (const auto& [from, to] : pairs_)
      if (from.is_same(narrow)) return to;
    pairs_.emplace_back(narrow, narrow.to(at::kFloat));
    state_ = at::native::update_result_type_state(narrow, state_);
    return pairs_.back().second;
  }

  void keep_in_mind(const at::Tensor& other) {
    if (other.defined() && at::isFloatingType(other.scalar_type())) state_ = at::native::update_result_type_state(other, state_);
  }

  void write_back(const at::Tensor& narrow) const {
    for (const auto& [from, to] : pairs_) {
      if (!from.is_same(narrow)) continue;
      if (from.sizes() != to.sizes()) from.resize_(to.sizes());
      from.copy_(to);
    }
  }

  at::Tensor back(const at::Tensor& result) const {
    if (!result.defined()) return result;
    for (const auto& [from, to] : pairs_)
      if (to.is_same(result)) return from;
    if (result.scalar_type() != at::kFloat) return result;
    const auto wanted = at::native::result_type(state_);
    return (dtypes_ & bit(wanted)) != 0 ? result.to(wanted) : result;
  }

 private:
  uint64_t dtypes_;
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
  at::native::ResultTypeState state_ = {};
};

template <class Change>
void change(IValue& value, const Change& to) {
  if (value.isTensor()) {
    value = to(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor& t : value.toTensorVector()) out.push_back(to(t));
    value = std::move(out);
  } else if (value.isList()) {  // of optional tensors
    c10::List<std::optional<at::Tensor>> out;
    for (const IValue& item : value.toListRef())
      out.push_back(item.isTensor() ? std::optional<at::Tensor>(to(item.toTensor())) : std::nullopt);
    value = std::move(out);
  }
}

// The device multiplies the result of _scaled_mm by scale_result, where torch's CPU kernel divides by it; and _add_relu rounds
// other * alpha to the dtype before it adds.
void compute_as_the_device_does(const OperatorFacts& facts, Stack* stack) {
  const bool adds = facts.name.rfind("aten::_add_relu", 0) == 0;
  if (!adds && facts.name.rfind("aten::_scaled_mm", 0) != 0) return;
  const size_t first = stack->size() - facts.argument_count;
  const auto argument = [&](const char* name) -> IValue& {
    const auto at = std::find(facts.names.begin(), facts.names.end(), name);
    return (*stack)[first + static_cast<size_t>(at - facts.names.begin())];
  };
  if (!adds) {
    IValue& scale = argument("scale_result");
    if (scale.isTensor()) scale = scale.toTensor().reciprocal();
    return;
  }
  IValue &other = argument("other"), &alpha = argument("alpha");
  const at::Tensor addend = other.isTensor() ? other.toTensor() : at::scalar_tensor(other.toScalar(), at::kFloat);
  const auto rounded = addend.mul(alpha.toScalar()).to(argument("self").toTensor().scalar_type());
  other = other.isTensor() ? IValue(rounded) : IValue(rounded.item());
  alpha = at::Scalar(1);
}

void run_wide(const OperatorFacts& facts, const c10::OperatorHandle& op, Stack* stack) {
  Wide wide(widened(facts));
  std::vector<at::Tensor> written;
  auto asked = at::ScalarType::Undefined;  // a dtype that the caller names
  const size_t first = stack->size() - facts.argument_count;
  for (size_t i = 0; i < facts.argument_count; ++i) {
    IValue& value = (*stack)[first + i];
    if ((facts.names[i] != "dtype" && facts.names[i] != "out_dtype") || !value.isInt()) continue;
    asked = value.toScalarType();
    if ((kNarrow & bit(asked)) != 0) value = at::kFloat;
  }
  for (const auto& argument : facts.arguments) {
    if (argument.kind == ArgumentKind::kGenerator || argument.kind == ArgumentKind::kDevice) continue;
    change((*stack)[first + argument.position], [&](const at::Tensor& t) {
      if (argument.written) written.push_back(t);
      if (argument.is_index && t.defined() && t.scalar_type() == at::kInt) return t.to(at::kLong);
      if (!wide.takes(t)) wide.keep_in_mind(t);
      return wide.of(t);
    });
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  for (const at::Tensor& t : written) wide.write_back(t);
  for (size_t i = stack->size() - facts.returns; i < stack->size(); ++i)
    change((*stack)[i], [&](const at::Tensor& t) {
      const bool plain = asked != at::ScalarType::Undefined && t.defined() && at::isFloatingType(t.scalar_type());
      return plain ? t.to(asked) : wide.back(t);
    });
}

}  // namespace

void run_cpu_kernel(const OperatorFacts& facts, const c10::OperatorHandle& op, Stack* stack, bool device_runs) {
  const uint64_t narrow = narrow_dtypes(facts, *stack);
  if (C10_LIKELY(narrow == 0) || !device_runs) {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    return;
  }
  compute_as_the_device_does(facts, stack);
  if ((facts.lacks.load(std::memory_order_relaxed) & narrow) != 0) return run_wide(facts, op, stack);
  const size_t first = stack->size() - facts.argument_count;
  Stack kept(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
  try {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  } catch (const c10::Error& error) {
    if (!lacks_a_kernel(error)) throw;
    facts.lacks.fetch_or(narrow, std::memory_order_relaxed);
    stack->resize(first);
    stack->insert(stack->end(), kept.begin(), kept.end());
    run_wide(facts, op, stack);
  }
}

}  // namespace hpu
