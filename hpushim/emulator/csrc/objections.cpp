// Objections under the three policies: recorded; or acted on as the device does; or raised at the first.
#include "objections.h"

#include "operators.h"

#include <ATen/Functions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <unordered_map>

namespace hpu {

std::atomic<const DtypeRule*> dtype_rules{nullptr};
void relabel_operators();  // operators.cpp

namespace {

using Rules = std::unordered_map<std::string, OperatorRule>;
std::atomic<const Rules*> operator_rules{nullptr};  // replaced whole and never freed: kernels hold pointers into it
std::atomic<Policy> policy{Policy::kObserve};
std::string device_name = "gaudi2";

void raise_if_strict(const std::string& what) {
  TORCH_CHECK_NOT_IMPLEMENTED(policy.load() != Policy::kStrict, user_line(), ": ", what, " on ", device_name,
                              " (emulated HPU, HPUSHIM_POLICY=strict); change the line, or set HPUSHIM_POLICY=observe");
}

bool takes(const OperatorRule& rule, const at::Tensor& tensor) {
  return !tensor.defined() || !is_on_hpu(tensor) || (rule.dtypes >> static_cast<int>(tensor.scalar_type()) & 1);
}

// The dtype of the first argument that the kernel does not take; Undefined if it takes all.
at::ScalarType refused_argument(const OperatorFacts& facts, const OperatorRule& rule, const torch::jit::Stack& stack) {
  const size_t first = stack.size() - facts.argument_count;
  for (const auto& argument : facts.arguments) {
    const c10::IValue& value = stack[first + argument.position];
    if (value.isTensor() && !takes(rule, value.toTensor())) return value.toTensor().scalar_type();
    if (value.isTensorList())
      for (const at::Tensor& t : value.toTensorVector())
        if (!takes(rule, t)) return t.scalar_type();
  }
  return at::ScalarType::Undefined;
}

void fall_back(const OperatorFacts& facts, const std::string& why, bool forbidden) {
  count(kCpuFallbacks);
  note("cpu_fallback", facts.name.c_str());
  facts.fallbacks.fetch_add(1, std::memory_order_relaxed);
  raise_if_strict(facts.name + " runs on the CPU" + why);
  TORCH_CHECK_NOT_IMPLEMENTED(!forbidden || policy.load() == Policy::kObserve, user_line(), ": ", facts.name,
                              " has no kernel", why, " on ", device_name, " and PT_HPU_PLACE_ON_CPU forbids the CPU"
                              " (emulated HPU); change the line, or allow the operator in PT_HPU_PLACE_ON_CPU");
}

}  // namespace

void set_objections(const std::string& device, int chosen, const NamedRules& operators, const DtypeRules& dtypes) {
  auto* rules = new Rules();
  for (const auto& [name, support, mask] : operators) rules->emplace(name, OperatorRule{static_cast<Support>(support), mask});
  auto* by_dtype = new DtypeRule[static_cast<int>(at::ScalarType::NumOptions)];
  for (const auto& [dtype, kind, narrower, text] : dtypes)
    by_dtype[dtype] = {static_cast<DtypeRule::Kind>(kind), static_cast<at::ScalarType>(narrower), text};
  device_name = device;
  policy = static_cast<Policy>(chosen);
  operator_rules.store(rules, std::memory_order_release);
  dtype_rules.store(dtypes.empty() ? nullptr : by_dtype, std::memory_order_release);
  relabel_operators();
}

const OperatorRule* rule_of(const std::string& name) {
  const Rules* rules = operator_rules.load(std::memory_order_acquire);
  if (rules == nullptr) return nullptr;
  const auto at = rules->find(name);
  return at == rules->end() ? nullptr : &at->second;
}

void object_to_operator_slow(const OperatorFacts& facts, const OperatorRule& rule, const torch::jit::Stack& stack) {
  switch (rule.support) {
    case Support::kFails:
      note("unsupported", facts.name.c_str());
      raise_if_strict(facts.name + " fails");
      TORCH_CHECK_NOT_IMPLEMENTED(policy.load() == Policy::kObserve, user_line(), ": ", facts.name,
                                  " has no kernel for hpu, neither on ", device_name,
                                  " nor on the CPU (emulated HPU); use another operator");
      return;
    case Support::kFallsBack:
    case Support::kForbidden:
      return fall_back(facts, "", rule.support == Support::kForbidden);
    case Support::kRuns:
      if (rule.dtypes == 0) return;
      if (const auto dtype = refused_argument(facts, rule, stack); dtype != at::ScalarType::Undefined)
        fall_back(facts, std::string(" for ") + c10::toString(dtype), false);
  }
}

void object_to_dtype_slow(const DtypeRule& rule) {
  const bool refused = rule.kind == DtypeRule::kRefused;
  if (!refused) count(kDemotions);
  note(refused ? "refused_dtype" : "demotion", rule.text.c_str());
  raise_if_strict(rule.text);
  TORCH_CHECK(!refused || policy.load() == Policy::kObserve, user_line(), ": ", rule.text, " on ", device_name,
              " (emulated HPU); use another dtype");
}

void narrow_slow(at::Tensor tensor, const DtypeRule& rule, bool from_host) {
  if (policy.load() == Policy::kObserve || tensor.numel() == 0) return;
  c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset |
                                           c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView));
  const at::Tensor kept = tensor.to(rule.narrower).to(tensor.scalar_type());
  TORCH_CHECK(!from_host || at::isFloatingType(rule.narrower) || kept.equal(tensor), user_line(),
              ": values do not fit: ", rule.text, " on ", device_name,
              " (emulated HPU); keep them within its range, or set PT_ENABLE_INT64_SUPPORT=1 where the device has it");
  tensor.copy_(kept);
}

}  // namespace hpu
