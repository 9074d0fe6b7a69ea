// The backend "hccl": hands collectives of hpu tensors to gloo, on aliases of their memory; and how groups end.
#include "device.h"
#include "hccl_work.h"
#include "locks.h"

#ifdef HPU_DISTRIBUTED

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <condition_variable>
#include <thread>
#include <unistd.h>
#include <unordered_set>

namespace hpu {
namespace {

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

bool averages(const c10d::ReduceOp& op) {
  return static_cast<c10d::ReduceOp::RedOpType>(op) == c10d::ReduceOp::AVG;
}

// An average is carried as a sum: gloo has none of integers.
template <class Options>
Options as_sum(Options options) {
  if (averages(options.reduceOp)) options.reduceOp = c10d::ReduceOp::SUM;
  return options;
}

// One buffer for all ranks is a row of equal parts, whatever its shape (SyncBatchNorm gathers into [1, parts * n]);
// gloo cuts along the first dimension.
at::Tensor as_row(const at::Tensor& t) { return t.is_contiguous() ? t.view({-1}) : t; }

Leaf groups_lock("the hccl groups");
class HcclBackend;
std::unordered_set<HcclBackend*>& groups() {  // all that are alive, under the lock
  static auto* set = new std::unordered_set<HcclBackend*>();
  return *set;
}

class HcclBackend final : public c10d::Backend {
 public:
  explicit HcclBackend(intrusive_ptr<c10d::Backend> gloo);
  ~HcclBackend() override;
  // Hands over what carries the groups, which do nothing from then on.
  static std::vector<intrusive_ptr<c10d::Backend>> give_up_all();
  const std::string getBackendName() const override { return "hccl"; }

