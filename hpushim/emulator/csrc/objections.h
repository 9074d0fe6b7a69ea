// What Gaudi would have objected to: operators without a kernel there, dtypes that it lacks or narrows.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace hpu {

struct OperatorFacts;

enum class Support : uint8_t { kRuns, kFallsBack, kForbidden, kFails };  // kForbidden: would fall back, and may not
enum class Policy : uint8_t { kObserve, kFaithful, kStrict };

Policy policy_now();

// What an argument of a call is compared with: "self.dtype == int64" asks the part "dtype" of self.
struct Condition {
  std::string argument, part, relation;  // part: dtype, ndim, or empty for the argument itself
  int64_t number;
  std::string word;  // a text to compare with, or the other argument of which the same part is asked
};

// Calls that the kernel does not serve: those of which every condition holds.
struct Exception {
  bool fails;
  std::string text;
  std::vector<Condition> when;
};

struct OperatorRule {
  Support support;
  uint64_t dtypes;  // a bit for each ScalarType that the kernel takes; 0: no list is known
  std::vector<std::pair<std::string, uint64_t>> named;  // lists of single arguments, in place of `dtypes`
  std::vector<std::string> promoted;  // arguments of which the common type is asked, instead of each one's
  std::vector<Exception> exceptions;
};

struct DtypeRule {
  enum Kind : uint8_t { kNative, kDemoted, kRefused } kind = kNative;
  at::ScalarType narrower = at::ScalarType::Undefined;
  std::string text;  // "float64 is kept as float32"
  std::string code;  // "HPU117"
};

// operator, Support, dtypes, dtypes of single arguments, promoted arguments
using NamedRules = std::vector<std::tuple<std::string, int, uint64_t, std::vector<std::pair<std::string, uint64_t>>,
                                          std::vector<std::string>>>;
// operator, fails, text, conditions (argument, part, relation, number, word)
using NamedExceptions = std::vector<std::tuple<
    std::string, bool, std::string,
    std::vector<std::tuple<std::string, std::string, std::string, int64_t, std::string>>>>;
using DtypeRules = std::vector<std::tuple<int, int, int, std::string, std::string>>;  // dtype, Kind, narrower, text, code

void set_objections(const std::string& device, int policy, const NamedRules& operators,
                    const NamedExceptions& exceptions, const DtypeRules& dtypes);
const OperatorRule* rule_of(const std::string& name);  // null: nothing to object to

// True if the device runs the call itself.
bool object_to_operator_slow(const OperatorFacts& facts, const OperatorRule& rule, const torch::jit::Stack& stack);

extern std::atomic<const DtypeRule*> dtype_rules;  // one for each ScalarType; null: none to apply
void object_to_dtype_slow(const DtypeRule& rule);
// A tensor of this dtype comes to be on the device.
inline void object_to_dtype(at::ScalarType dtype) {
  const DtypeRule* rules = dtype_rules.load(std::memory_order_acquire);
  if (rules != nullptr && rules[static_cast<int>(dtype)].kind != DtypeRule::kNative)
    object_to_dtype_slow(rules[static_cast<int>(dtype)]);
}
// The values that the device would have kept of a CPU tensor, in place; nothing when the policy is to observe.
void narrow_slow(at::Tensor tensor, const DtypeRule& rule, bool from_host);
// The largest magnitude of float8_e4m3fn where it is not torch's; 0: it is (range.cpp).
extern std::atomic<float> e4m3_limit;
void set_e4m3_limit(float limit, const std::string& code);
void keep_in_range(at::Tensor tensor);
inline void narrow(const at::Tensor& tensor, bool from_host = false) {
  if (C10_UNLIKELY(tensor.defined() && tensor.scalar_type() == at::ScalarType::Float8_e4m3fn &&
                   e4m3_limit.load(std::memory_order_relaxed) > 0))
    keep_in_range(tensor);
  const DtypeRule* rules = dtype_rules.load(std::memory_order_acquire);
  if (rules == nullptr || !tensor.defined()) return;
  const DtypeRule& rule = rules[static_cast<int>(tensor.scalar_type())];
  if (rule.kind == DtypeRule::kDemoted) narrow_slow(tensor, rule, from_host);
}

std::string user_line();  // "train.py:12" (sites.cpp)
// True at the first time that the user's line meets `what` (sites.cpp).
bool first_at_line(const char* kind, const char* what);

// Something that Gaudi does not do. Noted; told once for each `what`, with code and line; raised unless the policy is
// to observe.
void object(const char* kind, const std::string& code, const std::string& what, const std::string& advice);
// Something that Gaudi does otherwise: noted and told; raised under the strict policy alone.
void remark(const char* kind, const std::string& code, const std::string& what, const std::string& advice);
bool observing();
// `refused`: a Gaudi would have ended the program here.
using Teller = void (*)(const std::string& code, const std::string& line, const std::string& text, bool refused);
void set_teller(Teller teller);
// While a graph is being captured no operator may leave the device.
void set_capturing(bool on);

}  // namespace hpu
