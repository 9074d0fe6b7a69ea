// How torch's collective operators find the backend "hccl".
#include "hccl.h"
#include "objections.h"
#include "recorder.h"

#ifdef HPU_DISTRIBUTED

#include <ATen/core/stack.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

namespace hpu {
namespace {

// "group 0 of 8 ranks"
std::string text_of(const c10d::ProcessGroup& group) {
  std::string name;
  try {
    name = group.getGroupName();
  } catch (const std::exception&) {  // it was given none
  }
  return "group " + (name.empty() ? std::string("without a name") : name) + " of " + std::to_string(group.getSize()) + " ranks";
}

int64_t bytes_of(const c10::IValue& value) {
  int64_t sum = 0;
  if (value.isTensor()) {
    if (value.toTensor().defined()) sum += static_cast<int64_t>(value.toTensor().nbytes());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) sum += bytes_of(item);
  }
  return sum;
}

// What this rank hands over: its tensors, without those that are there to be written.
int64_t bytes_sent(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack.size() - arguments.size();
  int64_t sum = 0;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name().find("output") == std::string::npos) sum += bytes_of(stack[first + i]);
  return sum;
}

// torch has c10d kernels for CPU, CUDA and a few more, each asking the group for the backend of its own device
// type. Hand the CPU kernel a group whose CPU backend is the group's hpu backend; the tensors stay hpu tensors.
void run_collective(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() != "process_group") continue;
    auto group = (*stack)[first + i].toCustomClass<c10d::ProcessGroup>();
    bool known = false;
    for (const auto& device : group->getDeviceTypes()) known |= device.type() == c10::DeviceType::HPU;
    auto backend = known ? group->getBackend(c10::DeviceType::HPU) : nullptr;
    TORCH_CHECK(backend && backend->getBackendName() != "gloo", user_line(), ": ", op.operator_name().name.substr(6),
                " met an hpu tensor in a group of the backend gloo, which carries CPU tensors only, here (emulated HPU) as on "
                "Gaudi (No backend type associated with device type hpu); use init_process_group(\"hccl\"), or move the tensor to the CPU");
    auto stand_in = c10::make_intrusive<c10d::ProcessGroup>(group->getRank(), group->getSize());
    stand_in->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM, backend);
    (*stack)[first + i] = c10::IValue(std::move(stand_in));
    count(kCollectives);
    if (sites_on.load(std::memory_order_relaxed))
      note("collective", (op.operator_name().name.substr(6) + " in " + text_of(*group)).c_str(), bytes_sent(op, *stack));
    end_graph("a collective");  // the tensors must be there before they are sent
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

// A CPU tensor in a group that has hccl and no gloo: torch's own message names neither.
void refuse_host_tensor(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect);
  if (!keys.has(c10::DispatchKey::CPU)) return op.redispatchBoxed(below, stack);
  const auto& arguments = op.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() != "process_group") continue;
    bool cpu = false, hpu = false;
    for (const auto& device : (*stack)[first + i].toCustomClass<c10d::ProcessGroup>()->getDeviceTypes()) {
      cpu |= device.type() == c10::DeviceType::CPU;
      hpu |= device.type() == c10::DeviceType::HPU;
    }
    TORCH_CHECK(cpu || !hpu, user_line(), ": ", op.operator_name().name.substr(6), " met a CPU tensor in a group of the backend "
                "hccl, which carries hpu tensors only, here (emulated HPU) as on Gaudi (No backend type associated with "
                "device type cpu); move the tensor to hpu, or use a gloo group: dist.new_group(backend=\"gloo\"), or "
                "init_process_group(\"cpu:gloo,hpu:hccl\")");
  }
  op.redispatchBoxed(below, stack);
}

}  // namespace

void register_collectives() {
  static auto* library =
      new torch::Library(torch::Library::IMPL, "c10d", c10::DispatchKey::HPU, __FILE__, __LINE__);
  static auto* above =
      new torch::Library(torch::Library::IMPL, "c10d", c10::DispatchKey::BackendSelect, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("c10d::", 0) != 0) continue;
    const auto op = dispatcher.findSchema(name);
    if (op && op->hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
        !op->hasKernelForDispatchKey(c10::DispatchKey::BackendSelect))
      above->impl(name.name.c_str(), torch::CppFunction::makeFromBoxedFunction<&refuse_host_tensor>());
    if (!op || op->hasKernelForDispatchKey(c10::DispatchKey::HPU) ||
        !op->hasKernelForDispatchKey(c10::DispatchKey::CPU))
      continue;
    library->impl(name.name.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_collective>());
  }
}

}  // namespace hpu

#endif
