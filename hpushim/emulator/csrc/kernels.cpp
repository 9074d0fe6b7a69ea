// Kernels that the device has of its own: memory, views, copies; and the registration of everything.
#include "fake.h"
#include "operators.h"
#include "refusals.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_lazy_clone_native.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/repeat_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <cstring>
#include <utility>

namespace hpu {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using OptionalDtype = std::optional<at::ScalarType>;

void check_factory(std::optional<at::Layout> layout, std::optional<at::Device> device,
                   std::optional<bool> pin) {
  // The bridge warns and takes its one card: libraries name the card of their rank, as in barrier(device_ids=).
  if (device && device->index() > 0)
    remark("device_index", "HPU110",
           "hpu:" + std::to_string(static_cast<int>(device->index())) + " was asked for, and a process sees one card",
           "the tensor is on hpu:0; write \"hpu\", and choose the card of a process with HABANA_VISIBLE_MODULES or HLS_MODULE_ID");
  TORCH_CHECK(!pin.value_or(false), "emulated HPU: only dense CPU tensors can be pinned; drop pin_memory=True");
  if (layout.value_or(at::kStrided) != at::kStrided) refuse_layout(*layout, "a factory");
}

// With torch.use_deterministic_algorithms, new memory holds no chance values.
at::Tensor with_known_values(at::Tensor made) {
  auto& settings = at::globalContext();
  if (C10_UNLIKELY(settings.deterministicAlgorithms() && settings.deterministicFillUninitializedMemory()))
    at::native::fill_empty_deterministic_(made);
  return made;
}

at::Tensor empty(at::IntArrayRef size, OptionalDtype dtype, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool> pin,
                 std::optional<at::MemoryFormat> format) {
  check_factory(layout, device, pin);
  object_to_dtype(c10::dtype_or_default(dtype));
  return with_known_values(at::detail::empty_generic(size, allocator(), DispatchKeySet(DispatchKey::HPU),
                                                     c10::dtype_or_default(dtype), format));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, OptionalDtype dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device,
                         std::optional<bool> pin) {
  check_factory(layout, device, pin);
  object_to_dtype(c10::dtype_or_default(dtype));
  return with_known_values(at::detail::empty_strided_generic(
      size, stride, allocator(), DispatchKeySet(DispatchKey::HPU), c10::dtype_or_default(dtype)));
}

// A zero that needs no memory on other devices; a plain zero here.
at::Tensor efficient_zeros(at::IntArrayRef size, OptionalDtype dtype, std::optional<at::Layout> layout,
                           std::optional<at::Device> device, std::optional<bool> pin) {
  return empty(size, dtype, layout, device, pin, std::nullopt).zero_();
}

// Optimizer states and gradients are made in the likeness of parameters: they belong to the same layer.
at::Tensor empty_like(const at::Tensor& self, OptionalDtype dtype, std::optional<at::Layout> layout,
                      std::optional<at::Device> device, std::optional<bool> pin,
                      std::optional<at::MemoryFormat> format) {
  at::Tensor made = at::native::empty_like(self, dtype, layout, device, pin, format);
  if (is_on_hpu(made)) came_from(made, self);
  if (C10_UNLIKELY(cpu_strides.load(std::memory_order_relaxed)) && !made.is_contiguous() && keeps_cpu_strides(self))
    remember_cpu_strides(made, made.strides());
  return made;
}

void note_transfer(const at::Tensor& to, const at::Tensor& from) {
  const auto nbytes = static_cast<int64_t>(from.numel() * from.element_size());
  if (is_on_hpu(to) && !is_on_hpu(from)) {
    count(kHostToDevice);
    count(kHostToDeviceBytes, nbytes);
    note("host_to_device", "copy", nbytes);
  } else if (!is_on_hpu(to)) {
    count(kDeviceToHost);
    count(kDeviceToHostBytes, nbytes);
    note("device_to_host", "copy", nbytes);
    host_sync("copy to the host");
  }
}

// The device moves bytes; the CPU's kernel would make 0 and 1 of what a bool holds.
bool copy_bytes(const at::Tensor& to, const at::Tensor& from) {
  if (C10_LIKELY(to.scalar_type() != at::kBool || from.scalar_type() != at::kBool)) return false;
  if (to.sizes() != from.sizes() || !to.is_contiguous() || !from.is_contiguous()) return false;
  if (to.numel() != 0) std::memmove(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
  return true;
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  keep_backward_on_this_thread();
  touch();
  note_transfer(self, src);
  c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset |
                                           DispatchKeySet(DispatchKey::ADInplaceOrView));
  Inside guard;
  if (is_on_hpu(self)) make_writable(self);
  at::Tensor to = is_on_hpu(self) ? host_alias(self) : self;
  const bool same = storage_of(src) == storage_of(self);  // null for a sparse tensor, which is refused next
  at::Tensor from = is_on_hpu(src) ? host_alias(src, same ? to : at::Tensor()) : src;
  DeviceSpan span(is_on_hpu(self) ? (is_on_hpu(src) ? "memcpy_device" : "memcpy_host_to_device") : "memcpy_device_to_host");
  const bool left_out = C10_UNLIKELY(faking.load(std::memory_order_relaxed)) && leave_out_copy(self, src);
  if (!left_out && !copy_bytes(to, from)) at::_ops::copy_::redispatch(DispatchKeySet(DispatchKey::CPU), to, from, non_blocking);
  if (is_on_hpu(self)) {
    if (!left_out) narrow(to, !is_on_hpu(src));
    is_on_hpu(src) ? came_from(self, src) : came_from_host(self);
  }
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  at::Tensor out = dst;
  copy_(out, self, non_blocking);
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes()) dst.resize_(self.sizes());
  return copy_from(self, dst, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  touch();
  host_sync("item");
  if (C10_UNLIKELY(faking.load(std::memory_order_relaxed))) note_read(self);
  return at::native::_local_scalar_dense_cpu(host_alias(self));
}

at::Tensor& set_nothing(at::Tensor& self) {
  c10::Storage none(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                          allocator()->allocate(0), allocator(), true));
  return at::native::set_storage_cpu_(self, std::move(none), 0, {0}, {});
}

