// What HCCL would not take, and how gloo is made to carry what HCCL takes.
#include "hccl.h"

#ifdef HPU_DISTRIBUTED

#include "device.h"
#include "locks.h"
#include "objections.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <unordered_map>

namespace hpu {
namespace {

// Replaced whole: works are issued while it may be (the profile changes with the environment).
struct Limits {
  std::unordered_map<std::string, CollectiveRule> rules;
  std::unordered_map<std::string, Refusal> refusals;
};

Leaf limits_lock("hccl's limits");
std::shared_ptr<const Limits>& held_limits() {  // under the lock
  static auto* held = new std::shared_ptr<const Limits>(std::make_shared<Limits>());
  return *held;
}

std::shared_ptr<const Limits> limits() {
  Hold hold(limits_lock);
  return held_limits();
}

std::optional<CollectiveRule> rule_for(const char* name) {
  const auto known = limits();
  const auto at = known->rules.find(name);
  return at == known->rules.end() ? std::nullopt : std::optional(at->second);
}

std::optional<Refusal> refusal_of(const std::string& key) {
  const auto known = limits();
  const auto at = known->refusals.find(key);
  return at == known->refusals.end() ? std::nullopt : std::optional(at->second);
}

std::string name_of(at::ScalarType dtype) { return std::string(c10::getDtypeNames(dtype).first); }

bool has(uint64_t dtypes, at::ScalarType dtype) { return dtypes >> static_cast<int>(dtype) & 1; }

const char* name_of(const c10d::ReduceOp& op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM: return "SUM";
    case c10d::ReduceOp::AVG: return "AVG";
    case c10d::ReduceOp::PRODUCT: return "PRODUCT";
    case c10d::ReduceOp::MIN: return "MIN";
    case c10d::ReduceOp::MAX: return "MAX";
    case c10d::ReduceOp::BAND: return "BAND";
    case c10d::ReduceOp::BOR: return "BOR";
    case c10d::ReduceOp::BXOR: return "BXOR";
    case c10d::ReduceOp::PREMUL_SUM: return "PREMUL_SUM";
    default: return "an unknown operation";
  }
}

bool is_summed_by_gloo(at::ScalarType dtype) {
  return dtype != at::kBool && carrier(at::empty({0}, at::TensorOptions(dtype))).scalar_type() == dtype;
}

void warn_of_digits(const char* name, const at::Tensor& t) {
  constexpr double kExact = 16777216;  // float32 has every whole number up to here
  if (t.numel() == 0 || t.to(at::kDouble).abs().max().item<double>() <= kExact) return;
  const auto refusal = refusal_of("digits");
  if (!refusal) return;
  if (first_at_line("demotion", name)) count(kDemotions);
  remark("demotion", refusal->code, std::string(name) + " computes " + name_of(t.scalar_type()) +
         " in float32 over hccl: values beyond 16777216 lose digits", refusal->advice);
}

}  // namespace

void object_to(const std::string& key, const std::string& what) {
  if (const auto refusal = refusal_of(key)) object("collective_limit", refusal->code, what, refusal->advice);
}

void check(const char* name, const Tensors& tensors) {
  object_to(name, std::string(name) + " over hccl");
  const auto rule = rule_for(name);
  if (!rule) return;
  for (const auto& t : tensors) {
    if (!t.defined()) continue;
    const auto dtype = t.scalar_type();
    if (rule->takes != 0 && !has(rule->takes, dtype))
      object_to("dtype", std::string(name) + " of " + name_of(dtype) + " over hccl");
    const bool travels_as_it_is = rule->exact == 0 || has(rule->exact, dtype);
    if (rule->even_bytes && travels_as_it_is && t.nbytes() % 2 != 0)
      object_to("dtype", std::string(name) + " of an odd number of bytes (" + name_of(dtype) + ") over hccl");
  }
}

void check(const char* name, const Tensors& tensors, const c10d::ReduceOp& op) {
  object_to(std::string("ReduceOp.") + name_of(op), std::string(name) + " with ReduceOp." + name_of(op) + " over hccl");
  TORCH_CHECK_NOT_IMPLEMENTED(static_cast<c10d::ReduceOp::RedOpType>(op) != c10d::ReduceOp::PREMUL_SUM, "emulated HPU: hccl has no ReduceOp.PREMUL_SUM, and "
                              "gloo, which carries it here, has none either; multiply before you reduce with SUM");
  check(name, tensors);
}

at::Tensor carrier(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kShort: case at::kUInt16: return t.view(at::kHalf);
    case at::kFloat8_e4m3fn: case at::kFloat8_e5m2: case at::kFloat8_e4m3fnuz: case at::kFloat8_e5m2fnuz:
      return t.view(at::kByte);
    case at::kUInt32: return t.view(at::kInt);
    case at::kUInt64: return t.view(at::kLong);
    default: return t;
  }
}

Tensors carriers(const Tensors& tensors) {
  Tensors out;
  for (const auto& t : tensors) out.push_back(carrier(t));
  return out;
}

std::vector<Tensors> carriers(const std::vector<Tensors>& lists) {
  std::vector<Tensors> out;
  for (const auto& l : lists) out.push_back(carriers(l));
  return out;
}

Summands::Summands(const char* name, const Tensors& tensors, bool apart) : originals_(tensors) {
  const auto rule = rule_for(name);
  Inside guard;
  for (const auto& t : tensors) {
    const bool converted = rule && rule->exact != 0 && !has(rule->exact, t.scalar_type());
    if (converted && at::isIntegralType(t.scalar_type(), false)) warn_of_digits(name, t);
    carried_.push_back(!is_summed_by_gloo(t.scalar_type()) || (converted && !observing()) ? t.to(at::kFloat)
                       : apart ? t.clone() : t);
  }
}

void Summands::settle(const c10::intrusive_ptr<c10d::Work>& work, int shares) const {
  for (size_t i = 0; i < carried_.size(); ++i) {
    const bool copied = !carried_[i].is_same(originals_[i]);
    if (!copied && shares == 1) continue;
    work->wait();
    if (copied) originals_[i].copy_(carried_[i]);
    if (shares == 1) continue;
    if (at::isIntegralType(originals_[i].scalar_type(), true)) originals_[i].div_(shares, "trunc");  // as NCCL's average
    else originals_[i].div_(shares);
  }
}

void set_collectives(const NamedCollectives& collectives, const NamedRefusals& refused) {
  auto made = std::make_shared<Limits>();
  for (const auto& [name, takes, exact, even_bytes] : collectives) made->rules[name] = {takes, exact, even_bytes};
  for (const auto& [name, code, advice] : refused) made->refusals[name] = {code, advice};
  std::shared_ptr<const Limits> before = std::move(made);
  Hold hold(limits_lock);
  std::swap(held_limits(), before);
}

}  // namespace hpu

#endif
