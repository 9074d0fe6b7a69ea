// The ledger: counters, and the graphs that a Gaudi would have compiled, by structure and by shapes.
//
// Execution is immediate and never depends on any of this. In lazy mode a graph runs from one mark (mark_step or a
// host sync) to the next, over all threads: the bridge keeps one context for the device. In eager mode every operator
// is a graph of its own. What is said of it (a recompilation's line) is said when the books' lock is free again.
#include "recorder.h"

#include "graphs.h"
#include "locks.h"

namespace hpu {

std::atomic<int64_t> counters[kCounters];
const char* const counter_names[kCounters] = {
    "operators", "mark_steps", "graphs", "graph_runs", "recompilations", "host_syncs", "host_to_device",
    "device_to_host", "host_to_device_bytes", "device_to_host_bytes", "cpu_fallbacks", "demotions",
    "collectives", "synchronizes", "compute_hpu", "recompilations_by_number"};
std::atomic<bool> sites_on{false};
std::atomic<bool> graphs_on{false};
std::atomic<bool> lazy_graphs{false};
std::atomic<bool> trace_on{false};
thread_local int inside = 0;

namespace {

constexpr size_t kMostOperators = 1 << 16;  // a graph longer than this is cut, so that memory stays flat
// For each of two generations: words of recipes (4 MiB), and places.
constexpr size_t kMostWords = 1 << 19, kMostPlaces = 1 << 15;
constexpr uint64_t kSeed = 1469598103934665603ull;

// What a block's values came from. Small numbers are these; others are hashes.
enum Origin : uint64_t { kFresh = 0, kHost = 1, kParameter = 2, kNoBlock = 3, kOrigins = 16 };

// Where a tensor in a graph comes from: an operator of it by number, or an input by number.
constexpr uint64_t kInput = 1ull << 31;
constexpr uint64_t kWires = 8;  // below: undefined, and tensors that are no block of the device

Leaf books_lock("the ledger's books");

struct Books {
  uint64_t number = 1;  // of the pending graph
  uint64_t inputs = 0;
  Trail pending;  // lazy mode
  Remembered<Outline> recipes{kMostWords};
  Remembered<uint64_t> places{kMostPlaces};  // the recipe that was last run there
  Causes causes;
};

Books& books() {  // under its lock
  static auto* one = new Books();
  return *one;
}

// A leaf of autograd's that wants a gradient, or a view of one: its sizes are a layer's, not a batch's.
bool is_parameter(const at::Tensor& t, uint64_t lineage) {
  if (lineage >= kOrigins) return false;
  if (lineage == kParameter) return true;
  const bool wanted = t.requires_grad();
  if (wanted && t.is_leaf()) return true;
  if (!t.is_view()) return false;
  const at::TensorBase& base = t._base();
  return base.requires_grad() && base.is_leaf();
}

uint64_t lineage_of(const at::Tensor& t, Block* block) {
  if (block == nullptr) return kNoBlock;
  uint64_t lineage = block->lineage.load(std::memory_order_relaxed);
  if (lineage != kParameter && is_parameter(t, lineage)) {
    lineage = kParameter;
    block->lineage.store(lineage, std::memory_order_relaxed);
  }
  return lineage;
}

// Which part of its storage a tensor shows, whatever the length of the dimensions: the column where it begins, and the
// order of its dimensions in memory. Two halves of one row are two places, and so are a matrix and its transpose.
uint64_t window_of(const at::Tensor& t) {
  auto* impl = t.unsafeGetTensorImpl();
  if (C10_LIKELY(impl->storage_offset() == 0 && impl->is_contiguous())) return 0;
  const auto sizes = impl->sizes();
  const auto strides = impl->strides();
  int64_t widest = 1;
  uint64_t order = kSeed;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] <= 1) continue;
    widest = std::max(widest, strides[d]);
    uint64_t wider = 0;
    for (size_t e = 0; e < sizes.size(); ++e) wider += sizes[e] > 1 && strides[e] > strides[d];
    order = mixed(order, wider);
  }
  return mixed(order, static_cast<uint64_t>(impl->storage_offset() % widest));
}

// Adds the operator's arguments to a trail. `wire` numbers a block among the graph's.
template <class Wire>
struct Reader {
  const OperatorFacts& facts;
  Trail& trail;
  const bool eager;
  const Wire& wire;
  uint64_t lineage;  // of the results
  bool reads = false, reads_made = false;  // any tensor; one that is not fresh

  void tensor(size_t argument, size_t element, const at::Tensor& t) {
    if (!t.defined()) {
      trail.structure.push_back(0);
      return;
    }
    Block* block = is_on_hpu(t) ? block_of(t) : nullptr;
    const uint64_t from = lineage_of(t, block);
    trail.add_tensor(argument, element, t, block != nullptr ? wire(block) + kWires : is_on_hpu(t) ? 1 : 2);
    lineage = mixed(lineage, from);
    if (eager) {
      // Views of one block share what they came from: a sum over a matrix is not one over a batch of them.
      trail.origins.push_back(mixed(from, static_cast<uint64_t>(t.dim())));
      trail.origins.push_back(window_of(t));
    }
    if (from == kParameter) {
      for (int64_t s : t.sizes()) {
        trail.origins.push_back(static_cast<uint64_t>(s));
        lineage = mixed(lineage, static_cast<uint64_t>(s));
      }
    }
    reads |= block != nullptr;
    reads_made |= from != kFresh && from != kNoBlock;
  }

