// The facts of each operator, read from its schema and tags.
#include "operators.h"

#include "locks.h"

#include <unordered_map>
#include <unordered_set>

namespace hpu {
namespace {

bool starts_with(const std::string& text, const char* start) { return text.rfind(start, 0) == 0; }

uint64_t hash_name(const std::string& text) {
  uint64_t h = 1469598103934665603ull;
  for (unsigned char c : text) h = (h ^ c) * 1099511628211ull;
  return h;
}

// Operators whose index lists may live on the host, as on other accelerators.
bool takes_host_indices(const std::string& name) {
  return starts_with(name, "aten::index") || starts_with(name, "aten::_index_put") ||
         starts_with(name, "aten::_unsafe_index") || starts_with(name, "aten::_unsafe_masked_index");
}

bool takes_host_anywhere(const std::string& name) {
  return starts_with(name, "aten::_foreach_") || starts_with(name, "aten::_fused_ada") ||
         starts_with(name, "aten::_fused_sgd") || starts_with(name, "aten::_ctc_loss");
}

std::optional<ArgumentKind> kind_of(const c10::Argument& argument) {
  const c10::TypePtr& type = argument.real_type();
  c10::TypePtr inner = type;
  if (auto optional = type->cast<c10::OptionalType>()) inner = optional->getElementType();
  if (inner->kind() == c10::TypeKind::TensorType) return ArgumentKind::kTensor;
  if (auto list = inner->cast<c10::ListType>()) {
    const auto& element = list->getElementType();
    if (element->kind() == c10::TypeKind::TensorType) return ArgumentKind::kTensors;
    if (element->kind() == c10::TypeKind::OptionalType &&
        element->expectRef<c10::OptionalType>().getElementType()->kind() == c10::TypeKind::TensorType)
      return ArgumentKind::kOptionalTensors;
  }
  if (inner->kind() == c10::TypeKind::GeneratorType) return ArgumentKind::kGenerator;
  if (inner->kind() == c10::TypeKind::DeviceObjType) return ArgumentKind::kDevice;
  return std::nullopt;
}

// An argument's part in the graph. A number that names a dimension or a way to reduce is a choice: two values of it are
// two calls, not one call that changed.
Meaning meaning_of(const c10::Argument& argument, std::optional<ArgumentKind> kind) {
  if (kind)
    return *kind == ArgumentKind::kGenerator || *kind == ArgumentKind::kDevice ? Meaning::kNothing : Meaning::kTensors;
  const std::string& name = argument.name();
  if (name.find("dim") != std::string::npos || name == "reduction") return Meaning::kChoice;
  c10::TypePtr type = argument.real_type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (auto list = type->cast<c10::ListType>()) type = list->getElementType();
  switch (type->kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
    case c10::TypeKind::NumberType:
      return Meaning::kValue;
    default:
      return Meaning::kChoice;
  }
}

std::string without_overload(const std::string& name) { return name.substr(0, name.find('.')); }

// By name without overload; under facts_lock.
struct MarkedOperators {
  std::unordered_set<std::string> patched, whole;
  void mark(const std::string& name, const OperatorFacts& facts) const {
    facts.patched = patched.count(without_overload(name)) != 0;
    facts.takes_whole = whole.count(without_overload(name)) != 0;
  }
};
MarkedOperators& marked_operators() {
  static auto* marked = new MarkedOperators();
  return *marked;
}

std::unique_ptr<OperatorFacts> work_out(const c10::OperatorHandle& op) {
  auto facts = std::make_unique<OperatorFacts>();
  const c10::FunctionSchema& schema = op.schema();
  facts->name = c10::toString(op.operator_name());
  facts->id = hash_name(facts->name);
  facts->argument_count = schema.arguments().size();
  facts->returns = schema.returns().size();
  bool generator = false;
  facts->writes = false;
  const bool host_indices = takes_host_indices(facts->name);
  const bool host_anywhere = takes_host_anywhere(facts->name);
  for (size_t i = 0; i < facts->argument_count; ++i) {
    const auto& argument = schema.arguments()[i];
    facts->names.push_back(argument.name());
    const auto kind = kind_of(argument);
    facts->meanings.push_back(meaning_of(argument, kind));
    facts->lists.push_back(kind == ArgumentKind::kTensors || kind == ArgumentKind::kOptionalTensors);
    if (!kind) continue;
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    facts->writes |= written;
    generator |= *kind == ArgumentKind::kGenerator;
    const bool host = host_anywhere || (host_indices && *kind == ArgumentKind::kOptionalTensors);
    const bool optional = argument.real_type()->kind() == c10::TypeKind::OptionalType;
    const bool index = argument.name() == "index" || argument.name() == "indices";
    facts->arguments.push_back(
        {*kind, written, host, static_cast<uint16_t>(i), optional, argument.is_out(), index, argument.name()});
  }
  facts->pointwise = !facts->writes && op.hasTag(at::Tag::pointwise);
  facts->draws_unseen = !generator && op.hasTag(at::Tag::nondeterministic_seeded);
  facts->reads_back =
      op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output);
  facts->compute = is_compute(op.operator_name().name);
  facts->is_dropout = facts->name == "aten::native_dropout";
  facts->is_complex = facts->name == "aten::complex";
  return facts;
}

Leaf facts_lock("the operators' facts");
std::unordered_map<std::string, std::unique_ptr<OperatorFacts>>& all_facts() {
  static auto* map = new std::unordered_map<std::string, std::unique_ptr<OperatorFacts>>();
  return *map;
}

}  // namespace

