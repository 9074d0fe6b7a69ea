// Compute operators that did not run on hpu: counted wherever they run, beside those that the device counts.
#include "recorder.h"

#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <exception>
#include <unordered_map>

namespace hpu {

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
