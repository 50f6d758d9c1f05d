// Control kernel: a fixed amount of integer work with a known answer, to tell a healthy device from a wedged one.
#include "kernels.h"

extern "C" __global__ void __launch_bounds__(256) tern_control(tern_control_args a) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.count)
        return;
    unsigned int state = (unsigned int)i;
    for (long long step = 0; step < a.steps; step++)
        state = state * TERN_CONTROL_MULTIPLIER + TERN_CONTROL_INCREMENT;
    a.out[i] = state;
}
