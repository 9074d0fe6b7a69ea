// What HCCL would not take, and how gloo is made to carry what HCCL takes.
#include "hccl.h"

#ifdef HPU_DISTRIBUTED

#include "device.h"
#include "objections.h"

#include <ATen/Functions.h>

#include <unordered_map>

namespace hpu {
namespace {

std::unordered_map<std::string, CollectiveRule>& rules() {
  static auto* map = new std::unordered_map<std::string, CollectiveRule>();
  return *map;
}

std::unordered_map<std::string, Refusal>& refusals() {
  static auto* map = new std::unordered_map<std::string, Refusal>();
  return *map;
}

const CollectiveRule* rule_for(const char* name) {
  const auto at = rules().find(name);
  return at == rules().end() ? nullptr : &at->second;
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
  const auto at = refusals().find("digits");
  if (at == refusals().end()) return;
  if (first_at_line("demotion", name)) count(kDemotions);
  remark("demotion", at->second.code, std::string(name) + " computes " + name_of(t.scalar_type()) +
         " in float32 over hccl: values beyond 16777216 lose digits", at->second.advice);
}

}  // namespace

void object_to(const std::string& key, const std::string& what) {
  const auto at = refusals().find(key);
  if (at != refusals().end()) object("collective_limit", at->second.code, what, at->second.advice);
}

void check(const char* name, const Tensors& tensors) {
  object_to(name, std::string(name) + " over hccl");
  const CollectiveRule* rule = rule_for(name);
  if (rule == nullptr) return;
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

Summands::Summands(const char* name, const Tensors& tensors) : originals_(tensors) {
  const CollectiveRule* rule = rule_for(name);
  Inside guard;
  for (const auto& t : tensors) {
    const bool converted = rule != nullptr && rule->exact != 0 && !has(rule->exact, t.scalar_type());
    if (converted && at::isIntegralType(t.scalar_type(), false)) warn_of_digits(name, t);
    carried_.push_back(!is_summed_by_gloo(t.scalar_type()) || (converted && !observing()) ? t.to(at::kFloat) : t);
  }
}

void Summands::settle(const c10::intrusive_ptr<c10d::Work>& work) const {
  for (size_t i = 0; i < carried_.size(); ++i) {
    if (carried_[i].is_same(originals_[i])) continue;
    work->wait();
    originals_[i].copy_(carried_[i]);
  }
}

void set_collectives(const NamedCollectives& collectives, const NamedRefusals& refused) {
  rules().clear();
  refusals().clear();
  for (const auto& [name, takes, exact, even_bytes] : collectives) rules()[name] = {takes, exact, even_bytes};
  for (const auto& [name, code, advice] : refused) refusals()[name] = {code, advice};
}

}  // namespace hpu

#endif
