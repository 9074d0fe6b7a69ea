#include "hccl_work.h"

#ifdef HPU_DISTRIBUTED

#include <thread>

namespace hpu {

namespace {

const at::ThreadLocalState& state_of_a_new_thread() {
  static const auto* state = [] {
    const at::ThreadLocalState* made = nullptr;
    std::thread([&] { made = new at::ThreadLocalState(); }).join();
    return made;
  }();
  return *state;
}

const c10::DispatchKeySet kAboveKernels =
    c10::autograd_dispatch_keyset | c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView);

intrusive_ptr<Future> future_of(const c10::TypePtr& type) {
  return c10::make_intrusive<Future>(type, std::vector<c10::Device>{here()});
}

}  // namespace

BareState::BareState()
    : profiler_(at::get_record_function_tls_()), info_(c10::ThreadLocalDebugInfo::current()),
      state_(state_of_a_new_thread()), below_(kAboveKernels) {
  at::set_record_function_tls_(profiler_);
  c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(info_);
}

BareState::~BareState() = default;

HcclWork::HcclWork(intrusive_ptr<Work> carried, c10::IValue results, Tensors tensors)
    : Work(-1, c10d::OpType::UNKNOWN), carried_(std::move(carried)), results_(std::move(results)),
      tensors_(std::move(tensors)) {}

void HcclWork::abort() {
  object_to("abort", "aborting a collective over hccl");
  carried_->abort();
}

intrusive_ptr<Future> HcclWork::getFuture() {
  std::call_once(asked_, [&] {
    auto inner = carried_->getFuture();
    future_ = future_of(results_.isTensorList() ? c10::TypePtr(c10::ListType::ofTensors()) : results_.type());
    inner->addCallback([future = future_, results = results_](Future& done) {
      if (done.hasError())
        future->setError(done.exception_ptr());
      else
        future->markCompleted(results);
    });
  });
  return future_;
}

HcclWorks::HcclWorks(std::vector<intrusive_ptr<Work>> works)
    : Work(-1, c10d::OpType::COALESCED), works_(std::move(works)) {}

bool HcclWorks::isCompleted() {
  for (const auto& w : works_)
    if (!w->isCompleted()) return false;
  return true;
}

bool HcclWorks::isSuccess() const {
  for (const auto& w : works_)
    if (!w->isSuccess()) return false;
  return true;
}

std::exception_ptr HcclWorks::exception() const {
  for (const auto& w : works_)
    if (auto found = w->exception()) return found;
  return nullptr;
}

Tensors HcclWorks::result() {
  Tensors out;
  for (const auto& w : works_)
    for (const auto& t : w->result()) out.push_back(t);
  return out;
}

void HcclWorks::synchronize() {
  for (const auto& w : works_) w->synchronize();
}

bool HcclWorks::wait(std::chrono::milliseconds timeout) {
  bool well = true;
  for (const auto& w : works_) well = w->wait(timeout) && well;
  return well;
}

void HcclWorks::abort() {
  object_to("abort", "aborting a collective over hccl");
  for (const auto& w : works_) w->abort();
}

intrusive_ptr<Future> HcclWorks::getFuture() {
  std::call_once(asked_, [&] {
    future_ = future_of(c10::ListType::ofTensors());
    if (works_.empty()) return future_->markCompleted(c10::IValue(Tensors()));
    struct Open {
      std::atomic<size_t> works;
      std::atomic<bool> failed{false};
    };
    auto open = std::make_shared<Open>();
    open->works = works_.size();
    const auto results = c10::IValue(result());
    for (const auto& w : works_) {
      w->getFuture()->addCallback([future = future_, results, open](Future& done) {
        if (done.hasError() && !open->failed.exchange(true)) future->setError(done.exception_ptr());
        if (--open->works == 0 && !open->failed.load()) future->markCompleted(results);
      });
    }
  });
  return future_;
}

}  // namespace hpu

#endif