  void value(size_t argument, const c10::IValue& value) {
    if (value.isTensor()) {
      tensor(argument, 0, value.toTensor());
    } else if (value.isTensorList()) {
      const auto& list = value.toListRef();
      trail.structure.push_back(list.size());
      for (size_t i = 0; i < list.size(); ++i) tensor(argument, i, list[i].toTensor());
    } else if (value.isList() && facts.meanings[argument] == Meaning::kTensors) {
      const auto& list = value.toListRef();
      trail.structure.push_back(list.size());
      for (size_t i = 0; i < list.size(); ++i)
        if (list[i].isTensor())
          tensor(argument, i, list[i].toTensor());
        else
          trail.structure.push_back(0);
    } else if (facts.meanings[argument] == Meaning::kChoice ||
               (facts.meanings[argument] == Meaning::kValue && !facts.patched.load(std::memory_order_relaxed))) {
      trail.add_value(argument, facts.meanings[argument], value);
    }
  }

  void all(const torch::jit::Stack& stack) {
    trail.steps.push_back({&facts, trail.shapes.size()});
    trail.structure.push_back(facts.id);
    const size_t first = stack.size() - facts.argument_count;
    for (size_t i = 0; i < facts.argument_count; ++i) value(i, stack[first + i]);
    if (lineage < kOrigins) lineage += kOrigins;
  }
};

template <class Do>
void for_results(const OperatorFacts& facts, const torch::jit::Stack& stack, Do action) {
  for (size_t i = stack.size() - facts.returns; i < stack.size(); ++i) {
    if (stack[i].isTensor())
      action(stack[i].toTensor());
    else if (stack[i].isTensorList())
      for (const c10::IValue& item : stack[i].toListRef()) action(item.toTensor());
  }
}

// What there is to say when the lock is free again.
struct Said {
  bool recompiled = false, ended = false;
  std::string what;
  std::optional<Cause> cause;
};

// A graph is complete: is it new, and if its place was there before, what changed? Under the lock.
Said close(Books& b, const Trail& trail) {
  Said said;
  if (trail.steps.empty()) return said;
  said.ended = true;
  count(kGraphRuns);
  const uint64_t structure = hash_of(trail.structure, kSeed);
  const uint64_t recipe = hash_of(trail.shapes, structure);
  const uint64_t place = hash_of(trail.origins, mixed(structure, 1));
  uint64_t* before = b.places.find(place);
  if (b.recipes.find(recipe) == nullptr) {
    count(kGraphs);
    if (before != nullptr) {
      count(kRecompilations);
      said.recompiled = true;
      said.what = trail.steps.front().facts->name;
      if (const Outline* known = b.recipes.find(*before)) {
        if (auto cause = difference(*known, trail)) {
          said.what = cause->name;
          if (!cause->differences.empty()) {
            const Difference& first = cause->differences.front();
            said.what += ", " + first.argument +
                         (first.dimension ? ", dimension " + std::to_string(*first.dimension) : std::string());
          }
          if (cause->is_of_number()) count(kNumberRecompilations);
          said.cause = std::move(cause);
        }
      }
    }
    const size_t words = trail.shapes.size() + 2 * trail.steps.size() + 16;
    if (words < kMostWords / 2)
      b.recipes.insert(recipe, Outline(trail), words);
    else
      b.recipes.insert(recipe, Outline(), 16);  // too long to keep: its differences are not told
  }
  if (before == nullptr)
    b.places.insert(place, recipe);
  else
    *before = recipe;
  return said;
}

Said close_pending(Books& b) {
  Said said = close(b, b.pending);
  b.pending.clear();
  b.inputs = 0;
  ++b.number;
  return said;
}

void say(Said& said) {
  if (!said.recompiled) return;
  note(said.cause && said.cause->is_of_number() ? "recompilation_by_number" : "recompilation", said.what.c_str());
  if (!said.cause) return;
  std::tie(said.cause->file, said.cause->line) = user_place();
  Hold hold(books_lock);
  books().causes.keep(*std::move(said.cause));
}

bool counts_as_operator(const OperatorFacts& facts) { return inside == 0 && !facts.name.empty(); }

// One operator is one graph: built on this thread alone.
Trail& own_trail() {
  thread_local Trail trail;
  return trail;
}

}  // namespace

