// The backend "hccl": hands collectives of hpu tensors to gloo, on aliases of their memory.
#include "device.h"
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

using c10::intrusive_ptr;
using c10::ivalue::Future;
using c10d::Work;
using TensorLists = std::vector<Tensors>;

at::Tensor host(const at::Tensor& tensor) {
  TORCH_CHECK(!tensor.defined() || is_on_hpu(tensor),
              "hccl (emulated) carries hpu tensors only, but a tensor of shape ", tensor.sizes(), " is on ",
              tensor.device(), "; move it to hpu, or use a gloo group for CPU tensors");
  return tensor.defined() ? host_alias(tensor) : tensor;
}

Tensors host(const Tensors& tensors) {
  Tensors out;
  out.reserve(tensors.size());
  for (const auto& t : tensors) out.push_back(host(t));
  return out;
}

TensorLists host(const TensorLists& lists) {
  TensorLists out;
  out.reserve(lists.size());
  for (const auto& l : lists) out.push_back(host(l));
  return out;
}

Tensors flat(const Tensors& tensors) { return tensors; }

Tensors flat(const TensorLists& lists) {
  Tensors out;
  for (const auto& l : lists) out.insert(out.end(), l.begin(), l.end());
  return out;
}

c10::IValue value_of(const Tensors& tensors) { return c10::IValue(tensors); }

c10::IValue value_of(const TensorLists& lists) { return c10::IValue(lists); }

// gloo's work, with the hpu tensors as its results.
class HcclWork final : public Work {
 public:
  HcclWork(intrusive_ptr<Work> carried, c10::IValue results, Tensors tensors)
      : Work(-1, c10d::OpType::UNKNOWN), carried_(std::move(carried)), results_(std::move(results)),
        tensors_(std::move(tensors)) {}
  bool isCompleted() override { return carried_->isCompleted(); }
  bool isSuccess() const override { return carried_->isSuccess(); }
  std::exception_ptr exception() const override { return carried_->exception(); }
  int sourceRank() const override { return carried_->sourceRank(); }
  Tensors result() override { return tensors_; }
  void synchronize() override { carried_->synchronize(); }
  bool wait(std::chrono::milliseconds timeout) override { return carried_->wait(timeout); }
  void abort() override {
    object_to("abort", "aborting a collective over hccl");
    carried_->abort();
  }
  uint64_t getSequencenumber() const override { return carried_->getSequencenumber(); }
  intrusive_ptr<Future> getFuture() override {
    if (future_) return future_;
    auto inner = carried_->getFuture();
    auto type = results_.isTensorList() ? c10::TypePtr(c10::ListType::ofTensors()) : results_.type();
    auto future = c10::make_intrusive<Future>(type, std::vector<c10::Device>{here()});
    inner->addCallback([future, results = results_](Future& done) {
      if (done.hasError())
        future->setError(done.exception_ptr());
      else
        future->markCompleted(results);
    });
    future_ = future;
    return future;
  }

 private:
  intrusive_ptr<Work> carried_;
  c10::IValue results_;
  Tensors tensors_;
  intrusive_ptr<Future> future_;
};

// The works of a coalesced block, as one.
class HcclWorks final : public Work {
 public:
  explicit HcclWorks(std::vector<intrusive_ptr<Work>> works)
      : Work(-1, c10d::OpType::COALESCED), works_(std::move(works)) {}
  bool isCompleted() override {
    for (const auto& w : works_)
      if (!w->isCompleted()) return false;
    return true;
  }
  Tensors result() override {
    Tensors out;
    for (const auto& w : works_)
      for (const auto& t : w->result()) out.push_back(t);
    return out;
  }
  void synchronize() override {
    for (const auto& w : works_) w->synchronize();
  }
  bool wait(std::chrono::milliseconds timeout) override {
    for (const auto& w : works_) w->wait(timeout);
    return true;
  }
  void abort() override { object_to("abort", "aborting a collective over hccl"); }
  intrusive_ptr<Future> getFuture() override {
    wait(std::chrono::milliseconds(0));
    auto future = c10::make_intrusive<Future>(c10::ListType::ofTensors(), std::vector<c10::Device>{here()});
    future->markCompleted(c10::IValue(result()));
    return future;
  }

 private:
  std::vector<intrusive_ptr<Work>> works_;
};

// One buffer for all ranks is a row of equal parts, whatever its shape (SyncBatchNorm gathers into [1, parts * n]);
// gloo cuts along the first dimension.
at::Tensor as_row(const at::Tensor& t) { return t.is_contiguous() ? t.view({-1}) : t; }

