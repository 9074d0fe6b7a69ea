// The CPU kernel of an operator, also for the narrow dtypes that it lacks and the device has.
#pragma once

#include "operators.h"

namespace hpu {

// `stack`: the arguments on the host; the results take their place. Where the device would not run the call itself
// (`device_runs`), what the CPU lacks is lacking there too.
void run_cpu_kernel(const OperatorFacts& facts, const c10::OperatorHandle& op, torch::jit::Stack* stack,
                    bool device_runs);

}  // namespace hpu
