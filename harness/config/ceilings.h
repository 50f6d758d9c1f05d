/* From measured ceilings to limits: puts what was measured on a device in the place of what its description says. */
#ifndef TERN_CONFIG_CEILINGS_H
#define TERN_CONFIG_CEILINGS_H

#include "config/gpu.h"
#include "core/ceiling.h"

/* Replaces cold_read, memory_gbs, launch_us and s8_tops by what was measured; kinds that are missing change nothing.
 *
 * cold_read: what reads more also bounds what reads less, so a point above a larger one's time takes that time.
 * memory_gbs: the best bytes over time of all reads; goes on from the last point.
 * f16_tflops: the highest f16 rate of mma.sync and wgmma, cool or sustained. If a library was seen faster (seen_tflops, 0 if
 * none was), or the GPU has matrix units that no probe reaches (10.x, 11.x), the probes are no bound: then the description's
 * rate stays, or the seen one where that is higher. */
void tern_gpu_apply_ceilings(struct tern_gpu *gpu, const struct tern_ceilings *ceilings, double seen_tflops);

#endif
