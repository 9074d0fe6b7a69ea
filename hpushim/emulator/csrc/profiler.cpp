// torch.profiler's ProfilerActivity.HPU: what ran on the emulated device, as events of a device of its own.
#include "device.h"
#include "locks.h"

#if defined(__has_include)
#if __has_include(<kineto/libkineto.h>) && __has_include(<fmt/format.h>)
#define HPU_PROFILER
#endif
#endif

#ifdef HPU_PROFILER
#define FMT_HEADER_ONLY  // torch exports none of it
#pragma GCC visibility push(default)  // these classes live in torch's library
#include <kineto/libkineto.h>
#include <kineto/output_base.h>
#pragma GCC visibility pop

#include <c10/util/ApproximateClock.h>

#include <set>
#endif

namespace hpu {

std::atomic<bool> profiling{false};

#ifdef HPU_PROFILER
namespace {

using libkineto::ActivityType;

struct Event {
  std::string name;
  bool copies;
  int64_t start, end;  // nanoseconds since the epoch, torch's own clock
  uint64_t asked_by;   // torch's number of the operator that it ran for; 0: none
  int64_t stream;
  int32_t thread;
};

Leaf events_lock("the profiler's events");
std::vector<Event>& events() {
  static auto* all = new std::vector<Event>();
  return *all;
}
std::vector<Event> taken() {
  std::vector<Event> all;
  Hold hold(events_lock);
  all.swap(events());
  return all;
}
thread_local std::vector<uint64_t> running;  // the operators that this thread is in, by torch's numbers

template <class Info>
Info resource(int64_t device, int64_t id, const std::string& name) {
  if constexpr (std::is_aggregate_v<Info>)
    return Info{id, id, device, name};
  else
    return Info(device, id, id, name);
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    Hold hold(events_lock);
    events().clear();
    profiling.store(true);
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    profiling.store(false);
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override { return {}; }
  void processTrace(libkineto::ActivityLogger& logger) override {
    process(logger, nullptr, INT64_MIN, INT64_MAX);
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t start,
                    int64_t end) override {
    process(logger, linked, start, end);
  }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return std::unique_ptr<libkineto::DeviceInfo>(
        new libkineto::DeviceInfo{0, libkineto::kExceedMaxPid, "hpu:0 (emulated)", "HPU 0 (emulated)"});
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> out;
    for (const int64_t stream : streams_)
      out.push_back(resource<libkineto::ResourceInfo>(0, stream, "stream " + std::to_string(stream)));
    return out;
  }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(trace_); }
  void pushCorrelationId(uint64_t id) override { running.push_back(id); }
  void popCorrelationId() override {
    if (!running.empty()) running.pop_back();
  }

 private:
  void process(libkineto::ActivityLogger& logger, const libkineto::getLinkedActivityCallback& linked, int64_t start,
               int64_t end) {
    const auto seen = taken();
    trace_ = std::make_unique<libkineto::CpuTraceBuffer>();
    trace_->span = libkineto::TraceSpan(start, end, "hpu:0 (emulated)");
    trace_->gpuOpCount = 0;
    for (const auto& event : seen) {
      if (event.start < start || event.end > end) continue;
      // The kinds that Gaudi's profiler gives; torch's tables add these up.
      trace_->emplace_activity(trace_->span, event.copies ? ActivityType::GPU_MEMCPY : ActivityType::CONCURRENT_KERNEL,
                               event.name);
      auto& made = *trace_->activities.back();
      made.startTime = event.start;
      made.endTime = event.end;
      made.id = static_cast<int32_t>(event.asked_by);
      made.resource = static_cast<int32_t>(event.stream);
      made.threadId = event.thread;
      if (linked && event.asked_by != 0) made.linked = linked(made.id);
      made.addMetadata("stream", event.stream);
      made.addMetadata("correlation", event.asked_by);
      made.addMetadataQuoted("device", "emulated");
      streams_.insert(event.stream);
      made.log(logger);
    }
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> trace_;
  std::set<int64_t> streams_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return activities_; }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config&) override {
    const char* asked = std::getenv("HABANA_PROFILE");  // "0": no device events
    const bool on = asked == nullptr || std::string(asked) != "0";
    return on && wanted.count(ActivityType::HPU_OP) ? std::make_unique<Session>() : nullptr;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t,
                                                                 const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config& config) override {
    return configure(wanted, config);
  }

 private:
  std::string name_ = "emulated_hpu";
  std::set<ActivityType> activities_{ActivityType::HPU_OP, ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY};
};

}  // namespace

int64_t DeviceSpan::now() { return c10::getTime(); }

void DeviceSpan::finish() const {
  // "aten::mm" on the host is "emulated_hpu::mm" on the device.
  const char* plain = std::strstr(name_, "::");
  Event event{std::string("emulated_hpu::") + (plain ? plain + 2 : name_), plain == nullptr, start_, now(),
              running.empty() ? 0 : running.back(), current_stream(), libkineto::systemThreadId()};
  Hold hold(events_lock);
  events().push_back(std::move(event));
}

bool register_profiler() {
  libkineto::api().registerProfilerFactory([] { return std::make_unique<Profiler>(); });
  return true;
}
#else
int64_t DeviceSpan::now() { return 0; }
void DeviceSpan::finish() const {}
bool register_profiler() { return false; }
#endif

}  // namespace hpu
