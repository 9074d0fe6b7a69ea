// Objections under the three policies: recorded; or acted on as the device does; or raised at the first.
#include "objections.h"

#include "locks.h"
#include "recorder.h"

#include <ATen/native/TypeProperties.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <unordered_map>
#include <unordered_set>

namespace hpu {

std::atomic<const DtypeRule*> dtype_rules{nullptr};
void relabel_operators();  // operators.cpp

namespace {

// What is objected to. Replaced whole when the environment changes and never freed: kernels hold pointers into it.
struct Objections {
  std::string device = "gaudi2";
  Policy policy = Policy::kObserve;
  std::unordered_map<std::string, OperatorRule> operators;
  std::vector<DtypeRule> dtypes;
};

std::atomic<const Objections*> in_force{new Objections()};
std::atomic<Teller> teller{nullptr};
std::atomic<bool> capturing{false};
Leaf told_lock("what was told");

const Objections& now_in_force() { return *in_force.load(std::memory_order_acquire); }
const std::string& device_name() { return now_in_force().device; }

void tell_once(const std::string& code, const std::string& what, const std::string& text, bool refused) {
  static auto* told = new std::unordered_set<std::string>();
  const Teller say = teller.load();
  if (say == nullptr) return;
  {
    Hold hold(told_lock);
    if (!told->insert(code + what).second) return;
  }
  say(code, user_line(), text, refused);
}

void raise_if_strict(const std::string& what) {
  TORCH_CHECK_NOT_IMPLEMENTED(policy_now() != Policy::kStrict, user_line(), ": ", what, " on ", device_name(),
                              " (emulated HPU, HPUSHIM_POLICY=strict); change the line, or set HPUSHIM_POLICY=observe");
}

bool takes(uint64_t dtypes, const at::Tensor& tensor) {
  return !tensor.defined() || !is_on_hpu(tensor) || (dtypes >> static_cast<int>(tensor.scalar_type()) & 1);
}

// The dtypes that the kernel takes for an argument; 0: the argument is not asked.
uint64_t dtypes_of(const OperatorRule& rule, const Argument& argument) {
  for (const auto& [name, dtypes] : rule.named)
    if (name == argument.name) return dtypes;
  if (!rule.named.empty() || argument.optional || argument.is_out) return 0;
  if (!rule.promoted.empty() &&
      std::find(rule.promoted.begin(), rule.promoted.end(), argument.name) == rule.promoted.end())
    return 0;
  return rule.dtypes;
}

// The common type of the promoted arguments, or the one that is asked for by `dtype`.
at::ScalarType common_type(const OperatorFacts& facts, const OperatorRule& rule, const torch::jit::Stack& stack) {
  const size_t first = stack.size() - facts.argument_count;
  at::native::ResultTypeState state = {};
  for (size_t i = 0; i < facts.argument_count; ++i) {
    const c10::IValue& value = stack[first + i];
    if (facts.names[i] == "dtype" && value.isInt()) return value.toScalarType();
    if (std::find(rule.promoted.begin(), rule.promoted.end(), facts.names[i]) == rule.promoted.end()) continue;
    if (value.isTensor() && value.toTensor().defined())
      state = at::native::update_result_type_state(value.toTensor(), state);
    else if (value.isScalar())
      state = at::native::update_result_type_state(value.toScalar(), state);
  }
  return at::native::result_type(state);
}

// The dtype of the first argument that the kernel does not take; Undefined if it takes all.
at::ScalarType refused_argument(const OperatorFacts& facts, const OperatorRule& rule, const torch::jit::Stack& stack) {
  const size_t first = stack.size() - facts.argument_count;
  auto refused = at::ScalarType::Undefined;
  for (const auto& argument : facts.arguments) {
    const uint64_t dtypes = dtypes_of(rule, argument);
    if (dtypes == 0) continue;
    const c10::IValue& value = stack[first + argument.position];
    if (value.isTensor() && !takes(dtypes, value.toTensor())) refused = value.toTensor().scalar_type();
    if (value.isTensorList())
      for (const at::Tensor& t : value.toTensorVector())
        if (!takes(dtypes, t)) refused = t.scalar_type();
    if (refused != at::ScalarType::Undefined) break;
  }
  if (refused == at::ScalarType::Undefined || rule.promoted.empty()) return refused;
  const auto common = common_type(facts, rule, stack);
  return rule.dtypes >> static_cast<int>(common) & 1 ? at::ScalarType::Undefined : common;
}

// A dtype, a number of dimensions, a number or a flag as a number; 0 and -1 stand for what is not given.
int64_t measure(const c10::IValue& value, const std::string& part) {
  if (part == "dtype" || part == "ndim") {
    if (!value.isTensor() || !value.toTensor().defined()) return -1;
    return part == "ndim" ? value.toTensor().dim() : static_cast<int64_t>(value.toTensor().scalar_type());
  }
  if (value.isBool()) return value.toBool();
  if (value.isInt()) return value.toInt();
  if (value.isTensor()) return value.toTensor().defined();
  return !value.isNone();
}

bool holds(const OperatorFacts& facts, const Condition& condition, const torch::jit::Stack& stack) {
  const auto value_of = [&](const std::string& name) -> const c10::IValue* {
    const auto at = std::find(facts.names.begin(), facts.names.end(), name);
    if (at == facts.names.end()) return nullptr;
    return &stack[stack.size() - facts.argument_count + static_cast<size_t>(at - facts.names.begin())];
  };
  const c10::IValue* value = value_of(condition.argument);
  if (value == nullptr) return false;
  const bool wants_equal = condition.relation == "==";
  if (value->isString()) return (value->toStringRef() == condition.word) == wants_equal;
  int64_t expected = condition.number;
  if (!condition.word.empty()) {
    const c10::IValue* other = value_of(condition.word);
    if (other == nullptr) return false;
    if (condition.relation == "is") return value->isTensor() && other->isTensor() && value->is(*other);
    expected = measure(*other, condition.part);
  }
  const int64_t found = measure(*value, condition.part);
  return condition.relation == ">=" ? found >= expected : (found == expected) == wants_equal;
}

const Exception* exception_of(const OperatorFacts& facts, const OperatorRule& rule, const torch::jit::Stack& stack) {
  for (const auto& exception : rule.exceptions)
    if (std::all_of(exception.when.begin(), exception.when.end(),
                    [&](const Condition& one) { return holds(facts, one, stack); }))
      return &exception;
  return nullptr;
}

void fail(const OperatorFacts& facts, const std::string& why, const std::string& instead) {
  note("unsupported", facts.name.c_str());
  raise_if_strict(facts.name + " fails");
  const std::string text = facts.name + " does not work on " + device_name() + ": " + why;
  TORCH_CHECK_NOT_IMPLEMENTED(policy_now() == Policy::kObserve, user_line(), ": ", text, "; ", instead, " (emulated HPU)");
  tell_once("HPU118", facts.name + why, text, true);
}

void fall_back(const OperatorFacts& facts, const std::string& why, bool forbidden) {
  count(kCpuFallbacks);
  end_graph(facts.name.c_str());  // the CPU needs what the pending graph computes
  note("cpu_fallback", facts.name.c_str());
  facts.fallbacks.fetch_add(1, std::memory_order_relaxed);
  TORCH_CHECK(!capturing.load() || policy_now() == Policy::kObserve, user_line(), ": ", facts.name, why,
              " runs on the CPU on ", device_name(), ", which is not possible while a graph is captured (emulated HPU); "
              "keep the line out of the captured part");
  raise_if_strict(facts.name + " runs on the CPU" + why);
  TORCH_CHECK_NOT_IMPLEMENTED(!forbidden || policy_now() == Policy::kObserve, user_line(), ": ", facts.name,
                              " has no kernel", why, " on ", device_name(), " and PT_HPU_PLACE_ON_CPU forbids the CPU"
                              " (emulated HPU); change the line, or allow the operator in PT_HPU_PLACE_ON_CPU");
}

}  // namespace

void set_objections(const std::string& device, int chosen, const NamedRules& operators,
                    const NamedExceptions& exceptions, const DtypeRules& dtypes) {
  static auto* all = new std::vector<std::unique_ptr<Objections>>();  // a few: one for each profile of the process
  static Leaf lock("the objections");
  auto made = std::make_unique<Objections>();
  made->device = device;
  made->policy = static_cast<Policy>(chosen);
  for (const auto& [name, support, mask, named, promoted] : operators)
    made->operators.emplace(name, OperatorRule{static_cast<Support>(support), mask, named, promoted, {}});
  for (const auto& [name, fails, text, when] : exceptions) {
    auto& rule = made->operators.try_emplace(name, OperatorRule{Support::kRuns, 0, {}, {}, {}}).first->second;
    Exception exception{fails, text, {}};
    for (const auto& [argument, part, relation, number, word] : when)
      exception.when.push_back({argument, part, relation, number, word});
    rule.exceptions.push_back(std::move(exception));
  }
  made->dtypes.resize(static_cast<size_t>(at::ScalarType::NumOptions));
  for (const auto& [dtype, kind, narrower, text, code] : dtypes)
    made->dtypes[dtype] = {static_cast<DtypeRule::Kind>(kind), static_cast<at::ScalarType>(narrower), text, code};
  in_force.store(made.get(), std::memory_order_release);
  dtype_rules.store(dtypes.empty() ? nullptr : made->dtypes.data(), std::memory_order_release);
  {
    Hold hold(lock);
    all->push_back(std::move(made));
  }
  relabel_operators();
}

Policy policy_now() { return now_in_force().policy; }

const OperatorRule* rule_of(const std::string& name) {
  const auto& rules = now_in_force().operators;
  const auto at = rules.find(name);
  return at == rules.end() ? nullptr : &at->second;
}

bool object_to_operator_slow(const OperatorFacts& facts, const OperatorRule& rule, const torch::jit::Stack& stack) {
  switch (rule.support) {
    case Support::kFails:
      fail(facts, "it has no kernel for hpu, and none on the CPU", "use another operator");
      return false;
    case Support::kFallsBack:
    case Support::kForbidden:
      fall_back(facts, "", rule.support == Support::kForbidden);
      return false;
    case Support::kRuns:
      if (const Exception* found = exception_of(facts, rule, stack)) {
        if (found->fails)
          fail(facts, found->text, "HPUSHIM_POLICY=observe goes on");
        else
          fall_back(facts, " (" + found->text + ")", false);
        return false;
      }
      if (rule.dtypes == 0 && rule.named.empty()) return true;
      if (const auto dtype = refused_argument(facts, rule, stack); dtype != at::ScalarType::Undefined) {
        fall_back(facts, std::string(" for ") + c10::toString(dtype), false);
        return false;
      }
  }
  return true;
}

void object_to_dtype_slow(const DtypeRule& rule) {
  const bool refused = rule.kind == DtypeRule::kRefused;
  if (!refused && first_at_line("demotion", rule.text.c_str())) count(kDemotions);
  note(refused ? "refused_dtype" : "demotion", rule.text.c_str());
  // Whole numbers that do not fit are told where they are narrowed; those that fit lose nothing.
  if (refused || at::isFloatingType(rule.narrower)) raise_if_strict(rule.code + " " + rule.text);
  TORCH_CHECK(!refused || policy_now() == Policy::kObserve, user_line(), ": ", rule.code, " ", rule.text, " on ", device_name(),
              " (emulated HPU); use another dtype");
  if (refused) tell_once(rule.code, rule.text, rule.text + " on " + device_name() + ": use another dtype", true);
}

void narrow_slow(at::Tensor tensor, const DtypeRule& rule, bool from_host) {
  if (policy_now() == Policy::kObserve || tensor.numel() == 0) return;
  c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset |
                                           c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView));
  const at::Tensor kept = tensor.to(rule.narrower).to(tensor.scalar_type());
  // Lazy mode checks the range of floating numbers as well, infinities and NaN apart.
  const bool floating = at::isFloatingType(rule.narrower);
  const bool fits = !from_host || (floating ? !host_arguments_move.load() || kept.isfinite().equal(tensor.isfinite())
                                            : kept.equal(tensor));
  TORCH_CHECK(fits, user_line(),
              ": values do not fit: ", rule.text, " on ", device_name(),
              " (emulated HPU); keep them within its range", floating ? "" : ", or set PT_ENABLE_INT64_SUPPORT=1 where the device has it");
  tensor.copy_(kept);
}

void object(const char* kind, const std::string& code, const std::string& what, const std::string& advice) {
  note(kind, what.c_str());
  const std::string text = what + " does not work on " + device_name() + ": " + advice;
  TORCH_CHECK_NOT_IMPLEMENTED(policy_now() == Policy::kObserve, user_line(), ": ", code, " ", text,
                              " (emulated HPU; HPUSHIM_POLICY=observe goes on)");
  tell_once(code, what, text, true);
}

void remark(const char* kind, const std::string& code, const std::string& what, const std::string& advice) {
  note(kind, what.c_str());
  raise_if_strict(code + " " + what);
  tell_once(code, what, what + " on " + device_name() + ": " + advice, false);
}

bool observing() { return policy_now() == Policy::kObserve; }

void set_teller(Teller say) { teller.store(say); }

void set_capturing(bool on) { capturing.store(on); }

}  // namespace hpu
