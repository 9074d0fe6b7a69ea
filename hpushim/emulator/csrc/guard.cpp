// The device as torch sees it: guard, streams, events, accelerator hooks.
#include "recorder.h"

#include <ATen/detail/HPUHooksInterface.h>
#include <ATen/ops/empty.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <chrono>
#include <new>
#include <thread>

namespace hpu {
namespace {

using Clock = std::chrono::steady_clock;

struct EventRecord {
  Clock::time_point at;
  bool timed;
};

std::atomic<int64_t> last_stream{0};
thread_local int64_t stream_now = 0;

// Whoever waits for the device first has it run what is pending.
void waited() {
  count(kSynchronizes);
  end_graph("synchronize");
}

c10::Stream stream_of(int64_t id) { return c10::Stream(c10::Stream::UNSAFE, here(), id); }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::HPU; }
  c10::Device exchangeDevice(c10::Device d) const override {
    keep_backward_on_this_thread();
    if (d.has_index()) check_index(d.index());
    return here();
  }
  c10::Device getDevice() const override { return here(); }
  // As Gaudi's guard does: whatever index is given, the process stays on its card.
  void setDevice(c10::Device) const override { keep_backward_on_this_thread(); }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override {
    keep_backward_on_this_thread();
    return stream_of(stream_now);
  }
  c10::Stream getDefaultStream(c10::Device) const override { return stream_of(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    return stream_of(++last_stream);
  }
  c10::Stream getNewStream(c10::Device d, int) const override {
    if (d.has_index()) check_index(d.index());
    return stream_of(++last_stream);
  }
  c10::Stream exchangeStream(c10::Stream s) const noexcept override {
    auto before = stream_of(stream_now);
    stream_now = s.id();
    return before;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<EventRecord*>(event);
  }
  void record(void** event, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag flag) const override {
    if (*event == nullptr) *event = new EventRecord();
    auto* record = static_cast<EventRecord*>(*event);
    end_graph("an event");  // it stands behind the work before it
    record->at = Clock::now();
    record->timed = flag == c10::EventFlag::BACKEND_DEFAULT;
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override { waited(); }
  void synchronizeEvent(void*) const override { waited(); }
  void synchronizeDevice(const c10::DeviceIndex) const override {
    waited();
    note("synchronize", "device");
  }
  double elapsedTime(void* a, void* b, const c10::DeviceIndex) const override {
    TORCH_CHECK(a != nullptr && b != nullptr,
                "elapsed_time: both events must be recorded before the time between them is asked for");
    const auto* first = static_cast<EventRecord*>(a);
    const auto* second = static_cast<EventRecord*>(b);
    TORCH_CHECK(first->timed && second->timed,
                "elapsed_time: create both events with enable_timing=True");
    return std::chrono::duration<double, std::milli>(second->at - first->at).count();
  }
};

C10_REGISTER_GUARD_IMPL(HPU, Guard)

}  // namespace

// torch finds the hooks by this name.
struct HPUHooks final : at::HPUHooksInterface {
  explicit HPUHooks(at::HPUHooksArgs) {}
  void init() const override {}
  bool hasHPU() const override { return true; }
  // Without `override`: torch 2.6 asks neither.
  bool isBuilt() const { return true; }
  bool isAvailable() const { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(c10::DeviceIndex i) const override { check_index(i); }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex i) const override {
    if (i >= 0) check_index(i);
    return 0;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex i) const override {
    return exchangeDevice(i);
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  c10::Device getDeviceFromPtr(void*) const override { return here(); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex i) const override {
    if (i > 0) check_index(i);
    return default_generator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex i) const override {
    if (i > 0) check_index(i);
    check_generator();
    return new_generator();
  }
};

// The hooks object is made once, at torch's first question for it. When that question came before this
// library, torch holds the empty stand-in: an object with a vtable pointer and nothing else, which ours replaces.
void take_over_hooks() {
  auto& held = const_cast<at::HPUHooksInterface&>(at::detail::getHPUHooks());
  static_assert(sizeof(HPUHooks) == sizeof(at::HPUHooksInterface), "hooks must carry no data");
  if (!held.hasHPU()) new (&held) HPUHooks(at::HPUHooksArgs{});
}

void check_index(int64_t index) {
  TORCH_CHECK(index == 0, "emulated HPU: device index ", index,
              " was asked for, but a process sees one card, hpu:0, as on Gaudi; use \"hpu\" or \"hpu:0\", "
              "and choose the card of a process with HABANA_VISIBLE_MODULES or HLS_MODULE_ID");
}

int64_t current_stream() { return stream_now; }
void set_current_stream(int64_t id) { stream_now = id; }

void keep_backward_on_this_thread() {
  static thread_local bool done = false;
  if (done) return;
  done = true;
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}

void finish_backward_threads() {
  if (!c10::AutogradState::get_tls_state().get_multithreading_enabled()) return;
  // A task that holds nothing of Python, behind all others in the queue of the device's thread.
  std::thread([] {
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);  // what makes the task is no task
    Inside unseen;
    const auto x = at::empty({1}, at::TensorOptions(here())).requires_grad_(true);
    const auto y = x.mul(x);
    c10::AutogradState::get_tls_state().set_multithreading_enabled(true);
    y.backward(at::empty({1}, at::TensorOptions(here())));
  }).join();
}

}  // namespace hpu

namespace at {
using HPUHooks = hpu::HPUHooks;
C10_REGISTER_CLASS(HPUHooksRegistry, HPUHooks, HPUHooks)
}  // namespace at
