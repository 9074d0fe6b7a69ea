// The ledger: counters, and the graphs that lazy mode would have compiled, by structure and by shapes.
//
// Execution is immediate and never depends on any of this. In lazy mode a graph runs from one mark (mark_step or a
// host sync) to the next; in eager mode every operator is a graph of its own.
#include "recorder.h"

#include <ATen/record_function.h>

#include <exception>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace hpu {

std::atomic<int64_t> counters[kCounters];
const char* const counter_names[kCounters] = {
    "operators", "mark_steps", "graphs", "graph_runs", "recompilations", "host_syncs", "host_to_device",
    "device_to_host", "host_to_device_bytes", "device_to_host_bytes", "cpu_fallbacks", "demotions",
    "collectives", "synchronizes", "compute_hpu"};
std::atomic<bool> sites_on{false};
std::atomic<bool> graphs_on{false};
std::atomic<bool> trace_on{false};
thread_local int inside = 0;

namespace {

using Words = std::vector<uint64_t>;

constexpr size_t kMostOperators = 1 << 16;  // a graph longer than this is cut, so that memory stays flat
constexpr size_t kMostKnown = 1 << 16;
constexpr size_t kMostCauses = 200;
constexpr uint64_t kInput = 1ull << 31;
constexpr uint64_t kTensor = 1ull << 63;  // marks the word that opens a tensor among the shapes

uint64_t hash_words(const Words& words, uint64_t h = 1469598103934665603ull) {
  for (uint64_t w : words) {
    h ^= w + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
    h *= 1099511628211ull;
  }
  return h;
}

struct Step {
  const OperatorFacts* facts;
  size_t shapes_from;
};

struct Trail {
  Words structure;  // operators, their wiring, their integer and boolean arguments
  Words shapes;     // per tensor: dtype, dimensions, sizes, layout
  std::vector<Step> steps;
  void clear() {
    structure.clear();
    shapes.clear();
    steps.clear();
  }
};

struct Known {
  std::unordered_set<uint64_t> shapes;
  Trail last;
};

struct Books {
  std::mutex mutex;
  bool lazy = false;
  uint64_t number = 1;  // of the pending graph
  uint64_t inputs = 0;
  Trail pending;
  std::unordered_map<uint64_t, Known> known;
  std::vector<Cause> causes;
};

Books& books() {
  static auto* one = new Books();
  return *one;
}

Block* block_of(const at::Tensor& t) {
  auto* impl = t.unsafeGetTensorImpl();
  if (!impl->has_storage()) return nullptr;
  const auto& held = impl->unsafe_storage().unsafeGetStorageImpl()->data_ptr();
  return held.get_deleter() == &release_block ? static_cast<Block*>(held.get_context()) : nullptr;
}

void add_tensor(Books& b, const at::Tensor& t) {
  Words& structure = b.pending.structure;
  Words& shapes = b.pending.shapes;
  if (!t.defined()) {
    structure.push_back(0);
    return;
  }
  uint64_t from = is_on_hpu(t) ? 1 : 2;
  if (Block* block = block_of(t); block != nullptr && from == 1) {
    from = block->source.load(std::memory_order_relaxed);
    if (from >> 32 != b.number) {
      from = b.number << 32 | kInput | b.inputs++;
      block->source.store(from, std::memory_order_relaxed);
    }
    from &= 0xffffffffull;
  }
  structure.push_back(from + 3);
  auto* impl = t.unsafeGetTensorImpl();
  const auto sizes = impl->sizes();
  shapes.push_back(kTensor | static_cast<uint64_t>(t.scalar_type()) << 32 | sizes.size() << 1 |
                   impl->is_contiguous());
  for (int64_t s : sizes) shapes.push_back(static_cast<uint64_t>(s));
}

void add_value(Books& b, const c10::IValue& value) {
  Words& structure = b.pending.structure;
  if (value.isTensor()) {
    add_tensor(b, value.toTensor());
  } else if (value.isTensorList()) {
    structure.push_back(value.toTensorVector().size());
    for (const at::Tensor& t : value.toTensorVector()) add_tensor(b, t);
  } else if (value.isInt()) {
    b.pending.shapes.push_back(static_cast<uint64_t>(value.toInt()));
  } else if (value.isBool()) {
    structure.push_back(value.toBool() ? 5 : 4);
  } else if (value.isIntList()) {
    for (int64_t i : value.toIntVector()) b.pending.shapes.push_back(static_cast<uint64_t>(i));
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) add_value(b, item);
  }
}

