// Planning without computing; what is computed all the same, and what is told of it.
#include "fake.h"
#include "locks.h"
#include "objections.h"
#include "recorder.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/nonzero.h>

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace hpu {

std::atomic<bool> faking{false};

namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using torch::jit::Stack;

std::atomic<int64_t> computed_elements{0}, left_out_operators{0}, host_in_use{0}, host_peak{0};

Leaf left_out_lock("the books of what was left out");
FakeBooks& left_out_books() {  // under the lock
  static auto* one = new FakeBooks();
  return *one;
}

void tally(std::map<std::string, int64_t> FakeBooks::*which, const std::string& name) {
  Hold hold(left_out_lock);
  ++(left_out_books().*which)[name];
}

// ---- memory --------------------------------------------------------------------------------------

struct Unbacked {
  void* data;
  size_t nbytes;
  bool of_host;
  std::atomic<bool> unknown{false};
};

void release_unbacked(void* context) {
  auto* one = static_cast<Unbacked*>(context);
  munmap(one->data, one->nbytes);
  if (one->of_host) host_in_use.fetch_sub(static_cast<int64_t>(one->nbytes), std::memory_order_relaxed);
  delete one;
}

// The mark of the memory of a tensor; null for memory that is never left out: none, small, or of others.
std::atomic<bool>* mark_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage()) return nullptr;
  if (auto* block = block_of(tensor)) return &block->unknown;
  const auto& held = storage_of(tensor)->data_ptr();
  return held.get_deleter() == &release_unbacked ? &static_cast<Unbacked*>(held.get_context())->unknown : nullptr;
}

// ---- shapes --------------------------------------------------------------------------------------

// A tensor of the same shape and layout without memory.
at::Tensor shape_of(const at::Tensor& tensor, const at::Tensor& beside) {
  const c10::Device meta(c10::DeviceType::Meta);
  auto* impl = tensor.unsafeGetTensorImpl();
  c10::Storage storage =
      beside.defined() ? c10::Storage(beside.storage())
                       : c10::Storage(c10::make_intrusive<c10::StorageImpl>(
                             c10::StorageImpl::use_byte_size_t(), impl->storage().nbytes(), c10::DataPtr(nullptr, meta),
                             c10::GetAllocator(c10::DeviceType::Meta), true));
  auto out = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), DispatchKeySet(DispatchKey::Meta), impl->dtype());
  auto* made = out.unsafeGetTensorImpl();
  made->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
  if (tensor.is_conj()) made->_set_conj(true);
  if (tensor.is_neg()) made->_set_neg(true);
  return out;
}

// The way from tensors to shapes and back.
class Shapes {
 public:
  at::Tensor of(const at::Tensor& tensor, bool written) {
    if (!tensor.defined() || tensor.is_meta()) return tensor;
    // Rules that torch has in Python get such a one as a number, which they can only where the host holds it.
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return is_on_hpu(tensor) ? host_alias(tensor) : tensor;
    at::Tensor beside;
    for (auto& pair : pairs_) {
      if (pair.tensor.is_same(tensor)) {
        pair.written |= written;
        return pair.shape;
      }
      if (storage_of(pair.tensor) == storage_of(tensor)) beside = pair.shape;
    }
    pairs_.push_back({tensor, shape_of(tensor, beside), written});
    return pairs_.back().shape;
  }

  void settle_written() const {
    for (const auto& pair : pairs_) {
      if (!pair.written) continue;
      if (pair.tensor.sizes() != pair.shape.sizes()) pair.tensor.resize_(pair.shape.sizes());
      mark_unknown(pair.tensor);
    }
  }

  at::Tensor back(const OperatorFacts& facts, at::Tensor shape) {
    if (!shape.defined() || !shape.is_meta()) return shape;
    for (const auto& pair : pairs_) {
      if (pair.shape.is_same(shape)) return pair.tensor;
      if (is_on_hpu(pair.tensor) && storage_of(pair.shape) == storage_of(shape))
        return view_of(pair.tensor.storage(), shape);
    }
    if (facts.pointwise && !shape.is_contiguous()) shape = at::empty(shape.sizes(), shape.options());
    object_to_dtype(shape.scalar_type());
    for (const auto& [from, to] : made_)
      if (from.get() == storage_of(shape)) return view_of(to, shape);
    const auto nbytes = static_cast<int64_t>(storage_of(shape)->nbytes());
    const at::Tensor bytes = at::empty({nbytes}, at::TensorOptions(here()).dtype(at::kByte));
    mark_unknown(bytes);
    made_.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage_of(shape)), bytes.storage());
    return view_of(bytes.storage(), shape);
  }

 private:
  struct Pair {
    at::Tensor tensor, shape;
    bool written;
  };
  std::vector<Pair> pairs_;
  std::vector<std::pair<c10::intrusive_ptr<c10::StorageImpl>, c10::Storage>> made_;
};

