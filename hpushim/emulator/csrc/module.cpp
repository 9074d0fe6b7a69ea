// The extension's Python face.
#include "operators.h"

#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>
#ifdef HPU_DISTRIBUTED
#include <torch/csrc/distributed/c10d/Backend.hpp>
#endif

namespace py = pybind11;

namespace hpu {
void take_over_hooks();
void register_autocast_fallthrough();
#ifdef HPU_DISTRIBUTED
void register_collectives();
c10::intrusive_ptr<c10d::Backend> hccl_over(c10::intrusive_ptr<c10d::Backend> gloo);
#endif
void set_autocast_lists(const std::vector<std::string>& lower, const std::vector<std::string>& lower_first,
                        const std::vector<std::string>& float32, const std::vector<std::string>& widest);
void note_slow(const char*, const char*) {}

namespace {

py::dict memory_dict() {
  const auto s = memory_stats();
  py::dict out;
  out["limit"] = s.limit;
  out["in_use"] = s.in_use;
  out["peak"] = s.peak;
  out["allocations"] = s.allocations;
  out["frees"] = s.frees;
  out["allocated_total"] = s.allocated_total;
  out["freed_total"] = s.freed_total;
  out["live"] = s.live;
  return out;
}

void synchronize() {
  count(kSynchronizes);
  note("synchronize", "device");
}

}  // namespace
}  // namespace hpu

PYBIND11_MODULE(_hpushim_device, m) {
  using namespace hpu;
  take_over_hooks();
  keep_backward_on_this_thread();
  register_operators();
  register_autocast_fallthrough();
  m.def("set_autocast_lists", &set_autocast_lists);
#ifdef HPU_DISTRIBUTED
  register_collectives();
  m.def("hccl_over", &hccl_over, py::arg("gloo"));
#endif
  m.def("check_index", &check_index);
  m.def("synchronize", &synchronize);
  m.def("memory_stats", &memory_dict);
  m.def("reset_peak_memory", &reset_peak_memory);
  m.def("reset_accumulated_memory", &reset_accumulated_memory);
  m.def("set_memory_limit", &set_memory_limit);
  m.def("default_generator", [] { return default_generator(); });
  m.def("share_cpu_random", &share_cpu_random);
  m.def("current_stream", &current_stream);
  m.def("set_current_stream", &set_current_stream);
}
