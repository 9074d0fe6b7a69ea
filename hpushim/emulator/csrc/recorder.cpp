// The ledger's counters and its view of each operator.
#include "operators.h"

namespace hpu {

std::atomic<int64_t> counters[kCounters];
const char* const counter_names[kCounters] = {
    "operators", "mark_steps", "graphs", "recompilations", "host_syncs", "host_to_device", "device_to_host",
    "host_to_device_bytes", "device_to_host_bytes", "cpu_fallbacks", "demotions", "collectives",
    "synchronizes", "compute_hpu", "compute_cpu"};
std::atomic<bool> sites_on{false};
thread_local int inside = 0;

void observe(const OperatorFacts& facts, const torch::jit::Stack&) {
  if (inside != 0) return;
  facts.calls.fetch_add(1, std::memory_order_relaxed);
  count(kOperators);
  if (facts.compute) count(kComputeHpu);
  if (facts.reads_back) {
    count(kHostSyncs);
    note("host_sync", facts.name.c_str());
  }
}

void observe_results(const OperatorFacts&, const torch::jit::Stack&) {}

}  // namespace hpu
