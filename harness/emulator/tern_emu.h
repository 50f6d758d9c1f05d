/* The emulator's services to device code compiled for the CPU: one fiber a CUDA thread, one cluster (mostly one block) at a
 * time. Device headers (templates/include/tern) build their CPU bodies on these few calls; TERN_EMULATOR is defined there.
 * threadIdx, blockIdx, blockDim, gridDim, __syncthreads, __syncwarp, shuffles, votes, atomics, half types and static shared
 * memory come from the shim (shim.h) that is put in front of every kernel; it also defines the functions below. */
#ifndef TERN_EMULATOR_TERN_EMU_H
#define TERN_EMULATOR_TERN_EMU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Collective over the 32 lanes of a warp (all must arrive at the same call; a lane that exited or diverged is an error with
 * file and line): all[i*bytes] receives lane i's value. mma, ldmatrix, shuffles and votes are built on it. bytes <= 512. */
void tern_emu_exchange(const void *value, size_t bytes, void *all);
/* Lane of the running thread, 0..31. */
int tern_emu_lane(void);
/* Base of this block's dynamic shared memory, 1024-byte aligned, surrounded by guard bytes; and its size. */
void *tern_emu_dynamic_shared(void);
size_t tern_emu_dynamic_shared_bytes(void);
/* Reports a fault of device code (bad argument, misaligned or out-of-range address) and ends the launch. */
void tern_emu_fault(const char *what);
/* Yields to other fibers: for spin loops of device code (flags in global memory). */
void tern_emu_yield(void);

/* cp.async of one thread: the destination turns into poison now and gets the bytes (valid_bytes of `from`, zeros behind)
 * only at the wait that covers the copy, so that a missing wait shows. Commit ends a group; wait leaves the newest `pending`
 * groups. */
void tern_emu_async_copy(void *to, const void *from, size_t bytes, size_t valid_bytes);
void tern_emu_async_commit(void);
void tern_emu_async_wait(int pending);

/* mbarrier: an 8-byte aligned 64-bit word of shared memory. wait returns once the phase `parity` has completed. */
void tern_emu_mbarrier_init(void *barrier, int count);
void tern_emu_mbarrier_arrive(void *barrier);
void tern_emu_mbarrier_arrive_expect(void *barrier, int64_t bytes); /* arrive.expect_tx */
void tern_emu_mbarrier_expect(void *barrier, int64_t bytes);        /* expect_tx alone */
int tern_emu_mbarrier_test(void *barrier, int parity);
void tern_emu_mbarrier_wait(void *barrier, int parity);
/* cp.async.bulk global -> shared: 16-byte aligned addresses and size. Arrives as late as possible: when every thread waits.
 */
void tern_emu_bulk_copy(void *to, const void *from, size_t bytes, void *barrier);
/* st.async: 4, 8 or 16 bytes to a block of the cluster, `to` and `barrier` in it. Arrives like a bulk copy. */
void tern_emu_store_async(void *to, const void *value, size_t bytes, void *barrier);

/* bar.sync / bar.arrive of barrier `id` (0..15) for `threads` threads of the block, a multiple of 32. */
void tern_emu_barrier_sync(int id, int threads);
void tern_emu_barrier_arrive(int id, int threads);

/* griddepcontrol.wait: what the kernel ahead of a dependent launch writes arrives now, and not before (machine.h). */
void tern_emu_dependency_wait(void);

/* Clusters: rank and size of the running block's cluster; mapa: the same offset in another block's dynamic shared memory. */
int tern_emu_cluster_rank(void);
int tern_emu_cluster_size(void);
void *tern_emu_cluster_map(void *shared, int rank);
void tern_emu_cluster_arrive(void);
void tern_emu_cluster_wait(void);
void tern_emu_cluster_sync(void); /* both */

#ifdef __cplusplus
}
#endif

#endif
