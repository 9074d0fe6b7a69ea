// The hpu generator: holds a CPU generator that draws for it, so one seed gives one stream on both devices.
#include "device.h"

#include <ATen/CPUGeneratorImpl.h>

namespace hpu {
namespace {

struct GeneratorImpl final : c10::GeneratorImpl {
  at::Generator drawing;

  explicit GeneratorImpl(at::Generator cpu)
      : c10::GeneratorImpl(here(), c10::DispatchKeySet(c10::DispatchKey::HPU)),
        drawing(std::move(cpu)) {}
  void set_current_seed(uint64_t seed) override { drawing.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { drawing.set_offset(offset); }
  uint64_t get_offset() const override { return drawing.unsafeGetGeneratorImpl()->get_offset(); }
  uint64_t current_seed() const override { return drawing.current_seed(); }
  uint64_t seed() override { return drawing.seed(); }
  void set_state(const c10::TensorImpl& state) override {
    drawing.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return drawing.unsafeGetGeneratorImpl()->get_state();
  }
  c10::GeneratorImpl* clone_impl() const override { return new GeneratorImpl(drawing.clone()); }
};

const GeneratorImpl& of(const at::Generator& generator) {
  return *static_cast<GeneratorImpl*>(generator.unsafeGetGeneratorImpl());
}

}  // namespace

const at::Generator& default_generator() {
  static auto* one = new at::Generator(
      at::make_generator<GeneratorImpl>(at::detail::createCPUGenerator()));
  return *one;
}

at::Generator new_generator() {
  return at::make_generator<GeneratorImpl>(at::detail::createCPUGenerator());
}

at::Generator cpu_twin(const at::Generator& generator) {
  if (!generator.defined()) return of(default_generator()).drawing;
  // The bridge draws its seeds from generators of the CPU, and so takes one for a tensor on hpu.
  if (generator.device().type() == c10::DeviceType::CPU) return generator;
  TORCH_CHECK(generator.device().type() == c10::DeviceType::HPU,
              "Expected a 'hpu' device type for generator but found '", generator.device().type(), "'");
  return of(generator).drawing;
}

void share_cpu_random(bool on) {
  auto& drawing = const_cast<GeneratorImpl&>(of(default_generator())).drawing;
  drawing = on ? at::detail::getDefaultCPUGenerator() : at::detail::createCPUGenerator();
}

}  // namespace hpu
