// Two names for one memory: an hpu tensor as a CPU tensor for the kernels, a CPU result as an hpu tensor.
#include "device.h"
#include "objections.h"
#include "refusals.h"

#include <c10/core/TensorImpl.h>

namespace hpu {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::StorageImpl;
using c10::TensorImpl;

const c10::Device kCpu(c10::DeviceType::CPU);

void release_storage(void* storage) { delete static_cast<c10::Storage*>(storage); }

// A second DataPtr over the memory of an hpu storage, for the CPU.
c10::DataPtr host_view(const c10::Storage& storage) {
  auto* impl = storage.unsafeGetStorageImpl();
  const auto& held = impl->data_ptr();
  void* data = held.get();
  if (held.get_deleter() == &release_block) {
    auto* block = static_cast<Block*>(held.get_context());
    if (block != nullptr) block->refs.fetch_add(1, std::memory_order_relaxed);
    return {data, block, &release_block, kCpu};
  }
  // Memory that came from elsewhere (DLPack, shared memory): keep its storage alive instead.
  return {data, new c10::Storage(storage), &release_storage, kCpu};
}

void carry_bits(const at::Tensor& from, const at::Tensor& to) {
  auto* impl = to.unsafeGetTensorImpl();
  if (C10_UNLIKELY(from.is_conj())) impl->_set_conj(true);
  if (C10_UNLIKELY(from.is_neg())) impl->_set_neg(true);
}

void move_storage_to_hpu(StorageImpl* storage) {
  auto* device_allocator = allocator();
  const size_t nbytes = storage->nbytes();
  c10::DataPtr host = storage->set_data_ptr(c10::DataPtr(nullptr, kCpu));
  if (host.get() == nullptr) {
    storage->set_data_ptr_noswap(c10::DataPtr(nullptr, nullptr, &release_block, here()));
  } else {
    storage->set_data_ptr_noswap(adopt(std::move(host), nbytes));
  }
  storage->set_allocator(device_allocator);
}

}  // namespace

Block* block_of(const at::Tensor& tensor) {
  auto* impl = tensor.unsafeGetTensorImpl();
  if (!impl->has_storage()) return nullptr;
  const auto& held = impl->unsafe_storage().unsafeGetStorageImpl()->data_ptr();
  return held.get_deleter() == &release_block ? static_cast<Block*>(held.get_context()) : nullptr;
}

bool is_on_hpu(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->device_type() == c10::DeviceType::HPU;
}

at::Tensor host_alias(const at::Tensor& tensor, const at::Tensor& beside) {
  auto* impl = tensor.unsafeGetTensorImpl();
  if (C10_UNLIKELY(impl->layout() != c10::kStrided || !impl->has_storage())) refuse_layout(impl->layout(), "an operator");
  const c10::Storage& storage = impl->storage();
  c10::Storage twin = beside.defined()
                          ? c10::Storage(beside.storage())
                          : c10::Storage(c10::make_intrusive<StorageImpl>(
                                StorageImpl::use_byte_size_t(), storage.nbytes(), host_view(storage),
                                c10::GetCPUAllocator(), storage.unsafeGetStorageImpl()->resizable()));
  auto out = at::detail::make_tensor<TensorImpl>(std::move(twin), DispatchKeySet(DispatchKey::CPU),
                                                 impl->dtype());
  auto* made = out.unsafeGetTensorImpl();
  made->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
  if (C10_UNLIKELY(impl->is_wrapped_number())) made->set_wrapped_number(true);
  carry_bits(tensor, out);
  return out;
}

at::Tensor lift(at::Tensor tensor) {
  auto* impl = tensor.unsafeGetTensorImpl();
  if (C10_UNLIKELY(impl->layout() != c10::kStrided || !impl->has_storage() || impl->is_mkldnn()))
    refuse_layout(impl->layout(), "the result of an operator");
  if (C10_UNLIKELY(tensor.is_quantized())) refuse_quantised("the result of an operator");
  object_to_dtype(tensor.scalar_type());
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (tensor.use_count() == 1 && impl->unsafe_storage().use_count() == 1) {
    move_storage_to_hpu(storage);
    impl->_change_backend_component_keys(here());
    impl->set_storage_keep_dtype(c10::Storage(impl->unsafe_storage()));
    return tensor;
  }
  // Someone else holds the CPU tensor or its storage: share the memory, leave theirs as it is.
  const size_t nbytes = storage->nbytes();
  auto* keep = new c10::Storage(impl->unsafe_storage());
  c10::DataPtr host(storage->data_ptr().get(), keep, &release_storage, kCpu);
  c10::Storage made(c10::make_intrusive<StorageImpl>(
      StorageImpl::use_byte_size_t(), nbytes,
      nbytes == 0 ? c10::DataPtr(nullptr, nullptr, &release_block, here()) : adopt(std::move(host), nbytes),
      allocator(), true));
  auto out = at::detail::make_tensor<TensorImpl>(std::move(made), DispatchKeySet(DispatchKey::HPU),
                                                 impl->dtype());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(impl->sizes(), impl->strides(),
                                                   impl->storage_offset());
  if (impl->is_wrapped_number()) out.unsafeGetTensorImpl()->set_wrapped_number(true);
  carry_bits(tensor, out);
  return out;
}

void settle(const at::Tensor& original, const at::Tensor& aliased) {
  auto* to = original.unsafeGetTensorImpl();
  auto* from = aliased.unsafeGetTensorImpl();
  auto* device_storage = to->unsafe_storage().unsafeGetStorageImpl();
  auto* host_storage = from->unsafe_storage().unsafeGetStorageImpl();
  if (C10_UNLIKELY(host_storage->data_ptr().get() != device_storage->data_ptr().get())) {
    const size_t nbytes = host_storage->nbytes();
    auto host = host_storage->set_data_ptr(c10::DataPtr(nullptr, kCpu));
    device_storage->set_data_ptr_noswap(adopt(std::move(host), nbytes));
    device_storage->set_nbytes(nbytes);
    host_storage->set_data_ptr_noswap(host_view(to->unsafe_storage()));  // others may share it
  }
  if (C10_UNLIKELY(from->sizes() != to->sizes() || from->strides() != to->strides() ||
                   from->storage_offset() != to->storage_offset())) {
    to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
  }
}

}  // namespace hpu
