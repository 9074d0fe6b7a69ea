// Device memory: host memory with the books of a device, and pinned host memory.
#include "device.h"

#include <c10/util/Exception.h>
#if HPU_TORCH_VERSION >= 209
#include <c10/core/CachingDeviceAllocator.h>
#endif

#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace hpu {
namespace {

std::atomic<int64_t> limit{0}, in_use{0}, peak{0}, allocations{0}, frees{0}, allocated_total{0},
    freed_total{0};

void charge(size_t nbytes) {
  const auto amount = static_cast<int64_t>(nbytes);
  const int64_t now = in_use.fetch_add(amount, std::memory_order_relaxed) + amount;
  const int64_t cap = limit.load(std::memory_order_relaxed);
  if (cap > 0 && now > cap) {
    in_use.fetch_sub(amount, std::memory_order_relaxed);
    TORCH_CHECK_WITH(
        OutOfMemoryError, false, "emulated HPU out of memory: asked for ", nbytes, " bytes with ",
        now - amount, " of ", cap,
        " bytes in use on hpu:0 (emulated); use a smaller batch, or raise the emulated device's limit");
  }
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
  allocations.fetch_add(1, std::memory_order_relaxed);
  allocated_total.fetch_add(amount, std::memory_order_relaxed);
}

// For torch.profiler's profile_memory.
void report(void* block, int64_t amount) {
  if (C10_LIKELY(!profiling.load(std::memory_order_relaxed)) || !c10::memoryProfilingEnabled()) return;
  const auto reserved = limit.load() > 0 ? limit.load() : in_use.load();
  c10::reportMemoryUsageToProfiler(block, amount, in_use.load(), reserved, here());
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
    return adopt(c10::GetCPUAllocator()->allocate(n), n);
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

// Pinned memory: ordinary host memory that torch can recognise by its address.
std::mutex pinned_mutex;
std::unordered_set<const void*>& pinned() {
  static auto* set = new std::unordered_set<const void*>();
  return *set;
}

void release_pinned(void* context) {
  auto* owned = static_cast<c10::DataPtr*>(context);
  {
    std::lock_guard<std::mutex> lock(pinned_mutex);
    pinned().erase(owned->get());
  }
  delete owned;
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override {
    auto* owned = new c10::DataPtr(c10::GetCPUAllocator()->allocate(n));
    void* data = owned->get();
    if (data != nullptr) {
      std::lock_guard<std::mutex> lock(pinned_mutex);
      pinned().insert(data);
    }
    return {data, owned, &release_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* dest, const void* src, std::size_t n) const override {
    default_copy_data(dest, src, n);
  }
};

// Blocks that lazy clones share: torch wants the context of such memory to be its address.
std::mutex lent_mutex;
std::unordered_map<void*, Block*>& lent() {
  static auto* map = new std::unordered_map<void*, Block*>();
  return *map;
}

void release_lent(void* data) {
  Block* block = nullptr;
  {
    std::lock_guard<std::mutex> lock(lent_mutex);
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
    std::lock_guard<std::mutex> lock(lent_mutex);
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
  charge(nbytes);
  report(host.get(), static_cast<int64_t>(nbytes));
  auto* block = new Block();
  block->nbytes = nbytes;
  void* data = host.get();
  block->owned = std::move(host);
  return {data, block, &release_block, here()};
}

c10::Allocator* allocator() {
  static auto* one = new DeviceAllocator();
  return one;
}

c10::Allocator* pinned_allocator() {
  static auto* one = new PinnedAllocator();
  return one;
}

bool is_pinned(const void* data) {
  std::lock_guard<std::mutex> lock(pinned_mutex);
  return pinned().count(data) != 0;
}

MemoryStats memory_stats() {
  return {limit, in_use, peak, allocations, frees, allocated_total, freed_total,
          allocations.load() - frees.load()};
}

void reset_peak_memory() { peak.store(in_use.load()); }

void reset_accumulated_memory() {
  // What is alive stays in the books, so that live blocks remain allocations minus frees.
  allocations.store(allocations.load() - frees.load());
  frees.store(0);
  allocated_total.store(in_use.load());
  freed_total.store(0);
}

void set_memory_limit(int64_t bytes) { limit.store(bytes); }

}  // namespace hpu