template <class Visit>
void each_tensor(const IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isList()) {  // of optional tensors
    for (const IValue& item : value.toListRef())
      if (item.isTensor()) visit(item.toTensor());
  }
}

bool can_be_computed(const OperatorFacts& facts, const Stack& stack) {
  const size_t first = stack.size() - facts.argument_count;
  bool small = true;
  for (const auto& argument : facts.arguments) {
    if (argument.kind == ArgumentKind::kGenerator || argument.kind == ArgumentKind::kDevice) continue;
    each_tensor(stack[first + argument.position], [&](const at::Tensor& tensor) {
      small = small && (!tensor.defined() || (tensor.numel() <= computed_elements.load() && !is_unknown(tensor)));
    });
  }
  return small;
}

// Which argument each result is, of an operator that writes in place and gives back nothing else; false: it gives more.
bool writes_in_place(const OperatorFacts& facts, const c10::OperatorHandle& op, std::vector<size_t>& given) {
  if (!facts.writes || op.hasTag(at::Tag::inplace_view)) return false;
  for (const auto& argument : facts.arguments)
    if (argument.is_out) return false;
  const auto& schema = op.schema();
  for (const auto& result : schema.returns()) {
    const auto* alias = result.alias_info();
    if (alias == nullptr || !alias->isWrite()) return false;
    bool found = false;
    for (size_t i = 0; i < schema.arguments().size() && !found; ++i) {
      const auto* other = schema.arguments()[i].alias_info();
      found = other != nullptr && other->beforeSets() == alias->beforeSets();
      if (found) given.push_back(i);
    }
    if (!found) return false;
  }
  return true;
}

void leave_out_in_place(const OperatorFacts& facts, const std::vector<size_t>& given, Stack* stack) {
  const size_t first = stack->size() - facts.argument_count;
  for (const auto& argument : facts.arguments)
    if (argument.written) each_tensor((*stack)[first + argument.position], mark_unknown);
  Stack results;
  for (const size_t position : given) results.push_back((*stack)[first + position]);
  stack->resize(first);
  stack->insert(stack->end(), results.begin(), results.end());
}

// A mask among indices stands for as many positions as it has marks; where its values are unknown, torch takes all.
// Returns whether it is such a one.
bool add_index(const at::Tensor& index, Shapes& shapes, c10::List<std::optional<at::Tensor>>& out) {
  const bool mask = index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
  if (!mask || is_unknown(index) || index.is_meta()) {
    out.push_back(shapes.of(index, false));
    return mask;
  }
  const auto marks = at::nonzero(is_on_hpu(index) ? host_alias(index) : index).size(0);
  for (int64_t i = 0; i < index.dim(); ++i)
    out.push_back(at::empty({marks}, at::TensorOptions(c10::Device(c10::DeviceType::Meta)).dtype(at::kLong)));
  return false;
}

// Returns whether the shapes of the results will be guessed.
bool arguments_to_shapes(const OperatorFacts& facts, Stack* stack, Shapes& shapes) {
  const size_t first = stack->size() - facts.argument_count;
  const bool indexes = facts.name == "aten::index.Tensor";
  bool guessed = facts.reads_back && !indexes;
  for (const auto& argument : facts.arguments) {
    IValue& value = (*stack)[first + argument.position];
    if (argument.kind == ArgumentKind::kGenerator) {
      value = IValue();
    } else if (argument.kind == ArgumentKind::kDevice) {
      if (value.isDevice()) value = c10::Device(c10::DeviceType::Meta);
    } else if (value.isTensor()) {
      value = shapes.of(value.toTensor(), argument.written);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> out;
      for (const at::Tensor& tensor : value.toTensorVector()) out.push_back(shapes.of(tensor, argument.written));
      value = std::move(out);
    } else if (value.isList()) {
      c10::List<std::optional<at::Tensor>> out;
      for (const IValue& item : value.toListRef()) {
        if (!item.isTensor())
          out.push_back(std::nullopt);
        else if (indexes)
          guessed |= add_index(item.toTensor(), shapes, out);
        else
          out.push_back(shapes.of(item.toTensor(), argument.written));
      }
      value = std::move(out);
    }
  }
  return guessed;
}

bool results_are_small(const OperatorFacts& facts, const Stack& stack) {
  bool small = true;
  for (size_t i = stack.size() - facts.returns; i < stack.size(); ++i)
    each_tensor(stack[i], [&](const at::Tensor& one) {
      small = small && (!one.defined() || one.numel() <= computed_elements.load());
    });
  return small;
}

