// Compute operators that did not run on hpu: counted wherever they run, beside those that the device counts.
#include "locks.h"
#include "objections.h"
#include "recorder.h"

#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <exception>
#include <unordered_map>

namespace hpu {

namespace {

std::atomic<int64_t> compute_calls{0};
std::atomic<bool> watching{false};
std::atomic<bool> located{false};
Leaf first_lock("the first compute operator off the device");
std::string& first_place() {  // under the lock
  static auto* one = new std::string();
  return *one;
}

void note_elsewhere(const char* name) {
  note("compute_on_cpu", name);
  if (located.load(std::memory_order_relaxed) || located.exchange(true)) return;
  std::string place = std::string(name) + " at " + user_line();
  Hold hold(first_lock);
  first_place() = std::move(place);
}

bool is_compute_name(const char* name) {
  thread_local std::unordered_map<const char*, bool> seen;
  const auto found = seen.find(name);
  if (found != seen.end()) return found->second;
  const bool answer = is_compute(name);
  seen.emplace(name, answer);
  return answer;
}

// Autocast casts the arguments and calls the same operator again, a convolution its parts: one call of the user's, not two.
struct Call final : at::ObserverContext {
  const char *name, *outer;
  bool counted = false;
  int unwinding = std::uncaught_exceptions();
  int64_t on_hpu = counters[kComputeHpu].load();
  Call(const char* is, const char* was) : name(is), outer(was) {}
};
thread_local const char* running = nullptr;

std::unique_ptr<at::ObserverContext> on_call(const at::RecordFunction& call) {
  if (inside != 0 || !is_compute_name(call.name())) return nullptr;
  // Tracing with fake tensors computes nothing.
  const auto keys = c10::impl::tls_local_dispatch_key_set().included_;
  auto context = std::make_unique<Call>(call.name(), running);
  if (running == nullptr && !keys.has(c10::DispatchKey::Meta) && !keys.has(c10::DispatchKey::Python)) {
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
  else if (call->counted && !thrown && counters[kComputeHpu].load() == call->on_hpu)
    note_elsewhere(call->name);
}

}  // namespace

void watch_compute() {
  if (watching.exchange(true)) return;
  at::addGlobalCallback(at::RecordFunctionCallback(&on_call, &on_return).scopes({at::RecordScope::FUNCTION}));
}

void forget_first_compute() {
  Hold hold(first_lock);
  first_place().clear();
  located.store(false);
}

std::string first_compute_elsewhere() {
  Hold hold(first_lock);
  return first_place();
}

int64_t compute_elsewhere() {
  if (!watching.load()) return -1;
  return std::max<int64_t>(0, compute_calls.load() - counters[kComputeHpu].load());
}

}  // namespace hpu