const OperatorFacts& facts_of(const c10::OperatorHandle& op) {
  const std::string name = c10::toString(op.operator_name());
  {
    Hold hold(facts_lock);
    if (auto at = all_facts().find(name); at != all_facts().end()) return *at->second;
  }
  auto made = work_out(op);  // asks the dispatcher, which has locks of its own
  Hold hold(facts_lock);
  auto& slot = all_facts()[name];
  if (!slot) {
    slot = std::move(made);
    slot->rule = rule_of(name);
    marked_operators().mark(name, *slot);
  }
  return *slot;
}

void set_marked_operators(const std::vector<std::string>& patched, const std::vector<std::string>& whole) {
  Hold hold(facts_lock);
  marked_operators() = {{patched.begin(), patched.end()}, {whole.begin(), whole.end()}};
  for (auto& [name, facts] : all_facts()) marked_operators().mark(name, *facts);
}

void relabel_operators() {
  Hold hold(facts_lock);
  for (auto& [name, facts] : all_facts()) facts->rule = rule_of(name);
}

bool is_compute(const std::string& name) {
  static const auto* names = new std::unordered_map<std::string, bool>([] {
    std::unordered_map<std::string, bool> known;
    for (const char* op :
         {"mm", "addmm", "bmm", "baddbmm", "addbmm", "addmv", "dot", "convolution",
          "convolution_overrideable", "convolution_backward", "convolution_backward_overrideable",
          "embedding", "embedding_dense_backward", "native_layer_norm", "native_layer_norm_backward",
          "native_batch_norm", "native_batch_norm_backward", "native_group_norm",
          "native_group_norm_backward", "_fused_rms_norm", "_softmax", "_log_softmax",
          "_scaled_dot_product_flash_attention_for_cpu",
          "_scaled_dot_product_flash_attention_for_cpu_backward",
          "_scaled_dot_product_fused_attention_overrideable", "_addmm_activation"})
      known.emplace(std::string("aten::") + op, true);
    return known;
  }());
  return names->count(name) != 0;
}

std::vector<std::pair<std::string, int64_t>> fallback_operators() {
  std::vector<std::pair<std::string, int64_t>> out;
  Hold hold(facts_lock);
  for (const auto& [name, facts] : all_facts())
    if (const int64_t times = facts->fallbacks.load()) out.emplace_back(name, times);
  return out;
}

std::vector<std::pair<std::string, int64_t>> operator_calls() {
  std::vector<std::pair<std::string, int64_t>> out;
  Hold hold(facts_lock);
  for (const auto& [name, facts] : all_facts())
    if (const int64_t calls = facts->calls.load(std::memory_order_relaxed)) out.emplace_back(name, calls);
  return out;
}

void reset_operator_calls() {
  Hold hold(facts_lock);
  for (const auto& [name, facts] : all_facts()) {
    facts->calls.store(0);
    facts->fallbacks.store(0);
  }
}

}  // namespace hpu
