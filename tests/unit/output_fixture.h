/* Rows for tests of tables, exports and reports. The numbers are invented: round formulas, no device. Never copy them
 * anywhere. */
#ifndef TERN_TESTS_OUTPUT_FIXTURE_H
#define TERN_TESTS_OUTPUT_FIXTURE_H

#include "core/hash.h"
#include "core/result.h"
#include "core/str.h"

#include <math.h>
#include <string.h>

/* One invented row: time falls short of an invented limit by a share that depends on M. */
static inline struct tern_result fixture_row(const char *format, const char *layer, int64_t n, int64_t k, int64_t count,
                                             int64_t m, double bits, bool planned) {
    struct tern_result row;
    double read = 1.0 + (double)n * (double)k * bits / 8.0 / 4.0e6, math = 2.0 * (double)m * (double)n * (double)k / 7.0e8;
    double limit = read > math ? read : math, share = m <= 64 ? 0.78 - 0.02 * bits - 0.005 * (double)m : 0.75 - 0.03 * bits;
    double us = limit / share, fp16 = 1.5 + (double)n * (double)k / 2.0e6;
    memset(&row, 0, sizeof row);
    tern_str_copy(row.gpu, sizeof row.gpu, "h200");
    tern_str_copy(row.arch, sizeof row.arch, "sm_90a");
    tern_str_copy(row.op, sizeof row.op, "linear-a16");
    tern_str_copy(row.shapes, sizeof row.shapes, "qwen7b");
    tern_str_copy(row.format, sizeof row.format, format);
    tern_str_copy(row.layer, sizeof row.layer, layer);
    row.m = m, row.n = n, row.k = k, row.layer_count = count, row.planned = planned;
    tern_str_copy(row.template_name, sizeof row.template_name, m <= 8 ? "fake_decode" : "fake_mma");
    tern_str_copy(row.layout, sizeof row.layout, "frag16x128");
    tern_str_format(row.params, sizeof row.params, "WARPS=%d ROW_TILES=%d SPLIT_K=%d", m <= 2 ? 4 : 8, 1 + (m > 32),
                    m <= 4 ? 2 : 1);
    tern_str_copy(row.entry, sizeof row.entry, m <= 8 ? "tern_fake_decode" : "tern_fake_mma");
    tern_str_copy(row.grid[0], sizeof row.grid[0], "ceil_div(N, 16*ROW_TILES)");
    tern_str_copy(row.grid[1], sizeof row.grid[1], m <= 8 ? "1" : "min(ceil_div(M, 16), 4*SMS)");
    tern_str_copy(row.grid[2], sizeof row.grid[2], "SPLIT_K");
    tern_str_copy(row.block, sizeof row.block, "32*WARPS");
    tern_str_copy(row.smem, sizeof row.smem, "1024*WARPS + M*2*GROUP + G");
    tern_str_copy(row.workspace, sizeof row.workspace, "SPLIT_K > 1 ? SPLIT_K*M*N*4 : 0");
    char identity[400];
    tern_str_format(identity, sizeof identity, "%s %s %s", format, row.template_name, row.params);
    tern_hash_bytes(identity, strlen(identity), row.build_key);
    tern_hash_bytes(row.entry, strlen(row.entry), row.cubin_hash);
    tern_hash_bytes(row.template_name, strlen(row.template_name), row.template_hash);
    row.registers = 96, row.min_m = 1, row.max_m = m <= 8 ? 16 : 1 << 20;
    row.limit_us = limit, row.predicted_us = us * 1.1;
    row.us = us, row.us_lo = us * 0.99, row.us_hi = us * 1.01, row.p_best = 0.97, row.regret = 0.015;
    tern_str_copy(row.baseline, sizeof row.baseline, "cublaslt-best16");
    row.baseline_us = fp16 > math / 0.8 ? fp16 : math / 0.8;
    row.default_us = row.dequant_e4m3_us = NAN;
    row.dequant_us = row.baseline_us + (double)n * (double)k / 1.5e6;
    row.speedup = row.baseline_us / us, row.speedup_lo = row.speedup * 0.98, row.speedup_hi = row.speedup * 1.02;
    row.pct_of_limit = 100.0 * share;
    row.sustained_us = m >= 64 ? us * 1.1 : NAN, row.sustained_speedup = m >= 64 ? row.speedup * 1.05 : NAN;
    if (planned) {
        row.us = row.us_lo = row.us_hi = row.p_best = row.regret = row.baseline_us = row.dequant_us = NAN;
        row.speedup = row.speedup_lo = row.speedup_hi = row.pct_of_limit = NAN;
        row.sustained_us = row.sustained_speedup = NAN;
        row.baseline[0] = 0;
    }
    return row;
}

/* All layers of a 7B model, two formats, M = 1 to 8192. The caller frees with tern_results_free. */
static inline void fixture_results(struct tern_results *results, bool planned) {
    static const struct {
        const char *name;
        int64_t n, k;
    } layers[] = {{"qkv", 4608, 3584}, {"o", 3584, 3584}, {"gate_up", 37888, 3584}, {"down", 3584, 18944}};
    static const struct {
        const char *name;
        double bits;
    } formats[] = {{"ternary-g128", 2.125}, {"gptq4-g128", 4.125}};
    for (size_t f = 0; f < 2; f++)
        for (size_t l = 0; l < 4; l++)
            for (int64_t m = 1; m <= 8192; m *= 2) {
                struct tern_result row =
                    fixture_row(formats[f].name, layers[l].name, layers[l].n, layers[l].k, 28, m, formats[f].bits, planned);
                tern_results_add(results, &row);
            }
    tern_results_sort(results);
}

#endif
