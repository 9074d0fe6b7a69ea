// The emulated HPU: what the parts of the extension share. Host memory plays device memory throughout.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/DimVector.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hpu {

inline c10::Device here() { return c10::Device(c10::DeviceType::HPU, 0); }

// ---- memory (memory.cpp) -------------------------------------------------------------------------

struct KeptLayout {
  c10::DimVector sizes, strides;
};

// One piece of device memory. Every storage over it, hpu or its CPU alias, holds one reference.
struct Block {
  std::atomic<uint32_t> refs{1};
  size_t nbytes = 0;
  c10::DataPtr owned;             // the host memory itself
  std::atomic<uint64_t> source{0};   // ledger: graph number << 32 | operator that wrote it
  std::atomic<uint64_t> lineage{0};  // ledger: what its values came from, whatever their shapes
  std::atomic<bool> unknown{false};  // where nothing is computed (fake.h): its values would come from what was left out
  // The shape and the CPU's strides of a result that a Gaudi lays out in rows (layout.cpp). Set while one tensor alone is
  // over the block.
  std::unique_ptr<const KeptLayout> kept;
};

Block* block_of(const at::Tensor& tensor);  // null: no device memory
void release_block(void* block);  // the deleter of every DataPtr over a Block
// Makes a storage one that torch can clone lazily.
void lend_for_lazy_clones(c10::StorageImpl* storage);
c10::Allocator* allocator();
c10::Allocator* pinned_allocator();
bool is_pinned(const void* data);
void watch_host_allocations();
// Takes over host memory as device memory; throws torch.OutOfMemoryError when over the limit.
c10::DataPtr adopt(c10::DataPtr host, size_t nbytes);

struct MemoryStats {
  int64_t limit, in_use, peak, allocations, frees, allocated_total, freed_total, live;
};
MemoryStats memory_stats();
// The most bytes in use since the last call, apart from the peak that the program sees and resets.
int64_t take_window_peak();
void reset_peak_memory();
void reset_accumulated_memory();
void set_memory_limit(int64_t bytes);
// Where a card of so many bytes would first have run out of memory. While it is watched for, the limit refuses nothing.
struct Overrun {
  std::string line;  // "" while it has not
  int64_t asked = 0, in_use = 0;
};
void watch_for_overrun(int64_t bytes);
Overrun overrun();

// ---- device (guard.cpp) --------------------------------------------------------------------------

void check_index(int64_t index);
int64_t current_stream();
void set_current_stream(int64_t id);
// A process has a device from its first use on, alone. A child that a fork made has none: its parent holds it.
enum class Holder { kNone, kThis, kParent };
extern std::atomic<Holder> hold;
void take_device();
inline void touch() {
  if (C10_UNLIKELY(hold.load(std::memory_order_relaxed) != Holder::kThis)) take_device();
}
// Backward runs on the calling thread: an own device thread can ask for the GIL while Python ends.
void keep_backward_on_this_thread();
// Where a program has let backward use device threads all the same: has them let go of what they still hold, before
// Python ends.
void finish_backward_threads();

// ---- random numbers (generator.cpp) --------------------------------------------------------------

const at::Generator& default_generator();
at::Generator new_generator();
at::Generator cpu_twin(const at::Generator& generator);  // the CPU generator that draws for it
// CPU kernels that draw without a generator argument use the default CPU engine: it is lent the hpu's for one call.
class LendEngine {
 public:
  explicit LendEngine(bool wanted);
  ~LendEngine();
  LendEngine(const LendEngine&) = delete;
  LendEngine& operator=(const LendEngine&) = delete;

 private:
  bool lent_ = false;
};
// Draws from the CPU's stream. Which element gets which number follows from the strides, so results then keep the CPU's.
void share_cpu_random(bool on);
extern std::atomic<bool> cpu_strides;

// ---- running operators on host aliases (alias.cpp) -----------------------------------------------

// A CPU tensor over the same memory. `beside`: the alias of another tensor on the same storage, so that kernels see that
// they overlap.
at::Tensor host_alias(const at::Tensor& tensor, const at::Tensor& beside = {});
inline c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}
// A lazy clone that is about to be written gets memory of its own.
inline void make_writable(const at::Tensor& tensor) {
  if (auto* storage = storage_of(tensor)) storage->mutable_data_ptr();
}
bool is_on_hpu(const at::Tensor& tensor);
// A CPU result as an hpu tensor, without a copy.
at::Tensor lift(at::Tensor tensor);
// Copies back what a CPU kernel changed in an alias beyond its elements: size, strides, a new buffer.
void settle(const at::Tensor& original, const at::Tensor& aliased);

// ---- ledger (recorder.cpp, sites.cpp) ------------------------------------------------------------

enum Counter : int {
  kOperators, kMarkSteps, kGraphs, kGraphRuns, kRecompilations, kHostSyncs, kHostToDevice,
  kDeviceToHost, kHostToDeviceBytes, kDeviceToHostBytes, kCpuFallbacks, kDemotions, kCollectives,
  kSynchronizes, kComputeHpu, kNumberRecompilations, kCounters
};
extern std::atomic<int64_t> counters[kCounters];
extern const char* const counter_names[kCounters];
inline void count(Counter which, int64_t amount = 1) {
  counters[which].fetch_add(amount, std::memory_order_relaxed);
}
extern std::atomic<bool> sites_on;
// Notes an event at the user's source line, when sites are wanted.
void note_slow(const char* kind, const char* what, int64_t bytes);
inline void note(const char* kind, const char* what, int64_t bytes = 0) {
  if (sites_on.load(std::memory_order_relaxed)) note_slow(kind, what, bytes);
}
// The host asked for data: counted, noted, and the end of the pending graph in lazy mode.
void host_sync(const char* what);
// True while the emulator itself runs CPU kernels for an hpu operator on this thread.
extern thread_local int inside;
struct Inside {
  Inside() { ++inside; }
  ~Inside() { --inside; }
};
// ---- torch.profiler (profiler.cpp) ---------------------------------------------------------------

extern std::atomic<bool> profiling;
bool register_profiler();  // false: this torch ships no headers to extend its profiler with
// The time of one piece of work on the device, while torch.profiler asks for it.
class DeviceSpan {
 public:
  explicit DeviceSpan(const char* name) : name_(name) {
    if (C10_UNLIKELY(profiling.load(std::memory_order_relaxed))) start_ = now();
  }
  ~DeviceSpan() {
    if (C10_UNLIKELY(start_ != 0)) finish();
  }
  DeviceSpan(const DeviceSpan&) = delete;
  DeviceSpan& operator=(const DeviceSpan&) = delete;

 private:
  static int64_t now();
  void finish() const;
  const char* name_;
  int64_t start_ = 0;
};

bool is_compute(const std::string& name);  // matrix products, convolutions, attention, norms, embedding

}  // namespace hpu