std::string describe(const Trail& trail, size_t step) {
  const size_t to = step + 1 < trail.steps.size() ? trail.steps[step + 1].shapes_from : trail.shapes.size();
  std::string out;
  for (size_t i = trail.steps[step].shapes_from; i < to; ++i) {
    const uint64_t word = trail.shapes[i];
    const size_t dims = (word & 0xffffffffull) >> 1;
    if ((word & kTensor) == 0 || static_cast<int64_t>(word) < 0 && word >> 40 == 0xffffff) {
      out += " " + std::to_string(static_cast<int64_t>(word));  // an integer argument
      continue;
    }
    const auto dtype = static_cast<at::ScalarType>((word & ~kTensor) >> 32);
    out += std::string(" ") + c10::toString(dtype) + "[";
    for (size_t d = 0; d < dims && i + 1 < to; ++d)
      out += (d ? "," : "") + std::to_string(static_cast<int64_t>(trail.shapes[++i]));
    out += "]";
  }
  return out.empty() ? out : out.substr(1);
}

void find_cause(Books& b, const Trail& before) {
  const Trail& now = b.pending;
  const size_t n = std::min(now.steps.size(), before.steps.size());
  for (size_t i = 0; i < n; ++i) {
    const std::string was = describe(before, i);
    const std::string is = describe(now, i);
    if (was == is) continue;
    for (auto& c : b.causes) {
      if (c.name == now.steps[i].facts->name && c.before == was && c.after == is) {
        ++c.count;
        return;
      }
    }
    if (b.causes.size() < kMostCauses)
      b.causes.push_back({now.steps[i].facts->name, i, was, is, 1});
    return;
  }
}

// The pending graph is complete: is it new, and if its structure was there before, what changed?
void close(Books& b) {
  if (b.pending.steps.empty()) return;
  count(kGraphRuns);
  const uint64_t structure = hash_words(b.pending.structure);
  const uint64_t shapes = hash_words(b.pending.shapes);
  auto found = b.known.find(structure);
  const bool seen = found != b.known.end();
  if (!seen && b.known.size() < kMostKnown) found = b.known.emplace(structure, Known()).first;
  if (found != b.known.end() && found->second.shapes.insert(shapes).second) {
    count(kGraphs);
    if (seen) {
      count(kRecompilations);
      find_cause(b, found->second.last);
      note("recompilation", b.pending.steps.front().facts->name.c_str());
    }
    found->second.last = b.pending;
  }
  b.pending.clear();
  b.inputs = 0;
  ++b.number;
}

bool counts_as_operator(const OperatorFacts& facts) { return inside == 0 && !facts.name.empty(); }

}  // namespace

void observe(const OperatorFacts& facts, const torch::jit::Stack& stack) {
  if (!counts_as_operator(facts)) return;
  facts.calls.fetch_add(1, std::memory_order_relaxed);
  count(kOperators);
  if (facts.compute) count(kComputeHpu);
  if (trace_on.load(std::memory_order_relaxed)) note("operator", facts.name.c_str());
  if (!graphs_on.load(std::memory_order_relaxed)) return;
  Books& b = books();
  std::lock_guard<std::mutex> lock(b.mutex);
  b.pending.steps.push_back({&facts, b.pending.shapes.size()});
  b.pending.structure.push_back(facts.id);
  for (size_t i = stack.size() - facts.argument_count; i < stack.size(); ++i) add_value(b, stack[i]);
}

