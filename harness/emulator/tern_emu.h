/* The emulator's services to device code compiled for the CPU: one fiber a CUDA thread, one block at a time.
 * Device headers (templates/include/tern) build their CPU bodies on these few calls; TERN_EMULATOR is defined there.
 * threadIdx, blockIdx, blockDim, gridDim, __syncthreads, __syncwarp, shuffles, votes, atomics, half types and dynamic shared memory
 * come from the shim that is put in front of every kernel. */
#ifndef TERN_EMULATOR_TERN_EMU_H
#define TERN_EMULATOR_TERN_EMU_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Collective over the 32 lanes of a warp (all must arrive at the same call; a lane that exited or diverged is an error with
 * file and line): all[i*bytes] receives lane i's value. mma, ldmatrix, shuffles and votes are built on it. */
void tern_emu_exchange(const void *value, size_t bytes, void *all);
/* Lane of the running thread, 0..31. */
int tern_emu_lane(void);
/* Base of this block's dynamic shared memory, 1024-byte aligned, surrounded by guard bytes; and its size. */
void *tern_emu_dynamic_shared(void);
size_t tern_emu_dynamic_shared_bytes(void);
/* Reports a fault of device code (bad argument, misaligned or out-of-range address) and ends the launch. */
void tern_emu_fault(const char *what);
/* Yields to other fibers: for spin loops of device code (mbarrier waits, flags). */
void tern_emu_yield(void);

#ifdef __cplusplus
}
#endif

#endif