class HcclBackend final : public c10d::Backend {
 public:
  explicit HcclBackend(intrusive_ptr<c10d::Backend> gloo)
      : Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)) {}
  const std::string getBackendName() const override { return "hccl"; }

  intrusive_ptr<Work> broadcast(Tensors& t, const c10d::BroadcastOptions& o) override {
    check("broadcast", t);
    auto h = carriers(host(t));
    return as_hccl(gloo_->broadcast(h, o), t);
  }
  intrusive_ptr<Work> allreduce(Tensors& t, const c10d::AllreduceOptions& o) override {
    check("all_reduce", t, o.reduceOp);
    Summands s("all_reduce", host(t));
    return settled(s, gloo_->allreduce(s.carried(), o), t);
  }
  intrusive_ptr<Work> allreduce_coalesced(Tensors& t, const c10d::AllreduceCoalescedOptions& o) override {
    check("all_reduce_coalesced", t, o.reduceOp);
    Summands s("all_reduce_coalesced", host(t));
    return settled(s, gloo_->allreduce_coalesced(s.carried(), o), t);
  }
  intrusive_ptr<Work> reduce(Tensors& t, const c10d::ReduceOptions& o) override {
    check("reduce", t, o.reduceOp);
    Summands s("reduce", host(t));
    return settled(s, gloo_->reduce(s.carried(), o), t);
  }
  intrusive_ptr<Work> allgather(TensorLists& out, Tensors& in, const c10d::AllgatherOptions& o) override {
    check("all_gather", in);
    auto ho = carriers(host(out));
    auto hi = carriers(host(in));
    return as_hccl(gloo_->allgather(ho, hi, o), out);
  }
  intrusive_ptr<Work> _allgather_base(at::Tensor& out, at::Tensor& in,
                                      const c10d::AllgatherOptions& o) override {
    check("all_gather_into_tensor", Tensors{in});
    auto ho = as_row(carrier(host(out)));
    auto hi = as_row(carrier(host(in)));
    return as_hccl(gloo_->_allgather_base(ho, hi, o), Tensors{out});
  }
  intrusive_ptr<Work> allgather_coalesced(TensorLists& out, Tensors& in,
                                          const c10d::AllgatherOptions& o) override {
    check("all_gather_coalesced", in);
    auto ho = carriers(host(out));
    auto hi = carriers(host(in));
    return as_hccl(gloo_->allgather_coalesced(ho, hi, o), out);
  }
  intrusive_ptr<Work> allgather_into_tensor_coalesced(Tensors& out, Tensors& in,
                                                      const c10d::AllgatherOptions& o) override {
    check("all_gather_into_tensor", in);
    auto ho = carriers(host(out));
    auto hi = carriers(host(in));
    return as_hccl(gloo_->allgather_into_tensor_coalesced(ho, hi, o), out);
  }
  intrusive_ptr<Work> gather(TensorLists& out, Tensors& in, const c10d::GatherOptions& o) override {
    check("gather", in);
    auto ho = carriers(host(out));
    auto hi = carriers(host(in));
    return as_hccl(gloo_->gather(ho, hi, o), out);
  }
  intrusive_ptr<Work> scatter(Tensors& out, TensorLists& in, const c10d::ScatterOptions& o) override {
    check("scatter", out);
    auto ho = carriers(host(out));
    auto hi = carriers(host(in));
    return as_hccl(gloo_->scatter(ho, hi, o), out);
  }
  intrusive_ptr<Work> reduce_scatter(Tensors& out, TensorLists& in,
                                     const c10d::ReduceScatterOptions& o) override {
    check("reduce_scatter", out, o.reduceOp);
    Summands so("reduce_scatter", host(out));
    TensorLists lists;
    for (const auto& list : host(in)) lists.push_back(Summands("reduce_scatter", list).carried());
    return settled(so, gloo_->reduce_scatter(so.carried(), lists, o), out);
  }
  intrusive_ptr<Work> _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                                           const c10d::ReduceScatterOptions& o) override {
    check("reduce_scatter_tensor", Tensors{out}, o.reduceOp);
    Summands so("reduce_scatter_tensor", Tensors{host(out)});
    Summands si("reduce_scatter_tensor", Tensors{host(in)});
    auto ho = as_row(so.carried()[0]);
    auto hi = as_row(si.carried()[0]);
    return settled(so, gloo_->_reduce_scatter_base(ho, hi, o), Tensors{out});
  }
  intrusive_ptr<Work> reduce_scatter_tensor_coalesced(Tensors& out, Tensors& in,
                                                      const c10d::ReduceScatterOptions& o) override {
    check("reduce_scatter_tensor", out, o.reduceOp);
    Summands so("reduce_scatter_tensor", host(out));
    Summands si("reduce_scatter_tensor", host(in));
    return settled(so, gloo_->reduce_scatter_tensor_coalesced(so.carried(), si.carried(), o), out);
  }
  intrusive_ptr<Work> alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<int64_t>& out_splits,
                                    std::vector<int64_t>& in_splits,
                                    const c10d::AllToAllOptions& o) override {
    check("all_to_all_single", Tensors{in});
    auto ho = carrier(host(out));
    auto hi = carrier(host(in));
    return as_hccl(gloo_->alltoall_base(ho, hi, out_splits, in_splits, o), Tensors{out});
  }
  // gloo has it for one buffer only: pack, exchange, unpack.
  intrusive_ptr<Work> alltoall(Tensors& out, Tensors& in, const c10d::AllToAllOptions& o) override {
    check("all_to_all", in);
    auto ho = carriers(host(out));
    auto hi = carriers(host(in));
    auto lengths = [](const Tensors& list) {
      std::vector<int64_t> counts;
      for (const auto& t : list) counts.push_back(t.numel());
      return counts;
    };
    auto out_splits = lengths(ho);
    auto in_splits = lengths(hi);
    for (auto& t : hi) t = t.reshape(-1);
    auto packed = at::cat(hi);
    int64_t total = 0;
    for (auto n : out_splits) total += n;
    auto received = at::empty({total}, packed.options());
    auto work = gloo_->alltoall_base(received, packed, out_splits, in_splits, o);
    work->wait();
    int64_t start = 0;
    for (auto& t : ho) {
      t.copy_(received.narrow(0, start, t.numel()).view(t.sizes()));
      start += t.numel();
    }
    return as_hccl(work, out);
  }
  intrusive_ptr<Work> send(Tensors& t, int to, int tag) override {
    check("send", t);
    auto h = carriers(host(t));
    return as_hccl(gloo_->send(h, to, tag), t);
  }
  intrusive_ptr<Work> recv(Tensors& t, int from, int tag) override {
    check("recv", t);
    auto h = carriers(host(t));
    return as_hccl(gloo_->recv(h, from, tag), t);
  }
  intrusive_ptr<Work> recvAnysource(Tensors& t, int tag) override {
    check("recv from any source", t);
    auto h = carriers(host(t));
    return as_hccl(gloo_->recvAnysource(h, tag), t);
  }
  intrusive_ptr<Work> barrier(const c10d::BarrierOptions& o) override { return gloo_->barrier(o); }
  void monitoredBarrier(const c10d::BarrierOptions& o, bool all) override { gloo_->monitoredBarrier(o, all); }
  void setSequenceNumberForGroup() override { gloo_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return gloo_->getSequenceNumberForGroup(); }

  void startCoalescing() override {
    TORCH_CHECK(!coalescing_, "hccl (emulated): a coalesced block was opened inside another; hccl does not nest them, "
                "close the first one before");
    coalescing_ = true;
  }
  intrusive_ptr<Work> endCoalescing() override {
    TORCH_CHECK(coalescing_, "hccl (emulated): a coalesced block was closed that none had opened");
    coalescing_ = false;
    return c10::make_intrusive<HcclWorks>(std::move(works_));
  }

 private:
  template <class Results>
  intrusive_ptr<Work> as_hccl(intrusive_ptr<Work> work, const Results& results) {
    intrusive_ptr<Work> out = c10::make_intrusive<HcclWork>(std::move(work), value_of(results), flat(results));
    if (coalescing_) works_.push_back(out);
    return out;
  }
  template <class Results>
  intrusive_ptr<Work> settled(const Summands& summands, const intrusive_ptr<Work>& work, const Results& results) {
    summands.settle(work);
    return as_hccl(work, results);
  }

  intrusive_ptr<c10d::Backend> gloo_;
  bool coalescing_ = false;
  std::vector<intrusive_ptr<Work>> works_;
};

// torch has c10d kernels for CPU, CUDA and a few more, each asking the group for the backend of its own device
// type. Hand the CPU kernel a group whose CPU backend is the group's hpu backend; the tensors stay hpu tensors.
void run_collective(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() != "process_group") continue;
    auto group = (*stack)[first + i].toCustomClass<c10d::ProcessGroup>();
    auto backend = group->getBackend(c10::DeviceType::HPU);
    auto stand_in = c10::make_intrusive<c10d::ProcessGroup>(group->getRank(), group->getSize());
    stand_in->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM, backend);
    (*stack)[first + i] = c10::IValue(std::move(stand_in));
    count(kCollectives);
    note("collective", op.operator_name().name.c_str());
    end_graph();  // the tensors must be there before they are sent
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

intrusive_ptr<c10d::Backend> hccl_over(intrusive_ptr<c10d::Backend> gloo) {
  return c10::make_intrusive<HcclBackend>(std::move(gloo));
}

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
