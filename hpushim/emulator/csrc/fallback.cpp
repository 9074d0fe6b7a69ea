// Every operator without a kernel of its own: run the CPU kernel on aliases of the hpu tensors.
#include "fake.h"
#include "operators.h"
#include "widen.h"

#include <algorithm>
#include <ATen/MemoryOverlap.h>
#include <ATen/TracerMode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace hpu {

std::atomic<bool> host_arguments_move{false};

namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using torch::jit::Stack;

// What one call needs to find its way back from the CPU result to the hpu tensors.
struct Aliases {
  struct Pair {
    at::Tensor original;
    at::Tensor aliased;
    bool written;
  };
  c10::SmallVector<Pair, 6> pairs;
  c10::SmallVector<std::pair<c10::StorageImpl*, c10::Storage>, 2> lifted;  // outputs that share memory

  const at::Tensor& add(const at::Tensor& original, bool written) {
    at::Tensor beside;
    for (auto& p : pairs) {
      if (p.original.is_same(original)) {
        p.written |= written;
        return p.aliased;
      }
      if (storage_of(p.original) == storage_of(original)) beside = p.aliased;
    }
    pairs.push_back({original, host_alias(original, beside), written});
    return pairs.back().aliased;
  }

  // Does the operator write into memory of `read` through another tensor?
  bool written_beside(const at::Tensor& read) const {
    return std::any_of(pairs.begin(), pairs.end(), [&](const Pair& p) {
      if (!p.written || p.original.is_same(read) || storage_of(p.original) != storage_of(read)) return false;
      const auto status = at::get_overlap_status(p.original, read);
      return status == at::MemOverlapStatus::Full || status == at::MemOverlapStatus::Partial;
    });
  }

  bool any_keeps_cpu_strides() const {
    return std::any_of(pairs.begin(), pairs.end(), [](const Pair& p) { return keeps_cpu_strides(p.original); });
  }
};

[[noreturn]] void refuse_mixed(const OperatorFacts& facts, const at::Tensor& tensor) {
  const bool draws = std::any_of(facts.arguments.begin(), facts.arguments.end(),
                                 [](const Argument& a) { return a.kind == ArgumentKind::kGenerator; });
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, "
              "hpu:0 and ", tensor.device(), "! (", facts.name, ", emulated HPU: move the tensor of shape ",
              tensor.sizes(), " to hpu first", draws ? ", or draw with a generator of the tensor's device)" : ")");
}

at::Tensor to_host(const OperatorFacts& facts, Aliases& aliases, const at::Tensor& t, const Argument& at) {
  if (!t.defined()) return t;
  if (is_on_hpu(t)) {
    // In lazy mode the bridge makes an operator of such a call that is not in place; the CPU refuses to read what it writes.
    if (!at.written && facts.writes && host_arguments_move.load(std::memory_order_relaxed) && aliases.written_beside(t))
      return host_alias(t).clone();
    return aliases.add(t, at.written);
  }
  const bool harmless = !at.written && (t.dim() == 0 || t.numel() == 0);  // as torch's own device check has it
  if (harmless || at.takes_host) return t;
  // The bridge's lazy operators copy such a tensor to the card; in eager mode it stays an error.
  if (at.written || at.kind != ArgumentKind::kTensor || !host_arguments_move.load(std::memory_order_relaxed))
    refuse_mixed(facts, t);
  count(kHostToDevice);
  count(kHostToDeviceBytes, static_cast<int64_t>(t.nbytes()));
  note("host_argument", facts.name.c_str(), static_cast<int64_t>(t.nbytes()));
  return t;
}

void make_arguments_writable(const OperatorFacts& facts, const Stack& stack) {
  const size_t first = stack.size() - facts.argument_count;
  for (const auto& argument : facts.arguments) {
    const IValue& value = stack[first + argument.position];
    if (!argument.written) continue;
    if (value.isTensor() && is_on_hpu(value.toTensor())) make_writable(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& t : value.toTensorVector())
        if (is_on_hpu(t)) make_writable(t);
  }
}

void arguments_to_host(const OperatorFacts& facts, Stack* stack, Aliases& aliases) {
  if (facts.writes) make_arguments_writable(facts, *stack);
  const size_t first = stack->size() - facts.argument_count;
  for (const auto& argument : facts.arguments) {
    IValue& value = (*stack)[first + argument.position];
    switch (argument.kind) {
      case ArgumentKind::kTensor:
        if (value.isTensor()) value = to_host(facts, aliases, value.toTensor(), argument);
        break;
      case ArgumentKind::kTensors:
        if (value.isTensorList()) {
          c10::List<at::Tensor> out;
          for (const at::Tensor& t : value.toTensorVector())
            out.push_back(to_host(facts, aliases, t, argument));
          value = std::move(out);
        }
        break;
      case ArgumentKind::kOptionalTensors:
        if (value.isList()) {
          c10::List<std::optional<at::Tensor>> out;
          for (const IValue& item : value.toListRef()) {
            if (item.isTensor())
              out.push_back(to_host(facts, aliases, item.toTensor(), argument));
            else
              out.push_back(std::nullopt);
          }
          value = std::move(out);
        }
        break;
      case ArgumentKind::kGenerator:
        value = cpu_twin(value.isNone() ? at::Generator() : value.toGenerator());
        break;
      case ArgumentKind::kDevice:
        if (value.isDevice() && value.toDevice().type() == c10::DeviceType::HPU)
          value = c10::Device(c10::DeviceType::CPU);
        break;
    }
  }
}

