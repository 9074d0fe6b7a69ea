// Refusals: sparse and quantised tensors under every policy, and a device that another process holds.
#include "refusals.h"

#include "device.h"
#include "locks.h"
#include "objections.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

namespace hpu {

std::atomic<Holder> hold{Holder::kNone};

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

int held_socket = -1;

// The card stays open when the last tensor is gone.
void child_after_fork() {
  if (hold.load() != Holder::kThis) return;
  hold.store(Holder::kParent);
  if (held_socket >= 0) ::close(held_socket);  // the parent's own stays open
}

std::string text_of(const char* variable) {
  const char* found = std::getenv(variable);
  return found == nullptr ? "" : found;
}

// The processes of one run (HPUSHIM_MACHINE) share its emulated devices: each holds a name that no two sockets can
// have, and that is free again however the process ends.
bool take_free_device(const std::string& machine, int devices) {
  for (int device = 0; device < devices; ++device) {
    const std::string name = "hpushim-" + machine + "-" + std::to_string(device);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (name.size() + 1 > sizeof(address.sun_path)) return true;
    name.copy(address.sun_path + 1, name.size());
    const int made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0) return true;
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (::bind(made, reinterpret_cast<const sockaddr*>(&address), length) == 0) {
      held_socket = made;
      return true;
    }
    const bool taken = errno == EADDRINUSE;
    ::close(made);
    if (!taken) return true;
  }
  return false;
}

void object(const char* what, const std::string& text) {
  note("held", what);
  TORCH_CHECK(policy_now() == Policy::kObserve, text);
  hold.store(Holder::kThis);  // told once
  TORCH_WARN(text);
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

void take_device() {
  if (inside > 0) return;
  if (hold.load() == Holder::kParent)
    return object("the device is held by the parent process",
                  user_line() + ": this process was forked from one that has used hpu, and a Gaudi is held by one "
                                "process: it cannot be used here (" + signed_by("fork") + "); start children with "
                                "spawn, or return CPU tensors and move them in the parent");
  static std::mutex once;
  const std::lock_guard<std::mutex> guard(once);
  if (hold.load() == Holder::kThis) return;
  const std::string machine = text_of("HPUSHIM_MACHINE"), count = text_of("HPUSHIM_DEVICES");
  const int devices = std::max(1, std::atoi(count.c_str()));
  if (machine.empty() || take_free_device(machine, devices)) return hold.store(Holder::kThis);
  object("each device is held by another process",
         user_line() + ": Device acquire failed: other processes hold the " + std::to_string(devices) +
             " emulated device(s) of this run, and a Gaudi is held by one process (emulated HPU); start one process "
             "for each device, or set HPUSHIM_DEVICES to emulate more");
}

}  // namespace hpu
