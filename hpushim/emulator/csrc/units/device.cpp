// One translation unit: torch's headers are most of what there is to compile, and are read once for all of these.
// What the device is and does. The light headers of torch's.
#include "../alias.cpp"
#include "../compute.cpp"
#include "../fallback.cpp"
#include "../generator.cpp"
#include "../graphs.cpp"
#include "../guard.cpp"
#include "../kernels.cpp"
#include "../memory.cpp"
#include "../objections.cpp"
#include "../operators.cpp"
#include "../recorder.cpp"
#include "../refusals.cpp"
