// hccl's part of the extension's Python face.
#include "hccl.h"

#ifdef HPU_DISTRIBUTED

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace hpu {

void register_collectives();
c10::intrusive_ptr<c10d::Backend> hccl_over(c10::intrusive_ptr<c10d::Backend> gloo);
bool end_collectives();
bool collectives_ended(double seconds);

void bind_hccl(py::module_& m) {
  const auto unlocked = py::call_guard<py::gil_scoped_release>();
  register_collectives();
  m.def("hccl_over", &hccl_over, py::arg("gloo"));
  m.def("set_collectives", &set_collectives, unlocked);
  m.def("end_collectives", &end_collectives, unlocked);
  m.def("collectives_ended", &collectives_ended, unlocked);
}

}  // namespace hpu

#endif