  intrusive_ptr<Work> broadcast(Tensors& t, const c10d::BroadcastOptions& o) override {
    check("broadcast", t);
    auto h = carriers(host(t));
    return as_hccl(issue([&](c10d::Backend& gloo) { return gloo.broadcast(h, o); }), t);
  }
  intrusive_ptr<Work> allreduce(Tensors& t, const c10d::AllreduceOptions& o) override {
    check("all_reduce", t, o.reduceOp);
    Summands s("all_reduce", host(t));
    return settled(s, shares(o), issue([&](c10d::Backend& gloo) { return gloo.allreduce(s.carried(), as_sum(o)); }), t);
  }
  intrusive_ptr<Work> allreduce_coalesced(Tensors& t, const c10d::AllreduceCoalescedOptions& o) override {
    check("all_reduce_coalesced", t, o.reduceOp);
    Summands s("all_reduce_coalesced", host(t));
    return settled(s, shares(o), issue([&](c10d::Backend& gloo) { return gloo.allreduce_coalesced(s.carried(), as_sum(o)); }), t);
  }
  intrusive_ptr<Work> reduce(Tensors& t, const c10d::ReduceOptions& o) override {
    check("reduce", t, o.reduceOp);
    Summands s("reduce", host(t));
    return settled(s, o.rootRank == getRank() ? shares(o) : 1, issue([&](c10d::Backend& gloo) { return gloo.reduce(s.carried(), as_sum(o)); }), t);
  }
  intrusive_ptr<Work> allgather(TensorLists& out, Tensors& in, const c10d::AllgatherOptions& o) override {
    check("all_gather", in);
    auto ho = carriers(host(out));
    auto hi = carriers(host(in));
    return as_hccl(issue([&](c10d::Backend& gloo) { return gloo.allgather(ho, hi, o); }), out);
  }
  intrusive_ptr<Work> _allgather_base(at::Tensor& out, at::Tensor& in,
                                      const c10d::AllgatherOptions& o) override {
    check("all_gather_into_tensor", Tensors{in});
    auto ho = as_row(carrier(host(out)));
    auto hi = as_row(carrier(host(in)));
    return as_hccl(issue([&](c10d::Backend& gloo) { return gloo._allgather_base(ho, hi, o); }), Tensors{out});
  }
  intrusive_ptr<Work> allgather_coalesced(TensorLists& out, Tensors& in,
                                          const c10d::AllgatherOptions& o) override {
    check("all_gather_coalesced", in);
    auto ho = carriers(host(out));
    auto hi = carriers(host(in));
    return as_hccl(issue([&](c10d::Backend& gloo) { return gloo.allgather_coalesced(ho, hi, o); }), out);
  }
  intrusive_ptr<Work> allgather_into_tensor_coalesced(Tensors& out, Tensors& in,
                                                      const c10d::AllgatherOptions& o) override {
    check("all_gather_into_tensor", in);
    auto ho = carriers(host(out));
    auto hi = carriers(host(in));
    return as_hccl(issue([&](c10d::Backend& gloo) { return gloo.allgather_into_tensor_coalesced(ho, hi, o); }), out);
  }
  intrusive_ptr<Work> gather(TensorLists& out, Tensors& in, const c10d::GatherOptions& o) override {
    check("gather", in);
    auto ho = carriers(host(out));
    auto hi = carriers(host(in));
    return as_hccl(issue([&](c10d::Backend& gloo) { return gloo.gather(ho, hi, o); }), out);
  }
  intrusive_ptr<Work> scatter(Tensors& out, TensorLists& in, const c10d::ScatterOptions& o) override {
    check("scatter", out);
    auto ho = carriers(host(out));
    auto hi = carriers(host(in));
    return as_hccl(issue([&](c10d::Backend& gloo) { return gloo.scatter(ho, hi, o); }), out);
  }
  intrusive_ptr<Work> reduce_scatter(Tensors& out, TensorLists& in,
                                     const c10d::ReduceScatterOptions& o) override {
    check("reduce_scatter", out, o.reduceOp);
    Summands so("reduce_scatter", host(out), averages(o.reduceOp));
    TensorLists lists;
    for (const auto& list : host(in)) lists.push_back(Summands("reduce_scatter", list).carried());
    return settled(so, shares(o), issue([&](c10d::Backend& gloo) { return gloo.reduce_scatter(so.carried(), lists, as_sum(o)); }), out);
  }
  intrusive_ptr<Work> _reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                                           const c10d::ReduceScatterOptions& o) override {
    check("reduce_scatter_tensor", Tensors{out}, o.reduceOp);
    Summands so("reduce_scatter_tensor", Tensors{host(out)}, averages(o.reduceOp));
    Summands si("reduce_scatter_tensor", Tensors{host(in)});
    auto ho = as_row(so.carried()[0]);
    auto hi = as_row(si.carried()[0]);
    return settled(so, shares(o), issue([&](c10d::Backend& gloo) { return gloo._reduce_scatter_base(ho, hi, as_sum(o)); }), Tensors{out});
  }
  intrusive_ptr<Work> reduce_scatter_tensor_coalesced(Tensors& out, Tensors& in,
                                                      const c10d::ReduceScatterOptions& o) override {
    check("reduce_scatter_tensor", out, o.reduceOp);
    Summands so("reduce_scatter_tensor", host(out), averages(o.reduceOp));
    Summands si("reduce_scatter_tensor", host(in));
    return settled(so, shares(o), issue([&](c10d::Backend& gloo) { return gloo.reduce_scatter_tensor_coalesced(so.carried(), si.carried(), as_sum(o)); }), out);
  }
  intrusive_ptr<Work> alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<int64_t>& out_splits,
                                    std::vector<int64_t>& in_splits,
                                    const c10d::AllToAllOptions& o) override {
    check("all_to_all_single", Tensors{in});
    auto ho = carrier(host(out));
    auto hi = carrier(host(in));
    return as_hccl(issue([&](c10d::Backend& gloo) { return gloo.alltoall_base(ho, hi, out_splits, in_splits, o); }), Tensors{out});
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
    auto work = issue([&](c10d::Backend& gloo) { return gloo.alltoall_base(received, packed, out_splits, in_splits, o); });
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
    return as_hccl(issue([&](c10d::Backend& gloo) { return gloo.send(h, to, tag); }), t);
  }
  intrusive_ptr<Work> recv(Tensors& t, int from, int tag) override {
    check("recv", t);
    auto h = carriers(host(t));
    return as_hccl(issue([&](c10d::Backend& gloo) { return gloo.recv(h, from, tag); }), t);
  }
  intrusive_ptr<Work> recvAnysource(Tensors& t, int tag) override {
    check("recv from any source", t);
    auto h = carriers(host(t));
    return as_hccl(issue([&](c10d::Backend& gloo) { return gloo.recvAnysource(h, tag); }), t);
  }
  intrusive_ptr<Work> barrier(const c10d::BarrierOptions& o) override { return issue([&](c10d::Backend& gloo) { return gloo.barrier(o); }); }
  void monitoredBarrier(const c10d::BarrierOptions& o, bool all) override { carrying()->monitoredBarrier(o, all); }
  void setSequenceNumberForGroup() override { carrying()->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return carrying()->getSequenceNumberForGroup(); }

