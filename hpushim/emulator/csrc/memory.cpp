// Device memory: host memory with the books of a device, and pinned host memory.
#include "device.h"
#include "fake.h"
#include "locks.h"
#include "objections.h"

#include <c10/util/Exception.h>
#if HPU_TORCH_VERSION >= 209
#include <c10/core/CachingDeviceAllocator.h>
#endif

#include <cstring>
#include <memory>
#include <unordered_map>
#include <unordered_set>

namespace hpu {
namespace {

std::atomic<int64_t> limit{0}, in_use{0}, peak{0}, window_peak{0}, allocations{0}, frees{0}, allocated_total{0},
    freed_total{0};

// torch's error where programs are only watched, so that they go on as they do on CUDA; Gaudi's own otherwise, by its own words.
[[noreturn]] void out_of_memory(size_t nbytes, const std::string& why) {
  if (!observing()) TORCH_CHECK(false, "Allocation failed on the emulated HPU: asked for ", nbytes, " bytes with ", why);
  remark("out_of_memory", "HPU401", "running out of memory",
         "a plain RuntimeError whose text contains \"Allocation failed\", not torch.OutOfMemoryError; let handlers take both");
  TORCH_CHECK_WITH(OutOfMemoryError, false, "emulated HPU out of memory: asked for ", nbytes, " bytes with ", why,
                   " (Allocation failed)");
}

std::atomic<int64_t> card{0};  // 0: nobody watches, or it was told
std::atomic<bool> overrun_goes_on{false};
Leaf overrun_lock("where a card would be full");
Overrun& first_overrun() {  // under the lock
  static auto* one = new Overrun();
  return *one;
}

void tell_overrun(int64_t asked, int64_t in_use) {
  if (card.exchange(0) == 0) return;
  Overrun found{user_line(), asked, in_use};
  Hold hold(overrun_lock);
  first_overrun() = std::move(found);
}

// Is there room for so many bytes more? Throws otherwise.
void check_room(size_t nbytes, int64_t used) {
  const int64_t cap = limit.load(std::memory_order_relaxed);
  if (C10_LIKELY(cap <= 0 || nbytes <= static_cast<uint64_t>(std::max<int64_t>(0, cap - used)))) return;
  if (overrun_goes_on.load(std::memory_order_relaxed)) return;
  out_of_memory(nbytes, c10::str(used, " of ", cap, " bytes in use on hpu:0 (emulated); use a smaller batch, or raise "
                                 "the emulated device's limit"));
}

void raise_to(std::atomic<int64_t>& highest, int64_t now) {
  int64_t seen = highest.load(std::memory_order_relaxed);
  while (now > seen && !highest.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}

// Bytes that are taken before they are allocated; given back if the allocation fails.
class Charge {
 public:
  explicit Charge(size_t nbytes) : amount_(static_cast<int64_t>(nbytes)) {
    const int64_t before = in_use.fetch_add(amount_, std::memory_order_relaxed);
    try {
      check_room(nbytes, before);
    } catch (...) {
      in_use.fetch_sub(amount_, std::memory_order_relaxed);
      throw;
    }
  }
  ~Charge() {
    if (!kept_) in_use.fetch_sub(amount_, std::memory_order_relaxed);
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  void keep() {
    kept_ = true;
    const int64_t now = in_use.load(std::memory_order_relaxed);
    raise_to(peak, now);
    raise_to(window_peak, now);
    allocations.fetch_add(1, std::memory_order_relaxed);
    allocated_total.fetch_add(amount_, std::memory_order_relaxed);
    if (const int64_t size = card.load(std::memory_order_relaxed); C10_UNLIKELY(size > 0 && now > size))
      tell_overrun(amount_, now - amount_);
  }

 private:
  const int64_t amount_;
  bool kept_ = false;
};

c10::Allocator* plain_host = nullptr;  // as torch has it, below what watches it

// The host's own allocator, whose failure is the device's.
c10::DataPtr allocate_on_host(c10::Allocator* host, size_t nbytes) {
  if (C10_UNLIKELY(faking.load(std::memory_order_relaxed)) && nbytes >= kUnbackedFrom) return unbacked(nbytes, false);
  try {
    auto made = host->allocate(nbytes);
    if (C10_UNLIKELY(faking.load(std::memory_order_relaxed))) std::memset(made.get(), 0, nbytes);
    return made;
  } catch (const std::exception&) {
    out_of_memory(nbytes, c10::str(in_use.load(), " bytes in use on hpu:0 (emulated), and the host, whose memory plays "
                                   "the device's, has no more; use a smaller batch, or see with hpushim plan --fake what a card would hold"));
  }
}

// For torch.profiler's profile_memory.
void report(void* block, int64_t amount) {
  if (C10_LIKELY(!profiling.load(std::memory_order_relaxed)) || !c10::memoryProfilingEnabled()) return;
  const auto reserved = limit.load() > 0 ? limit.load() : in_use.load();
  c10::reportMemoryUsageToProfiler(block, amount, in_use.load(), reserved, here());
}

c10::DataPtr as_block(c10::DataPtr host, size_t nbytes, Charge& charge) {
  auto* block = new Block();
  block->nbytes = nbytes;
  void* data = host.get();
  block->owned = std::move(host);
  charge.keep();
  report(data, static_cast<int64_t>(nbytes));
  return {data, block, &release_block, here()};
}

// torch.accelerator's memory functions ask the allocator, from torch 2.9 on.
#if HPU_TORCH_VERSION >= 209
using AllocatorBase = c10::DeviceAllocator;
#else
using AllocatorBase = c10::Allocator;
#endif

struct DeviceAllocator final : AllocatorBase {
  c10::DataPtr allocate(size_t n) override {
    keep_backward_on_this_thread();
    if (n == 0) return {nullptr, nullptr, &release_block, here()};
    touch();
    Charge charge(n);
    return as_block(allocate_on_host(plain_host, n), n, charge);
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* dest, const void* src, std::size_t n) const override {
    default_copy_data(dest, src, n);
  }
#if HPU_TORCH_VERSION >= 209
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}  // nothing is cached
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override;
  void resetAccumulatedStats(c10::DeviceIndex) override { reset_accumulated_memory(); }
  void resetPeakStats(c10::DeviceIndex) override { reset_peak_memory(); }
  // (free, total); not virtual before torch 2.11.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) {
    return {static_cast<size_t>(std::max<int64_t>(0, limit - in_use)), static_cast<size_t>(limit)};
  }
#endif
};

#if HPU_TORCH_VERSION >= 209
c10::CachingDeviceAllocator::DeviceStats DeviceAllocator::getDeviceStats(c10::DeviceIndex) {
  c10::CachingDeviceAllocator::DeviceStats stats;
  auto& bytes = stats.allocated_bytes[0];
  bytes.current = in_use;
  bytes.peak = peak;
  bytes.allocated = allocated_total;
  bytes.freed = freed_total;
  auto& counts = stats.allocation[0];
  counts.allocated = allocations;
  counts.freed = frees;
  counts.current = allocations - frees;
  counts.peak = counts.current;
  stats.active = stats.allocation;
  stats.active_bytes = stats.requested_bytes = stats.reserved_bytes = stats.allocated_bytes;
  if (limit > 0) stats.reserved_bytes[0].current = stats.reserved_bytes[0].peak = limit;  // the whole pool, as on Gaudi
  return stats;
}
#endif

// CPU kernels that run for an hpu operator allocate their results and scratch here: they find the device full before
// the memory is taken, and the host full in the device's words. All else passes through.
struct HostAllocator final : c10::Allocator {
  explicit HostAllocator(c10::Allocator* below) : host(below) {}
  c10::DataPtr allocate(size_t n) override {
    if (C10_UNLIKELY(faking.load(std::memory_order_relaxed)) && n >= kUnbackedFrom) return unbacked(n, inside == 0);
    if (C10_LIKELY(inside == 0 || n == 0)) return host->allocate(n);
    check_room(n, in_use.load(std::memory_order_relaxed));
    return allocate_on_host(host, n);
  }
  c10::DeleterFnPtr raw_deleter() const override { return host->raw_deleter(); }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return host->is_simple_data_ptr(data); }
  void copy_data(void* dest, const void* src, std::size_t n) const override { host->copy_data(dest, src, n); }
  c10::Allocator* const host;
};

// Pinned memory: ordinary host memory that torch can recognise by its address.
Leaf pinned_lock("the pinned memory's list");
std::unordered_set<const void*>& pinned() {
  static auto* set = new std::unordered_set<const void*>();
  return *set;
}

void release_pinned(void* context) {
  auto* owned = static_cast<c10::DataPtr*>(context);
  {
    Hold hold(pinned_lock);
    pinned().erase(owned->get());
  }
  delete owned;
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override {
    auto owned = std::make_unique<c10::DataPtr>(c10::GetCPUAllocator()->allocate(n));
    void* data = owned->get();
    if (data != nullptr) {
      Hold hold(pinned_lock);
      pinned().insert(data);
    }
    return {data, owned.release(), &release_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* dest, const void* src, std::size_t n) const override {
    default_copy_data(dest, src, n);
  }
};

// Blocks that lazy clones share: torch wants the context of such memory to be its address.
Leaf lent_lock("the list of lent blocks");
std::unordered_map<void*, Block*>& lent() {
  static auto* map = new std::unordered_map<void*, Block*>();
  return *map;
}

void release_lent(void* data) {
  Block* block = nullptr;
  {
    Hold hold(lent_lock);
    auto at = lent().find(data);
    block = at->second;
    lent().erase(at);
  }
  release_block(block);
}

}  // namespace

void lend_for_lazy_clones(c10::StorageImpl* storage) {
  void* data = storage->data_ptr().get();
  if (data == nullptr || storage->data_ptr().get_deleter() != &release_block) return;
  {
    Hold hold(lent_lock);
    if (!lent().emplace(data, static_cast<Block*>(storage->data_ptr().get_context())).second) return;
  }
  c10::DataPtr held = storage->set_data_ptr(c10::DataPtr(data, data, &release_lent, here()));
  held.release_context();
}

void release_block(void* context) {
  auto* block = static_cast<Block*>(context);
  if (block == nullptr || block->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const auto amount = static_cast<int64_t>(block->nbytes);
  in_use.fetch_sub(amount, std::memory_order_relaxed);
  frees.fetch_add(1, std::memory_order_relaxed);
  freed_total.fetch_add(amount, std::memory_order_relaxed);
  report(block->owned.get(), -amount);
  delete block;
}

c10::DataPtr adopt(c10::DataPtr host, size_t nbytes) {
  touch();
  Charge charge(nbytes);
  return as_block(std::move(host), nbytes, charge);
}

c10::Allocator* allocator() {
  static auto* one = new DeviceAllocator();
  return one;
}

c10::Allocator* pinned_allocator() {
  static auto* one = new PinnedAllocator();
  return one;
}

void watch_host_allocations() {
  plain_host = c10::GetCPUAllocator();
  c10::SetCPUAllocator(new HostAllocator(plain_host), /*priority=*/1);
}

bool is_pinned(const void* data) {
  Hold hold(pinned_lock);
  return pinned().count(data) != 0;
}

MemoryStats memory_stats() {
  return {limit, in_use, peak, allocations, frees, allocated_total, freed_total,
          allocations.load() - frees.load()};
}

int64_t take_window_peak() { return window_peak.exchange(in_use.load()); }

void reset_peak_memory() { peak.store(in_use.load()); }

void reset_accumulated_memory() {
  // What is alive stays in the books, so that live blocks remain allocations minus frees.
  allocations.store(allocations.load() - frees.load());
  frees.store(0);
  allocated_total.store(in_use.load());
  freed_total.store(0);
}

void set_memory_limit(int64_t bytes) { limit.store(bytes); }

void watch_for_overrun(int64_t bytes) {
  card.store(bytes);
  overrun_goes_on.store(bytes > 0);
}

Overrun overrun() {
  Hold hold(overrun_lock);
  return first_overrun();
}

}  // namespace hpu