Watched::Watched(const OperatorFacts& facts, const torch::jit::Stack& stack) : facts_(facts) {
  if (!counts_as_operator(facts)) return;
  counted_ = true;
  facts.calls.fetch_add(1, std::memory_order_relaxed);
  count(kOperators);
  if (facts.compute) count(kComputeHpu);
  if (trace_on.load(std::memory_order_relaxed)) note("operator", facts.name.c_str());
  if (!graphs_on.load(std::memory_order_relaxed)) return;
  graphs_ = true;
  eager_ = !lazy_graphs.load(std::memory_order_relaxed);
  if (eager_) {
    Trail& trail = own_trail();
    trail.clear();
    c10::SmallVector<Block*, 8> seen;
    auto wire = [&](Block* block) -> uint64_t {
      for (size_t i = 0; i < seen.size(); ++i)
        if (seen[i] == block) return i;
      seen.push_back(block);
      return seen.size() - 1;
    };
    Reader<decltype(wire)> reader{facts, trail, true, wire, facts.id};
    reader.all(stack);
    lineage_ = reader.lineage;
    derived_ = facts.writes ? reader.reads_made : reader.reads;
    return;
  }
  Hold hold(books_lock);
  Books& b = books();
  auto wire = [&](Block* block) -> uint64_t {
    uint64_t from = block->source.load(std::memory_order_relaxed);
    if (from >> 32 != b.number) {
      from = b.number << 32 | kInput | b.inputs++;
      block->source.store(from, std::memory_order_relaxed);
    }
    return from & 0xffffffffull;
  };
  Reader<decltype(wire)> reader{facts, b.pending, false, wire, facts.id};
  reader.all(stack);
  lineage_ = reader.lineage;
  derived_ = facts.writes ? reader.reads_made : reader.reads;
  source_ = b.number << 32 | (b.pending.steps.size() & (kInput - 1));
}

void Watched::results(const torch::jit::Stack& stack) {
  if (!counted_) return;
  if (graphs_) {
    uint64_t which = 0;
    for_results(facts_, stack, [&](const at::Tensor& t) {
      ++which;
      Block* block = t.defined() && is_on_hpu(t) ? block_of(t) : nullptr;
      if (block == nullptr) return;
      if (!eager_) block->source.store(source_, std::memory_order_relaxed);
      // What is made of nothing stays fresh; what is changed in place stays what it was.
      if (derived_ && block->lineage.load(std::memory_order_relaxed) == kFresh)
        block->lineage.store(mixed(lineage_, which), std::memory_order_relaxed);
    });
    auto add_outputs = [&](Trail& trail) {
      if (facts_.patched.load(std::memory_order_relaxed))
        for_results(facts_, stack, [&](const at::Tensor& t) { trail.add_output(t); });
    };
    Said said;
    if (eager_) {
      add_outputs(own_trail());
      Hold hold(books_lock);
      said = close(books(), own_trail());
    } else {
      Hold hold(books_lock);
      Books& b = books();
      const bool last = source_ == (b.number << 32 | (b.pending.steps.size() & (kInput - 1)));
      if (last) add_outputs(b.pending);  // other threads add to the same graph
      if (b.pending.steps.size() >= kMostOperators) said = close_pending(b);
    }
    if (!eager_ && said.ended) note("graph_end", "its length");
    say(said);
  }
  if (facts_.reads_back) host_sync(facts_.name.c_str());
}

void came_from_host(const at::Tensor& t) {
  if (Block* block = block_of(t); block != nullptr && block->lineage.load(std::memory_order_relaxed) == kFresh)
    block->lineage.store(kHost, std::memory_order_relaxed);
}

void came_from(const at::Tensor& t, const at::Tensor& source) {
  Block* block = block_of(t);
  Block* from = block_of(source);
  if (block == nullptr || from == nullptr || block->lineage.load(std::memory_order_relaxed) != kFresh) return;
  uint64_t lineage = lineage_of(source, from);
  if (lineage == kParameter) {  // a copy of one layer's is not another's
    lineage = mixed(kSeed, kParameter);
    for (int64_t s : source.sizes()) lineage = mixed(lineage, static_cast<uint64_t>(s));
  }
  block->lineage.store(lineage, std::memory_order_relaxed);
}

void mark_step() {
  count(kMarkSteps);
  note("mark_step", "mark_step");
  end_graph("mark_step");
}

void end_graph(const char* why) {
  if (!graphs_on.load(std::memory_order_relaxed)) return;
  Said said;
  {
    Hold hold(books_lock);
    said = close_pending(books());
  }
  if (said.ended) note("graph_end", why);
  say(said);
}

void host_sync(const char* what) {
  count(kHostSyncs);
  note("host_sync", what);
  end_graph(what);
}

Causes recompilation_causes() {
  Hold hold(books_lock);
  return books().causes;
}

void reset_books() {
  for (auto& c : counters) c.store(0);
  reset_operator_calls();
  forget_first_compute();
  Hold hold(books_lock);
  Books& b = books();
  b.pending.clear();
  b.recipes.clear();
  b.places.clear();
  b.causes = {};
  b.inputs = 0;
  ++b.number;
}

void record_graphs(bool on, bool lazy) {
  lazy_graphs.store(lazy);
  graphs_on.store(on);
}

}  // namespace hpu
