/* From measured ceilings to limits. See ceilings.h. */
#include "config/ceilings.h"

#include <math.h>
#include <string.h>

/* Highest value of the kinds INST-TYPE/... whose type is `type`; 0 if there is none. */
static double best_rate(const struct tern_ceilings *c, const char *type) {
    double best = 0;
    for (size_t i = 0; i < c->count; i++) {
        const char *dash = strchr(c->rows[i].kind, '-');
        size_t length = strlen(type);
        if (dash && strncmp(dash + 1, type, length) == 0 && dash[1 + length] == '/')
            best = fmax(best, c->rows[i].value);
    }
    return best;
}

static void apply_reads(struct tern_gpu *gpu, const struct tern_ceilings *c) {
    double best_gbs = 0;
    int count = 0;
    for (size_t i = 0; i < c->count && count < TERN_MAX_COLD_POINTS; i++) {
        const struct tern_ceiling *row = &c->rows[i];
        if (strcmp(row->kind, "read") != 0 || (count > 0 && !(row->argument > gpu->cold_read[count - 1].bytes)))
            continue; /* ascending bytes, as the interpolation needs them */
        gpu->cold_read[count].bytes = row->argument;
        gpu->cold_read[count++].us = row->value;
        best_gbs = fmax(best_gbs, row->argument / row->value * 1e-3);
    }
    if (count == 0)
        return;
    gpu->cold_points = count;
    gpu->memory_gbs = best_gbs;
    for (int i = count - 1; i > 0; i--)
        gpu->cold_read[i - 1].us = fmin(gpu->cold_read[i - 1].us, gpu->cold_read[i].us);
}

void tern_gpu_apply_ceilings(struct tern_gpu *gpu, const struct tern_ceilings *ceilings, double seen_tflops) {
    double f16 = best_rate(ceilings, "f16"), s8 = best_rate(ceilings, "s8");
    const struct tern_ceiling *launch = tern_ceilings_find(ceilings, "launch");
    apply_reads(gpu, ceilings);
    if (launch)
        gpu->launch_us = launch->value;
    if (s8 > 0)
        gpu->s8_tops = s8;
    /* 10.x and 11.x have a matrix unit (tcgen05) that no probe reaches. */
    bool unit_unprobed = gpu->cc >= 100 && gpu->cc < 120 && gpu->f16_tflops > f16;
    if (seen_tflops > f16 || unit_unprobed) /* also when nothing was measured */
        gpu->f16_tflops = fmax(gpu->f16_tflops, seen_tflops);
    else if (f16 > 0)
        gpu->f16_tflops = f16;
}
