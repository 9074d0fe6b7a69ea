// Refusals: sparse and quantised tensors under every policy, and the device after a fork.
#include "refusals.h"

#include "device.h"
#include "locks.h"
#include "objections.h"

#include <pthread.h>

namespace hpu {

std::atomic<bool> forked{false};

namespace {

using c10::DispatchKey;

using Codes = std::map<std::string, std::string>;
std::atomic<const Codes*> codes{new Codes()};  // set once, when the device is dressed

[[noreturn]] void refuse(const char* subject, const std::string& what, const char* instead) {
  note("unsupported", what.c_str());
  TORCH_CHECK_NOT_IMPLEMENTED(false, user_line(), ": ", what, ", which hpu does not have, as on Gaudi (",
                              signed_by(subject), "); ", instead);
}

void refuse_sparse_operator(const c10::OperatorHandle& op, torch::jit::Stack*) {
  refuse("layout", c10::toString(op.operator_name()) + " met a sparse tensor", "use a dense tensor");
}

void refuse_nested_operator(const c10::OperatorHandle& op, torch::jit::Stack*) {
  refuse("nested", c10::toString(op.operator_name()) + " met a nested tensor of strided layout", "pad it, or use layout=torch.jagged");
}

void refuse_quantised_operator(const c10::OperatorHandle& op, torch::jit::Stack*) {
  refuse_quantised(c10::toString(op.operator_name()).c_str());
}

// Composed on every device: they would fail halfway, in torch's words.
const char* const kMakesCompressed[] = {
    "_sparse_compressed_tensor_unsafe", "_sparse_csr_tensor_unsafe", "_sparse_csc_tensor_unsafe",
    "_sparse_bsr_tensor_unsafe", "_sparse_bsc_tensor_unsafe"};

// The card stays open when the last tensor is gone.
void child_after_fork() {
  const auto stats = memory_stats();
  if (stats.live > 0 || stats.allocations > 0) forked.store(true);
}

}  // namespace

std::string signed_by(const char* subject) {
  const Codes& known = *codes.load(std::memory_order_acquire);
  const auto at = known.find(subject);
  return at == known.end() ? "emulated HPU" : "emulated HPU, " + at->second;
}

void set_codes(std::map<std::string, std::string> found) { codes.store(new Codes(std::move(found)), std::memory_order_release); }

void check_generator() {
  if (codes.load(std::memory_order_acquire)->count("generator") == 0) return;
  refuse("generator", "torch.Generator was asked for on hpu", "give it device=\"cpu\": its seeds serve hpu tensors");
}

void refuse_layout(c10::Layout layout, const char* where) {
  std::ostringstream text;
  text << where << " gives or takes a tensor of layout " << layout;
  refuse("layout", text.str(), "keep the data dense (strided)");
}

void refuse_quantised(const char* where) {
  refuse("quantised", std::string(where) + " gives or takes a quantised tensor",
         "use the quantized_decomposed operators, or quantise with the vendor's tools");
}

void register_refusals(torch::Library& aten) {
  using torch::CppFunction;
  auto keep = [](const char* ns, DispatchKey key) -> torch::Library& {
    return *new torch::Library(torch::Library::IMPL, ns, key, __FILE__, __LINE__);
  };
  auto& compressed = keep("aten", DispatchKey::SparseCsrHPU);
  for (const char* name : kMakesCompressed) {
    if (!c10::Dispatcher::singleton().findSchema({std::string("aten::") + name, ""})) continue;
    aten.impl(name, CppFunction::makeFromBoxedFunction<&refuse_sparse_operator>());
    compressed.impl(name, CppFunction::makeFromBoxedFunction<&refuse_sparse_operator>());
  }
  for (const auto key : {DispatchKey::SparseHPU, DispatchKey::SparseCsrHPU})
    keep("_", key).fallback(CppFunction::makeFromBoxedFunction<&refuse_sparse_operator>());
  keep("_", DispatchKey::NestedTensorHPU).fallback(CppFunction::makeFromBoxedFunction<&refuse_nested_operator>());
  keep("_", DispatchKey::QuantizedHPU).fallback(CppFunction::makeFromBoxedFunction<&refuse_quantised_operator>());
}

void watch_forks() {
  watch_locks_at_forks();
  pthread_atfork(nullptr, nullptr, &child_after_fork);
}

void object_to_fork() {
  if (inside > 0) return;
  note("forked", "the device is held by the parent process");
  const std::string what = user_line() + ": this process was forked from one that has used hpu, and a Gaudi is "
                           "held by one process: it cannot be used here (" + signed_by("fork") + "); start children "
                           "with spawn, or return CPU tensors and move them in the parent";
  if (policy_now() == Policy::kObserve) {
    forked.store(false);  // told once
    TORCH_WARN(what);
    return;
  }
  TORCH_CHECK(false, what);
}

}  // namespace hpu
