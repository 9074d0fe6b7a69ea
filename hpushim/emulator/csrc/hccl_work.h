// What a collective over hccl gives back: gloo's work, with the hpu tensors as its results.
#pragma once

#ifdef HPU_DISTRIBUTED

#include "device.h"
#include "hccl.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <mutex>

namespace hpu {

using c10::intrusive_ptr;
using c10::ivalue::Future;
using c10d::Work;
using TensorLists = std::vector<Tensors>;

// A state of the thread in which nothing of Python is held.
//
// gloo's works copy the state of the thread that issues them, and one issued within backward() copies the context that
// autograd keeps there, a Python object. The last reference then goes on gloo's own thread, which needs Python's lock for
// it: while Python ends that unwinds the thread through a destructor, and the process aborts. So works are issued in a
// state that a new thread has; what the profiler left there is kept.
class BareState {
 public:
  BareState();
  ~BareState();
  BareState(const BareState&) = delete;
  BareState& operator=(const BareState&) = delete;

 private:
  at::RecordFunctionTLS profiler_;
  std::shared_ptr<c10::ThreadLocalDebugInfo> info_;
  at::ThreadLocalStateGuard state_;
  c10::impl::ExcludeDispatchKeyGuard below_;
};

class HcclWork final : public Work {
 public:
  HcclWork(intrusive_ptr<Work> carried, c10::IValue results, Tensors tensors);
  bool isCompleted() override { return carried_->isCompleted(); }
  bool isSuccess() const override { return carried_->isSuccess(); }
  std::exception_ptr exception() const override { return carried_->exception(); }
  int sourceRank() const override { return carried_->sourceRank(); }
  Tensors result() override { return tensors_; }
  void synchronize() override { carried_->synchronize(); }
  bool wait(std::chrono::milliseconds timeout) override { return carried_->wait(timeout); }
  void abort() override;
  uint64_t getSequencenumber() const override { return carried_->getSequencenumber(); }
  intrusive_ptr<Future> getFuture() override;

 private:
  intrusive_ptr<Work> carried_;
  c10::IValue results_;
  Tensors tensors_;
  std::once_flag asked_;
  intrusive_ptr<Future> future_;
};

// The works of a coalesced block, as one: done when all are, failed when one is.
class HcclWorks final : public Work {
 public:
  explicit HcclWorks(std::vector<intrusive_ptr<Work>> works);
  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  Tensors result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  intrusive_ptr<Future> getFuture() override;

 private:
  std::vector<intrusive_ptr<Work>> works_;
  std::once_flag asked_;
  intrusive_ptr<Future> future_;
};

}  // namespace hpu

#endif