// By torch's rule for the shapes of its results; false: it has none that holds for these arguments.
bool ask_for_shapes(const OperatorFacts& facts, const c10::OperatorHandle& op, Stack* stack) {
  if (facts.name == "aten::masked_select") {  // torch has no rule; all is the most that it gives
    const size_t first = stack->size() - facts.argument_count;
    const at::Tensor from = (*stack)[first].toTensor(), mask = (*stack)[first + 1].toTensor();
    const auto sizes = at::infer_size(from.sizes(), mask.sizes());
    stack->resize(first);
    stack->push_back(at::empty({c10::multiply_integers(sizes)}, from.options()));
    return true;
  }
  if (!op.hasComputedKernelForDispatchKey(DispatchKey::Meta)) return false;
  try {
    op.redispatchBoxed(DispatchKeySet(DispatchKey::Meta), stack);
    return true;
  } catch (const std::exception&) {  // what is wrong with the arguments, the kernel itself says better
    return false;
  }
}

}  // namespace

void begin_fake(int64_t elements) {
  computed_elements.store(elements);
  faking.store(true);
}

c10::DataPtr unbacked(size_t nbytes, bool of_host) {
  void* data = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TORCH_CHECK(data != MAP_FAILED, "Allocation failed on the emulated HPU: the system gives no address space for ", nbytes,
              " bytes (", std::strerror(errno), "), though no memory is to stand behind; expected one that lends more than it "
              "has: sysctl vm.overcommit_memory=0, ulimit -v unlimited");
#ifdef MADV_NOHUGEPAGE
  madvise(data, nbytes, MADV_NOHUGEPAGE);  // one element that is written is to cost one small page
#endif
  if (of_host) {
    const auto amount = static_cast<int64_t>(nbytes);
    const int64_t now = host_in_use.fetch_add(amount, std::memory_order_relaxed) + amount;
    int64_t seen = host_peak.load(std::memory_order_relaxed);
    while (now > seen && !host_peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
  }
  return {data, new Unbacked{data, nbytes, of_host}, &release_unbacked, c10::Device(c10::DeviceType::CPU)};
}

bool is_unknown(const at::Tensor& tensor) {
  const auto* mark = mark_of(tensor);
  return mark != nullptr && mark->load(std::memory_order_relaxed);
}

void mark_unknown(const at::Tensor& tensor) {
  if (auto* mark = mark_of(tensor)) mark->store(true, std::memory_order_relaxed);
}

void note_read(const at::Tensor& tensor) {
  if (is_unknown(tensor)) tally(&FakeBooks::reads, user_line());
}

bool answer_by_shape(const OperatorFacts& facts, const c10::OperatorHandle& op, Stack* stack) {
  const bool computed = can_be_computed(facts, *stack);
  std::vector<size_t> given;
  if (writes_in_place(facts, op, given)) {
    if (computed) return false;
    leave_out_in_place(facts, given, stack);
    left_out_operators.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  if (computed && facts.reads_back) return false;
  const size_t first = stack->size() - facts.argument_count;
  const Stack kept(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
  Shapes shapes;
  const bool guessed = arguments_to_shapes(facts, stack, shapes);
  const bool answered = ask_for_shapes(facts, op, stack);
  if (!answered || (computed && results_are_small(facts, *stack))) {
    stack->resize(first);
    stack->insert(stack->end(), kept.begin(), kept.end());
    if (!answered && !computed) tally(&FakeBooks::computed, facts.name);
    return false;
  }
  if (guessed) tally(&FakeBooks::estimated, facts.name);
  shapes.settle_written();
  for (size_t i = stack->size() - facts.returns; i < stack->size(); ++i) {
    IValue& value = (*stack)[i];
    if (value.isTensor()) {
      value = shapes.back(facts, value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> out;
      for (const at::Tensor& one : value.toTensorVector()) out.push_back(shapes.back(facts, one));
      value = std::move(out);
    }
  }
  left_out_operators.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool leave_out_copy(const at::Tensor& to, const at::Tensor& from) {
  if (!is_on_hpu(to)) {
    note_read(from);
    // What the host keeps reads as zero where it is as fresh as large memory is.
    return to.nbytes() >= kUnbackedFrom && (is_unknown(from) || from.numel() > computed_elements.load());
  }
  if (to.numel() <= computed_elements.load() && !is_unknown(from)) return false;
  mark_unknown(to);
  left_out_operators.fetch_add(1, std::memory_order_relaxed);
  return true;
}

FakeBooks fake_books() {
  Hold hold(left_out_lock);
  FakeBooks out = left_out_books();
  out.left_out = left_out_operators.load();
  out.host_peak = host_peak.load();
  return out;
}

}  // namespace hpu
