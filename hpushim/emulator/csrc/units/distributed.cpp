// One translation unit: torch's headers are most of what there is to compile, and are read once for all of these.
// What needs all of torch's headers.
#include "../autocast.cpp"
#include "../hccl.cpp"
#include "../hccl_dispatch.cpp"
#include "../hccl_limits.cpp"
#include "../hccl_module.cpp"
#include "../hccl_work.cpp"
