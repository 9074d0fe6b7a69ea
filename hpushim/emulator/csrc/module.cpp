// The extension's Python face.
#include "fake.h"
#include "locks.h"
#include "recorder.h"
#include "refusals.h"

#include <torch/csrc/utils/pybind.h>

#include <map>

namespace py = pybind11;

namespace hpu {
void take_over_hooks();
void register_autocast_fallthrough();
#ifdef HPU_DISTRIBUTED
void bind_hccl(py::module_& m);  // hccl_module.cpp
#endif
void set_autocast_lists(const std::vector<std::string>& lower, const std::vector<std::string>& lower_first,
                        const std::vector<std::string>& float32, const std::vector<std::string>& widest);

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
  end_graph("synchronize");
  note("synchronize", "device");
}

std::map<std::string, int64_t>& named() {  // guarded by the GIL
  static auto* map = new std::map<std::string, int64_t>();
  return *map;
}

void add(const std::string& name, int64_t amount) {
  for (int i = 0; i < kCounters; ++i) {
    if (name == counter_names[i]) {
      count(static_cast<Counter>(i), amount);
      return;
    }
  }
  named()[name] += amount;
}

py::dict totals() {
  py::dict out;
  for (int i = 0; i < kCounters; ++i) out[counter_names[i]] = counters[i].load();
  for (const auto& [name, amount] : named()) out[name.c_str()] = amount;
  out["compute_elsewhere"] = compute_elsewhere();
  return out;
}

py::object& told_by() {  // guarded by the GIL; never freed
  static auto* one = new py::object();
  return *one;
}

void tell(const std::string& code, const std::string& line, const std::string& text, bool refused) {
  if (!Py_IsInitialized()) return;
  py::gil_scoped_acquire gil;
  if (told_by()) told_by()(code, line, text, refused);
}

void keep_teller(py::object teller) {
  told_by() = std::move(teller);
  set_teller(&tell);
}

// (what was kept, how many were left out)
py::tuple site_list() {
  const Sites found = sites();
  py::list out;
  for (const auto& s : found.kept) out.append(py::make_tuple(s.file, s.line, s.kind, s.what, s.count, s.bytes));
  return py::make_tuple(out, found.left_out);
}

py::list first_line_list() {
  py::list out;
  for (const auto& s : first_lines()) out.append(py::make_tuple(s.file, s.line, s.kind, s.what));
  return out;
}

py::tuple cause_list() {
  static const char* const kinds[] = {"dimension", "number", "tensor", "layout"};  // as in Difference::Kind
  const Causes found = recompilation_causes();
  py::list out;
  for (const auto& c : found.kept) {
    py::list differences;
    for (const auto& d : c.differences)
      differences.append(py::make_tuple(kinds[d.kind], d.argument, d.dimension, d.before, d.after));
    out.append(py::make_tuple(c.name, c.position, c.before, c.after, c.count, differences, c.others, c.file, c.line));
  }
  return py::make_tuple(out, found.left_out);
}

py::dict fake_dict() {
  const FakeBooks found = fake_books();
  py::dict out;
  out["left_out"] = found.left_out;
  out["host_peak"] = found.host_peak;
  out["computed"] = found.computed;
  out["estimated"] = found.estimated;
  out["reads"] = found.reads;
  return out;
}

void bind_fake(py::module_& m) {
  m.def("begin_fake", &begin_fake);
  m.def("fake_books", &fake_dict);
  m.def("is_unknown", &is_unknown);
  m.def("mark_unknown", &mark_unknown);
  m.def("note_read", &note_read);
  m.def("watch_for_overrun", &watch_for_overrun);
  m.def("overrun", [] {
    const Overrun found = overrun();
    return py::make_tuple(found.line, found.asked, found.in_use);
  });
}

void bind_ledger(py::module_& m) {
  const auto unlocked = py::call_guard<py::gil_scoped_release>();
  m.def("add", &add);
  m.def("set_objections", &set_objections, unlocked);
  m.def("set_marked_operators", &set_marked_operators, unlocked);
  m.def("set_teller", &keep_teller);
  m.def("set_capturing", &set_capturing);
  m.def("set_e4m3_limit", &set_e4m3_limit);
  // True in a CPU kernel that the device runs as its own.
  m.def("is_inside", [] { return inside > 0; });
  m.def("move_host_arguments", [](bool on) { host_arguments_move.store(on); });
  m.def("fallback_operators", &fallback_operators);
  m.def("totals", &totals);
  m.def("operator_calls", &operator_calls);
  m.def("mark_step", [](bool) { mark_step(); }, unlocked);
  m.def("sites", &site_list);
  m.def("first_lines", &first_line_list);
  m.def("recompilation_causes", &cause_list);
  m.def("set_library_roots", &set_library_roots);
  m.def("note", [](const std::string& kind, const std::string& what) { note(kind.c_str(), what.c_str()); });
  m.def("record_sites", [](bool on, bool every_operator) {
    sites_on.store(on);
    trace_on.store(on && every_operator);
  });
  m.def("record_graphs", &record_graphs, unlocked);
  m.def("watch_compute", &watch_compute, unlocked);
  m.def("first_compute_elsewhere", &first_compute_elsewhere, unlocked);
  m.def("reset_ledger", [] {
    reset_sites();
    named().clear();
    WithoutGil rest;
    reset_books();
  });
}

}  // namespace
}  // namespace hpu

PYBIND11_MODULE(_hpushim_device, m) {
  using namespace hpu;
  const auto unlocked = py::call_guard<py::gil_scoped_release>();
  watch_host_allocations();
  take_over_hooks();
  keep_backward_on_this_thread();
  register_operators();
  register_autocast_fallthrough();
  m.def("set_autocast_lists", &set_autocast_lists);
#ifdef HPU_DISTRIBUTED
  bind_hccl(m);
#endif
  bind_ledger(m);
  bind_fake(m);
  watch_forks();
  m.def("set_codes", &set_codes);
  m.attr("profiles_device") = register_profiler();
  m.def("check_index", &check_index);
  m.def("synchronize", &synchronize, unlocked);
  m.def("memory_stats", &memory_dict);
  m.def("take_window_peak", &take_window_peak);
  m.def("reset_peak_memory", &reset_peak_memory);
  m.def("reset_accumulated_memory", &reset_accumulated_memory);
  m.def("set_memory_limit", &set_memory_limit);
  m.def("default_generator", [] { return default_generator(); });
  m.def("share_cpu_random", &share_cpu_random, unlocked);
  m.def("is_contiguous_on_hpu", &is_contiguous_on_hpu);
  m.def("finish_backward_threads", &finish_backward_threads, unlocked);
  m.def("current_stream", &current_stream);
  m.def("set_current_stream", &set_current_stream);
}
