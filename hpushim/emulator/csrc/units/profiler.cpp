// One translation unit: torch's headers are most of what there is to compile, and are read once for all of these.
// What needs Python's headers, and the profiler's.
#include "../locks.cpp"
#include "../profiler.cpp"
#include "../sites.cpp"