  void startCoalescing() override {
    TORCH_CHECK(!coalesce(true), "hccl (emulated): a coalesced block was opened inside another; hccl does not nest them, "
                "close the first one before");
  }
  intrusive_ptr<Work> endCoalescing() override {
    TORCH_CHECK(coalesce(false), "hccl (emulated): a coalesced block was closed that none had opened");
    std::vector<intrusive_ptr<Work>> works;
    {
      Hold hold(groups_lock);
      works.swap(works_);
    }
    return c10::make_intrusive<HcclWorks>(std::move(works));
  }

 private:
  // Has gloo do something, in a state of the thread that holds nothing of Python.
  template <class Do>
  intrusive_ptr<Work> issue(Do action) {
    const auto gloo = carrying();
    BareState bare;
    return action(*gloo);
  }
  // Opens or closes a coalesced block; returns whether one was open.
  bool coalesce(bool on) {
    Hold hold(groups_lock);
    return std::exchange(coalescing_, on);
  }
  intrusive_ptr<c10d::Backend> carrying() {
    {
      Hold hold(groups_lock);
      if (gloo_) return gloo_;
    }
    TORCH_CHECK(false, "hccl (emulated): this group has ended, since the process is ending; call "
                "dist.destroy_process_group() after the last collective, and no collective later");
  }
  template <class Results>
  intrusive_ptr<Work> as_hccl(intrusive_ptr<Work> work, const Results& results) {
    intrusive_ptr<Work> out = c10::make_intrusive<HcclWork>(std::move(work), value_of(results), flat(results));
    Hold hold(groups_lock);
    if (coalescing_) works_.push_back(out);
    return out;
  }
  // What a sum is divided by.
  template <class Options>
  int shares(const Options& o) const { return averages(o.reduceOp) ? getSize() : 1; }
  template <class Results>
  intrusive_ptr<Work> settled(const Summands& summands, int shares, const intrusive_ptr<Work>& work, const Results& results) {
    summands.settle(work, shares);
    return as_hccl(work, results);
  }

  // All under groups_lock.
  intrusive_ptr<c10d::Backend> gloo_;
  bool coalescing_ = false;
  std::vector<intrusive_ptr<Work>> works_;

  const pid_t process_ = getpid();
};

HcclBackend::HcclBackend(intrusive_ptr<c10d::Backend> gloo)
    : Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)) {
  Hold hold(groups_lock);
  groups().insert(this);
}

// gloo's destructor waits for what is under way and joins its threads, and callbacks there want Python's lock.
HcclBackend::~HcclBackend() {
  {
    Hold hold(groups_lock);
    groups().erase(this);
  }
  if (process_ != getpid()) {  // a fork has none of the threads that there are to join
    gloo_.release();
    return;
  }
  WithoutGil unlocked;
  gloo_.reset();
}

std::vector<intrusive_ptr<c10d::Backend>> HcclBackend::give_up_all() {
  std::vector<intrusive_ptr<c10d::Backend>> out;
  Hold hold(groups_lock);
  for (auto* group : groups())
    if (group->gloo_ && group->process_ == getpid()) out.push_back(std::exchange(group->gloo_, {}));
  return out;
}

// How far the end of all groups is.
struct Ending {
  std::mutex mutex;
  std::condition_variable changed;
  size_t open = 0;
};

Ending& ending() {
  static auto* one = new Ending();
  return *one;
}

}  // namespace

intrusive_ptr<c10d::Backend> hccl_over(intrusive_ptr<c10d::Backend> gloo) {
  return c10::make_intrusive<HcclBackend>(std::move(gloo));
}

// Ends what carries every group, on a thread of its own: gloo waits for what is under way (for as long as the group's
// timeout), and its threads for Python, where callbacks are in it. False: there is nothing to wait for.
bool end_collectives() {
  auto carriers = HcclBackend::give_up_all();
  if (carriers.empty()) return false;
  {
    std::lock_guard<std::mutex> lock(ending().mutex);
    ending().open += carriers.size();
  }
  std::thread([carriers = std::move(carriers)]() mutable {
    for (auto& gloo : carriers) {
      gloo.reset();
      std::lock_guard<std::mutex> lock(ending().mutex);
      --ending().open;
      ending().changed.notify_all();
    }
  }).detach();
  return true;
}

bool collectives_ended(double seconds) {
  std::unique_lock<std::mutex> lock(ending().mutex);
  return ending().changed.wait_for(lock, std::chrono::duration<double>(seconds), [] { return ending().open == 0; });
}

}  // namespace hpu

#endif