// In lazy mode the bridge's own kernel of torch.complex gives its result on the host.
at::Tensor left_on_host(const OperatorFacts& facts, at::Tensor result) {
  remark("host_result", "HPU118", facts.name + " leaves its result on the CPU in lazy mode", "compute with the real and the imaginary part");
  host_sync("complex");
  count(kDeviceToHost);
  count(kDeviceToHostBytes, static_cast<int64_t>(result.nbytes()));
  note("device_to_host", facts.name.c_str(), static_cast<int64_t>(result.nbytes()));
  return result;
}

at::Tensor to_device(const OperatorFacts& facts, Aliases& aliases, at::Tensor result) {
  if (!result.defined() || result.device().type() != c10::DeviceType::CPU) return result;
  if (!result.has_storage()) return lift(std::move(result));  // refused there, with the reason
  if (C10_UNLIKELY(facts.is_complex) && host_arguments_move.load(std::memory_order_relaxed)) return left_on_host(facts, std::move(result));
  auto* storage = result.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  for (auto& p : aliases.pairs) {
    if (p.aliased.is_same(result)) return p.original;
    if (storage != nullptr && p.aliased.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() == storage)
      return view_of(p.original.storage(), result);
  }
  c10::DimVector strides;  // the CPU's, where they are not a Gaudi's
  if (C10_UNLIKELY(!result.is_contiguous())) {
    const bool keep = cpu_strides.load(std::memory_order_relaxed);
    if (facts.pointwise || (keep && aliases.any_keeps_cpu_strides())) strides = result.strides();
    if (facts.pointwise && !keep) result = result.contiguous();
  }
  for (auto& [host, device] : aliases.lifted)
    if (host == storage) return view_of(device, result);
  narrow(result);
  const bool shared = result.use_count() > 1 || result.storage().use_count() > 1;
  auto lifted = lift(std::move(result));
  if (C10_UNLIKELY(!strides.empty())) remember_cpu_strides(lifted, strides);
  if (shared) aliases.lifted.emplace_back(storage, lifted.storage());
  return lifted;
}

void results_to_device(const OperatorFacts& facts, Stack* stack, Aliases& aliases) {
  for (auto& p : aliases.pairs)
    if (p.written) {
      narrow(p.aliased);
      settle(p.original, p.aliased);
    }
  const size_t first = stack->size() - facts.returns;
  for (size_t i = first; i < stack->size(); ++i) {
    IValue& value = (*stack)[i];
    if (value.isTensor()) {
      value = to_device(facts, aliases, std::move(value).toTensor());
    } else if (value.isTensorList()) {
      auto from = std::move(value).toTensorVector();
      c10::List<at::Tensor> out;
      out.reserve(from.size());
      for (auto& t : from) out.push_back(to_device(facts, aliases, std::move(t)));
      value = std::move(out);
    }
  }
}

// torch's kernel draws from the default CPU generator; this is the same arithmetic with the hpu's.
void dropout(Stack* stack) {
  const auto train = torch::jit::pop(*stack).toOptional<bool>();
  const double p = torch::jit::pop(*stack).toDouble();
  const at::Tensor input = torch::jit::pop(*stack).toTensor();
  at::Tensor output, mask;
  if (input.numel() == 0) {
    output = input;
    mask = at::empty_like(input);
  } else if (train.value_or(true)) {
    mask = at::empty_like(input, input.options().dtype(at::kBool)).bernoulli_(1. - p, cpu_twin(at::Generator()));
    output = input.mul(mask).mul_(p == 1. ? 0. : 1. / (1. - p));
  } else {
    mask = at::ones(input.sizes(), input.options().dtype(at::kBool));
    output = input.clone();
  }
  torch::jit::push(*stack, std::move(output), std::move(mask));
}

void run_kernel(const OperatorFacts& facts, const c10::OperatorHandle& op, Stack* stack, bool device_runs) {
  if (C10_UNLIKELY(facts.is_dropout)) return dropout(stack);
  LendEngine lend(facts.draws_unseen);
  run_cpu_kernel(facts, op, stack, device_runs);
}

const DispatchKeySet kNotBelow = c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset |
                                 DispatchKeySet(DispatchKey::ADInplaceOrView);

}  // namespace

// torch.jit.trace records an operator above the device, and turns itself off for what is below. It leaves out those whose
// parts it wants instead; a kernel for the whole would hide the parts, and leave a constant in the trace. What stands at the
// CPU's key takes them apart, whatever the device of the tensors.
void run_while_traced(const OperatorFacts& facts, const c10::OperatorHandle& op, Stack* stack) {
  if (facts.name == "aten::convolution" || facts.name.rfind("aten::_foreach_", 0) == 0)
    return op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), stack);
  TORCH_CHECK(false, "torch.jit.trace does not record ", facts.name, ", so its result would be a constant in the trace (emulated HPU)");
}

void run_on_host(const OperatorFacts& facts, const c10::OperatorHandle& op, Stack* stack) {
  if (C10_UNLIKELY(at::tracer::impl::is_dispatch_enabled())) return run_while_traced(facts, op, stack);
  keep_backward_on_this_thread();
  touch();
  const bool device_runs = object_to_operator(facts, *stack);
  Watched watched(facts, *stack);
  {
    c10::impl::ExcludeDispatchKeyGuard below(kNotBelow);
    Inside guard;
    if (C10_LIKELY(!faking.load(std::memory_order_relaxed)) || !answer_by_shape(facts, op, stack)) {
      Aliases aliases;
      arguments_to_host(facts, stack, aliases);
      {
        DeviceSpan span(facts.name.c_str());
        run_kernel(facts, op, stack, device_runs);
      }
      results_to_device(facts, stack, aliases);
    }
  }
  watched.results(*stack);
}

void run_any_on_host(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack) {
  run_on_host(facts_of(op), op, stack);
}

void KernelOnHost::operator()(const c10::OperatorHandle& op, DispatchKeySet, Stack* stack) {
  run_on_host(facts, op, stack);
}

}  // namespace hpu
