// The hpu generator: holds a CPU generator that draws for it, so one seed gives one stream on both devices.
#include "device.h"
#include "locks.h"
#include "objections.h"
#include "refusals.h"

#include <ATen/CPUGeneratorImpl.h>

namespace hpu {
namespace {

[[noreturn]] void refuse_offset() {
  TORCH_CHECK_NOT_IMPLEMENTED(false, user_line(), ": a generator's offset is CUDA's own: that one on hpu has it is not known (",
                              signed_by("offset"), "); keep its place with get_state() and set_state()");
}

struct GeneratorImpl final : c10::GeneratorImpl {
  at::Generator drawing;

  explicit GeneratorImpl(at::Generator cpu)
      : c10::GeneratorImpl(here(), c10::DispatchKeySet(c10::DispatchKey::HPU)),
        drawing(std::move(cpu)) {}
  void set_current_seed(uint64_t seed) override { twin().set_current_seed(seed); }
  void set_offset(uint64_t) override { refuse_offset(); }
  uint64_t get_offset() const override { refuse_offset(); }
  uint64_t current_seed() const override { return twin().current_seed(); }
  uint64_t seed() override { return twin().seed(); }
  void set_state(const c10::TensorImpl& state) override {
    twin().unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return twin().unsafeGetGeneratorImpl()->get_state();
  }
  c10::GeneratorImpl* clone_impl() const override { return new GeneratorImpl(twin().clone()); }

  at::Generator twin() const;
  void replace_twin(at::Generator by);
};

// Which CPU generator draws for the device can change while others draw (share_cpu_random).
Leaf twin_lock("the generators");

at::Generator GeneratorImpl::twin() const {
  Hold hold(twin_lock);
  return drawing;
}

void GeneratorImpl::replace_twin(at::Generator by) {
  Hold hold(twin_lock);
  std::swap(drawing, by);
}

GeneratorImpl& of(const at::Generator& generator) {
  return *static_cast<GeneratorImpl*>(generator.unsafeGetGeneratorImpl());
}

// One loan of the default CPU engine at a time: a second one would find the first one's engine in its place, and give
// it back to the wrong owner.
std::mutex loan;
thread_local bool has_loan = false;

at::CPUGeneratorImpl* engine_of(const at::Generator& generator) {
  return at::check_generator<at::CPUGeneratorImpl>(generator);
}

void swap_engines() {
  auto* device = engine_of(cpu_twin(at::Generator()));
  auto* host = engine_of(at::detail::getDefaultCPUGenerator());
  std::scoped_lock lock(host->mutex_, device->mutex_);
  auto engine = host->engine();
  host->set_engine(device->engine());
  device->set_engine(engine);
  auto single = host->next_float_normal_sample();
  host->set_next_float_normal_sample(device->next_float_normal_sample());
  device->set_next_float_normal_sample(single);
  auto wide = host->next_double_normal_sample();
  host->set_next_double_normal_sample(device->next_double_normal_sample());
  device->set_next_double_normal_sample(wide);
}

bool shares_cpu_random() {
  return engine_of(cpu_twin(at::Generator())) == engine_of(at::detail::getDefaultCPUGenerator());
}

}  // namespace

LendEngine::LendEngine(bool wanted) {
  if (C10_LIKELY(!wanted) || has_loan) return;
  {
    WithoutGil unlocked;  // the kernel of the loan before may want to warn
    loan.lock();
  }
  if (shares_cpu_random()) {
    loan.unlock();
    return;
  }
  swap_engines();
  lent_ = has_loan = true;
}

LendEngine::~LendEngine() {
  if (!lent_) return;
  swap_engines();
  has_loan = false;
  loan.unlock();
}

const at::Generator& default_generator() {
  static auto* one = new at::Generator(
      at::make_generator<GeneratorImpl>(at::detail::createCPUGenerator()));
  return *one;
}

at::Generator new_generator() {
  return at::make_generator<GeneratorImpl>(at::detail::createCPUGenerator());
}

at::Generator cpu_twin(const at::Generator& generator) {
  if (!generator.defined()) return of(default_generator()).twin();
  // The bridge draws its seeds from generators of the CPU, and so takes one for a tensor on hpu.
  if (generator.device().type() == c10::DeviceType::CPU) return generator;
  TORCH_CHECK(generator.device().type() == c10::DeviceType::HPU,
              "Expected a 'hpu' device type for generator but found '", generator.device().type(), "'");
  return of(generator).twin();
}

std::atomic<bool> cpu_strides{false};

void share_cpu_random(bool on) {
  std::lock_guard<std::mutex> lock(loan);  // not while the engine is lent
  cpu_strides.store(on);
  of(default_generator()).replace_twin(on ? at::detail::getDefaultCPUGenerator() : at::detail::createCPUGenerator());
}

}  // namespace hpu
