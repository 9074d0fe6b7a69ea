// One translation unit: torch's headers are most of what there is to compile, and are read once for all of these.
// What needs pybind11.
#include "../module.cpp"
