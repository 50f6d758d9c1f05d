/* Ceilings of a run: limits come from what was measured on this very device, and a device that has none is measured first. */
#include "commands/run_internal.h"

#include "commands/ceilings.h"
#include "core/log.h"
#include "core/str.h"

#include <math.h>
#include <stdlib.h>

/* Not being able to calibrate costs sharp limits, not the run: the description's figures stay, and that is said. */
static enum tern_status measure(struct run *run, struct tern_error *err) {
    struct tern_error why;
    struct tern_ceilings *c = tern_alloc_zero(1, sizeof *c);
    enum tern_status status = TERN_OK;
    const struct tern_device_info *info = &run->gpus[0].info;
    tern_log_note("no ceilings of %s, driver %s, are stored: measuring them, about 15 s", info->name, info->driver_name);
    if (tern_command_ceilings_measure(&run->gpus[0].worker, c, &why) == TERN_OK)
        status = tern_store_ceilings_put(run->store, run->run_id, run->gpus[0].id, c, err);
    else
        tern_log_warn("`tune calibrate` tries again", "limits stay those of configs/gpus/%s.lua: %s", run->gpu.name,
                      why.text);
    free(c);
    return status;
}

/* Dependent launches overlap: what one takes before its first byte and behind its last is time of its neighbours. Their bytes at
 * the best bandwidth are all that is left of the read. */
static enum tern_status apply(struct run *run, int64_t device, bool *found, struct tern_error *err) {
    enum tern_status status = tern_command_ceilings_apply(run->store, device, &run->gpu, found, err);
    if (run->dependent) {
        run->gpu.launch_us = 0;
        run->gpu.cold_points = 0;
    }
    return status;
}

enum tern_status tern_run_ceilings(struct run *run, struct tern_error *err) {
    int64_t device = run->measured ? run->device_id : 0; /* planning: of any device of this name */
    bool found = false;
    run->described_f16_tflops = run->gpu.f16_tflops;
    run->described_balance = tern_cost_balance(&run->gpu);
    if (run->options.replay) /* the same on every machine, whatever its database holds */
        return TERN_OK;
    enum tern_status status = apply(run, device, &found, err);
    if (status != TERN_OK || found || !run->measured)
        return status;
    status = measure(run, err);
    return status == TERN_OK ? apply(run, device, &found, err) : status;
}

void tern_run_refute_limit(struct run *run, double baseline_us, const struct run_problem *p) {
    struct tern_problem_shape shape = tern_run_shape(run, p);
    double seen_tflops = 2e-6 * (double)shape.m * (double)shape.n * (double)shape.k / baseline_us;
    if (run->options.replay || !(seen_tflops > run->gpu.f16_tflops))
        return;
    run->gpu.f16_tflops = fmax(run->described_f16_tflops, seen_tflops);
    tern_log_note("cuBLASLt ran at %.0f TFLOPS, more than the measured ceiling: limits now use %.0f", seen_tflops,
                  run->gpu.f16_tflops);
    for (size_t i = 0; i < run->problem_count; i++) {
        struct tern_problem_shape s = tern_run_shape(run, &run->problems[i]);
        if (!run->problems[i].done)
            run->problems[i].limit_us = tern_cost_limit_us(&run->gpu, run->type, s.format, s.m, s.n, s.k);
    }
}