void observe_results(const OperatorFacts& facts, const torch::jit::Stack& stack) {
  if (!counts_as_operator(facts)) return;
  if (graphs_on.load(std::memory_order_relaxed)) {
    Books& b = books();
    std::lock_guard<std::mutex> lock(b.mutex);
    uint64_t source = b.number << 32 | (b.pending.steps.size() & (kInput - 1));
    auto mark = [&](const at::Tensor& t) {
      if (!t.defined()) return;
      if (Block* block = block_of(t)) block->source.store(source, std::memory_order_relaxed);
    };
    for (size_t i = stack.size() - facts.returns; i < stack.size(); ++i) {
      if (stack[i].isTensor())
        mark(stack[i].toTensor());
      else if (stack[i].isTensorList())
        for (const at::Tensor& t : stack[i].toTensorVector()) mark(t);
    }
    if (!b.lazy || b.pending.steps.size() >= kMostOperators) close(b);
  }
  if (facts.reads_back) host_sync(facts.name.c_str());
}

void mark_step() {
  count(kMarkSteps);
  note("mark_step", "mark_step");
  end_graph();
}

void end_graph() {
  if (!graphs_on.load(std::memory_order_relaxed)) return;
  Books& b = books();
  std::lock_guard<std::mutex> lock(b.mutex);
  close(b);
}

void host_sync(const char* what) {
  count(kHostSyncs);
  note("host_sync", what);
  end_graph();
}

std::vector<Cause> recompilation_causes() {
  Books& b = books();
  std::lock_guard<std::mutex> lock(b.mutex);
  return b.causes;
}

void reset_books() {
  for (auto& c : counters) c.store(0);
  reset_operator_calls();
  Books& b = books();
  std::lock_guard<std::mutex> lock(b.mutex);
  b.pending.clear();
  b.known.clear();
  b.causes.clear();
  b.inputs = 0;
  ++b.number;
}

void record_graphs(bool on, bool lazy) {
  Books& b = books();
  std::lock_guard<std::mutex> lock(b.mutex);
  b.lazy = lazy;
  graphs_on.store(on);
}

// ---- compute operators that did not run on hpu ----------------------------------------------------

namespace {

std::atomic<int64_t> compute_calls{0};
std::atomic<bool> watching{false};

bool is_compute_name(const char* name) {
  thread_local std::unordered_map<const char*, bool> seen;
  const auto found = seen.find(name);
  if (found != seen.end()) return found->second;
  const bool answer = is_compute(name);
  seen.emplace(name, answer);
  return answer;
}

// Autocast casts the arguments and calls the same operator again: one call of the user's, not two.
struct Call final : at::ObserverContext {
  const char* outer;
  bool counted = false;
  int unwinding = std::uncaught_exceptions();
  int64_t on_hpu = counters[kComputeHpu].load();
  explicit Call(const char* name) : outer(name) {}
};
thread_local const char* running = nullptr;

std::unique_ptr<at::ObserverContext> on_call(const at::RecordFunction& call) {
  if (inside != 0 || !is_compute_name(call.name())) return nullptr;
  // Tracing with fake tensors computes nothing.
  const auto keys = c10::impl::tls_local_dispatch_key_set().included_;
  auto context = std::make_unique<Call>(running);
  if (running != call.name() && !keys.has(c10::DispatchKey::Meta) && !keys.has(c10::DispatchKey::Python)) {
    compute_calls.fetch_add(1, std::memory_order_relaxed);
    context->counted = true;
  }
  running = call.name();
  return context;
}

// A call that ended in an exception before any kernel ran computed nothing: a checkpoint's
// recomputation is stopped so, from the hook that saves the last tensor that it needs.
void on_return(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr) return;
  const auto* call = static_cast<Call*>(context);
  running = call->outer;
  const bool thrown = std::uncaught_exceptions() > call->unwinding;
  if (call->counted && thrown && counters[kComputeHpu].load() == call->on_hpu)
    compute_calls.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace

void watch_compute() {
  if (watching.exchange(true)) return;
  at::addGlobalCallback(at::RecordFunctionCallback(&on_call, &on_return).scopes({at::RecordScope::FUNCTION}));
}

int64_t compute_elsewhere() {
  if (!watching.load()) return -1;
  return std::max<int64_t>(0, compute_calls.load() - counters[kComputeHpu].load());
}

}  // namespace hpu