at::Tensor lazy_clone(const at::Tensor& self) {
  lend_for_lazy_clones(storage_of(self));
  return at::native::_lazy_clone(self);
}

void record_stream(at::Tensor&, c10::Stream) {}

at::Tensor view_int(const at::Tensor& self, at::IntArrayRef size) {
  if (C10_UNLIKELY(keeps_cpu_strides(self))) object_to_view(self, size);
  return at::native::view(self, size);
}

at::Tensor view_dtype(const at::Tensor& self, at::ScalarType dtype) {
  object_to_dtype(dtype);
  return at::native::view_dtype(self, dtype);
}

at::Tensor view_as_complex(const at::Tensor& self) {
  object_to_dtype(c10::toComplexType(self.scalar_type()));
  return at::native::view_as_complex(self);
}

// What a convolution's parts call, as in a trace: the whole, in which the CPU chooses its kernel.
at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
                       c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  return at::_ops::convolution::redispatch(DispatchKeySet(DispatchKey::HPU), input, weight, bias, stride, padding, dilation,
                                           transposed, output_padding, std::move(groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed, c10::SymIntArrayRef output_padding,
    c10::SymInt groups, std::array<bool, 3> wanted) {
  const c10::SymInt bias[] = {gradient.sym_size(1)};
  return at::_ops::convolution_backward::redispatch(DispatchKeySet(DispatchKey::HPU), gradient, input, weight,
                                                    c10::SymIntArrayRef(bias, 1), stride, padding, dilation, transposed,
                                                    output_padding, std::move(groups), wanted);
}

bool has_symbols(const at::Tensor& value) { return value.unsafeGetTensorImpl()->has_symbolic_sizes_strides(); }
bool has_symbols(const std::optional<at::Tensor>& value) { return value && has_symbols(*value); }
template <class T>
bool has_symbols(const T&) {
  return false;
}

// A host tensor of the same layout. The tensors that torch.compile traces with have no memory.
at::Tensor host_like(const at::Tensor& value) {
  const bool traced = value.is_meta() || value.key_set().has(c10::DispatchKey::Python);
  if (!traced) return is_on_hpu(value) ? host_alias(value) : value;
  auto like = at::empty_strided(value.sizes(), value.strides(), value.options().device(at::kCPU));
  return like.set_requires_grad(value.requires_grad());
}
std::optional<at::Tensor> host_like(const std::optional<at::Tensor>& value) {
  return value ? std::optional(host_like(*value)) : value;
}
template <class T>
const T& host_like(const T& value) {
  return value;
}

// The attention kernel that a CPU run would take: the same numbers, and no slower.
template <class... Args>
int64_t attention_choice(Args... args) {
  constexpr int64_t kMath = 0;
  if ((has_symbols(args) || ...)) return kMath;
  Inside guard;
  c10::impl::ExcludeDispatchKeyGuard untraced(
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
  return at::_fused_sdp_choice(host_like(args)...);
}

template <class... Args>
auto choice_like(int64_t (*)(Args...)) -> int64_t (*)(Args...) {
  return &attention_choice<Args...>;
}

thread_local bool repeating = false;

// Gaudi has a kernel for it; torch's own is made with unfold, which some Gaudis have not.
at::Tensor repeat(const at::Tensor& self, at::IntArrayRef repeats) {
  struct Within {
    bool before = std::exchange(repeating, true);
    ~Within() { repeating = before; }
  } within;
  return at::native::repeat(self, repeats);
}

at::Tensor unfold(const at::Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  if (repeating) return at::native::unfold(self, dimension, size, step);
  static const OperatorFacts& facts = facts_of(c10::Dispatcher::singleton().findSchemaOrThrow("aten::unfold", ""));
  object_to_operator(facts, {});
  return at::native::unfold(self, dimension, size, step);
}

// torch 2.6 has no place for hpu here: attention is then composed of plain operators.
template <class Stub>
auto answer_attention_choice(Stub& stub, int) -> decltype(stub.set_hpu_dispatch_ptr(nullptr)) {
  stub.set_hpu_dispatch_ptr(choice_like(static_cast<at::native::fused_sdp_choice_fn>(nullptr)));
}
template <class Stub>
void answer_attention_choice(Stub&, long) {}

void register_own(torch::Library& m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("empty_like", empty_like);
  m.impl("_efficientzerotensor", efficient_zeros);
  m.impl("copy_", copy_);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("_lazy_clone", lazy_clone);
  m.impl("set_", set_nothing);
  m.impl("set_.source_Storage", TORCH_FN(static_cast<at::Tensor& (*)(at::Tensor&, at::Storage)>(at::native::set_)));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(at::native::set_storage_cpu_));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("resize_", TORCH_FN(at::native::resize_));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", view_int);
  m.impl("view.dtype", view_dtype);
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", unfold);
  m.impl("repeat", repeat);
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", view_as_complex);
  m.impl("record_stream", record_stream);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}

// Composite on other devices, one CPU kernel here: the composite would ask for kernels that only CUDA has, name the
// devices that it takes, make a result that hpu has not, or take a foreach list apart into single operators.
bool runs_whole(const std::string& name) {
  static const char* const whole[] = {"aten::complex", "aten::convolution", "aten::convolution_backward", "aten::embedding", "aten::mode"};
  for (const char* w : whole)
    if (name == w) return true;
  return name.rfind("aten::_foreach_", 0) == 0;
}

void register_rest(torch::Library& m) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || op->hasKernelForDispatchKey(DispatchKey::HPU)) continue;
    if (!op->hasKernelForDispatchKey(DispatchKey::CPU) && !runs_whole(name.name)) continue;
    const std::string full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    m.impl(full.c_str(),
           torch::CppFunction::makeFromBoxedFunctor(std::make_unique<KernelOnHost>(facts_of(*op))));
  }
}

}  // namespace

at::Tensor view_of(const c10::Storage& storage, const at::Tensor& like) {
  auto* from = like.unsafeGetTensorImpl();
  // Not of torch's kind VIEW, which autograd takes for one of inference mode where no view kernel is around.
  auto out = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), DispatchKeySet(DispatchKey::HPU), from->dtype());
  auto* made = out.unsafeGetTensorImpl();
  made->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
  if (like.is_conj()) made->_set_conj(true);
  if (like.is_neg()) made->_set_neg(true);
  return out;
}

void register_operators() {
  c10::SetAllocator(c10::DeviceType::HPU, allocator());
  auto keep = [](const char* ns, DispatchKey key) -> torch::Library& {
    return *new torch::Library(torch::Library::IMPL, ns, key, __FILE__, __LINE__);
  };
  auto& aten = keep("aten", DispatchKey::HPU);
  register_own(aten);
  register_refusals(aten);
  register_rest(aten);
  keep("_", DispatchKey::HPU).fallback(torch::CppFunction::makeFromBoxedFunction<&run_any_on_host>());
  answer_attention_choice(at::native::_fused_sdp_choice_stub, 0);
}

}  // namespace hpu
