/* Unit tests of the cost model: bytes and limits against hand-computed numbers, occupancy against CUDA's rules,
 * and the preferences that make the prediction a useful order. */
#include "core/random.h"
#include "space/cost.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct tern_gpu H200 = {
    .name = "h200",
    .arch = "sm_90a",
    .cc = 90,
    .sms = 132,
    .l2_bytes = 60000000,
    .memory_bytes = 150000000000,
    .smem_block_bytes = 232448,
    .smem_sm_bytes = 233472,
    .regs_sm = 65536,
    .threads_sm = 2048,
    .blocks_sm = 32,
    .memory_gbs = 4800,
    .clock_mhz = 1980,
    .f16_tflops = 622,
    .s8_tops = 1243,
    .f32_tflops = 67,
    .launch_us = 0.51,
    .cold_read = {{1e6, 2.1}, {4e6, 2.6}, {16e6, 5.4}, {64e6, 16.6}, {128e6, 30.7}},
    .cold_points = 5,
};
static const struct tern_gpu T4 = {
    .name = "t4",
    .arch = "sm_75",
    .cc = 75,
    .sms = 40,
    .l2_bytes = 4194304,
    .memory_bytes = 16000000000,
    .smem_block_bytes = 65536,
    .smem_sm_bytes = 65536,
    .regs_sm = 65536,
    .threads_sm = 1024,
    .blocks_sm = 16,
    .memory_gbs = 320,
    .clock_mhz = 1590,
    .f16_tflops = 65,
    .s8_tops = 130,
    .f32_tflops = 8.1,
    .launch_us = 1,
};
static const struct tern_template MMA = {.name = "mma", .unit = "mma-f16", .efficiency = 0.8};
static const struct tern_resources UNBUILT = {0};

static struct tern_format format(const char *name) {
    struct tern_format f;
    assert_int_equal(tern_format_parse(name, &f, NULL), TERN_OK);
    return f;
}

static void test_bytes(void **state) {
    (void)state;
    struct tern_format f = format("ternary-g128");
    double codes = 4608.0 * 3584 / 4, scales = 2.0 * 4608 * 28;
    assert_true(tern_cost_bytes(&f, 1, 4608, 3584) == codes + scales + 2.0 * (3584 + 4608));
    f = format("gptq4-g128-asym");
    assert_true(tern_cost_bytes(&f, 16, 4608, 3584) == 2 * codes + scales * 1.5 + 32.0 * (3584 + 4608));
    f = format("gptq3-channel");
    assert_true(tern_cost_bytes(&f, 0, 4608, 3584) == 1.5 * codes + 2.0 * 4608);
    f = format("ternary-tensor");
    assert_true(tern_cost_bytes(&f, 0, 4608, 3584) == codes + 2);
}

static void test_limit(void **state) {
    (void)state;
    struct tern_format f = format("ternary-g128");
    double decode = tern_cost_limit_us(&H200, TERN_F16, &f, 1, 37888, 3584);
    assert_true(decode > 9 && decode < 11.5); /* 36 MB of cold reads */
    double flops = 2.0 * 4096 * 37888 * 3584;
    assert_true(fabs(tern_cost_limit_us(&H200, TERN_F16, &f, 4096, 37888, 3584) - flops / 622e6) < 1e-6 * flops / 622e6);
    assert_true(tern_cost_limit_us(&T4, TERN_F16, &f, 1, 8, 32) >= 1); /* never below the shortest launch */
    const int64_t ms[] = {1, 2, 7, 64, 1000, 8192}, ns[] = {8, 512, 4608, 151936}, ks[] = {32, 3584, 18944};
    for (size_t i = 0; i < 6 * 4 * 3; i++) { /* never below what the data sheet's ceilings allow */
        int64_t m = ms[i % 6], n = ns[i / 6 % 4], k = ks[i / 24];
        double limit = tern_cost_limit_us(&T4, TERN_F16, &f, m, n, k);
        assert_true(limit >= tern_cost_bytes(&f, 0, n, k) / (T4.memory_gbs * 1e3));
        assert_true(limit >= 2.0 * (double)m * (double)n * (double)k / (T4.f16_tflops * 1e6));
        assert_true(isfinite(limit));
        assert_true(tern_cost_limit_us(&T4, TERN_F16, &f, m + 1, n, k) >= limit);
        assert_true(tern_cost_limit_us(&T4, TERN_F16, &f, m, n + 8, k) >= limit);
        assert_true(tern_cost_limit_us(&T4, TERN_F16, &f, m, n, k + 128) >= limit);
    }
}

static int64_t occupancy(const struct tern_gpu *gpu, int64_t block, int64_t smem, int64_t registers, int64_t static_smem) {
    struct tern_geometry g = {{1, 1, 1}, block, 1, smem, 0, 0, 0, 0};
    struct tern_resources r = {registers, static_smem, 0};
    return tern_cost_occupancy(gpu, &g, &r);
}

static void test_occupancy(void **state) {
    (void)state;
    assert_int_equal(occupancy(&H200, 256, 0, 32, 0), 8);  /* threads */
    assert_int_equal(occupancy(&H200, 32, 0, 16, 0), 32);  /* blocks */
    assert_int_equal(occupancy(&H200, 256, 0, 33, 0), 6);  /* 33 * 32 = 1056 -> 1280 a warp: 12 a quarter, 48 warps */
    assert_int_equal(occupancy(&H200, 256, 0, 255, 0), 1); /* 2 warps a quarter */
    assert_int_equal(occupancy(&H200, 384, 0, 168, 0), 1); /* 3 warps a quarter */
    assert_int_equal(occupancy(&H200, 512, 0, 168, 0), 0); /* 16 warps do not fit */
    assert_int_equal(occupancy(&H200, 128, 0, 256, 0), 0); /* no thread has 256 */
    assert_int_equal(occupancy(&H200, 128, 113 * 1024, 64, 0), 2); /* 114 KiB with the reserve, of 228 */
    assert_int_equal(occupancy(&H200, 128, 113 * 1024 + 1, 64, 0), 1);
    assert_int_equal(occupancy(&H200, 128, 100 * 1024, 64, 13 * 1024 + 1), 1); /* static counts too */
    assert_int_equal(occupancy(&H200, 128, 232448, 64, 0), 1);
    assert_int_equal(occupancy(&H200, 128, 232449, 64, 0), 0);
    assert_int_equal(occupancy(&T4, 128, 32768, 64, 0), 2); /* no reserve before 8.0 */
    assert_int_equal(occupancy(&T4, 33, 0, 0, 0), 16);      /* two warps a block, not built: blocks bind */
    assert_int_equal(occupancy(&H200, 0, 0, 32, 0), 0);
    assert_int_equal(occupancy(&H200, 1025, 0, 32, 0), 0);
}

static double predict(const struct tern_gpu *gpu, int64_t m, int64_t blocks, int64_t block, int64_t smem, int64_t registers,
                      int64_t spill) {
    struct tern_format f = format("ternary-g128");
    struct tern_problem_shape p = {.format = &f, .m = m, .n = 37888, .k = 3584, .type = TERN_F16};
    struct tern_candidate c = {.tmpl = &MMA};
    struct tern_geometry g = {{blocks, 1, 1}, block, 1, smem, 0, 0, 0, 0};
    struct tern_resources r = {registers, 0, spill};
    return tern_cost_predict_us(gpu, &c, &p, &g, &r);
}

static void test_decode_preferences(void **state) {
    (void)state;
    double limit_ok = predict(&H200, 1, 264, 256, 65536, 64, 0);
    assert_true(limit_ok > 10 && limit_ok < 30);
    assert_true(predict(&H200, 1, 264, 256, 65536, 64, 0) < predict(&H200, 1, 264, 256, 4096, 64, 0)); /* bytes in flight */
    assert_true(predict(&H200, 1, 132, 256, 65536, 64, 0) <
                predict(&H200, 1, 66, 256, 65536, 64, 0)); /* all multiprocessors */
    assert_true(predict(&H200, 1, 396, 256, 65536, 64, 0) < predict(&H200, 1, 400, 256, 65536, 64, 0));   /* one full wave */
    assert_true(predict(&H200, 1, 264, 256, 65536, 64, 0) < predict(&H200, 1, 264, 256, 65536, 64, 64));  /* spills */
    assert_true(predict(&H200, 1, 264, 256, 65536, 64, 0) < predict(&H200, 1, 37888, 256, 65536, 64, 0)); /* tiny blocks */
    assert_true(predict(&H200, 1, 264, 256, 65536, 255, 0) >= predict(&H200, 1, 264, 256, 65536, 64, 0));
}

static void test_prefill_preferences(void **state) {
    (void)state;
    struct tern_template t = MMA;
    struct tern_format f = format("ternary-g128");
    struct tern_problem_shape p = {.format = &f, .m = 2048, .n = 37888, .k = 3584, .type = TERN_F16};
    double last = INFINITY;
    strcpy(t.params[0].name, "BLOCK_M");
    strcpy(t.params[1].name, "BLOCK_N");
    t.param_count = 2;
    for (int64_t tile = 16; tile <= 128; tile *= 2) { /* larger tiles read less from L2 */
        struct tern_candidate c = {.tmpl = &t, .values = {tile, tile}};
        struct tern_geometry g = {{37888 / tile, 2048 / tile, 1}, 256, 1, 65536, 0, 0, 0, 0};
        double us = tern_cost_predict_us(&H200, &c, &p, &g, &UNBUILT);
        assert_true(us < last);
        last = us;
    }
    struct tern_candidate fits = {.tmpl = &t, .values = {128, 128}}, wasteful = {.tmpl = &t, .values = {192, 128}};
    struct tern_geometry g = {{296, 2, 1}, 256, 1, 65536, 0, 0, 0, 0};
    p.m = 256; /* 2 tiles of 128 fit, 2 of 192 are padded by half */
    assert_true(tern_cost_predict_us(&H200, &fits, &p, &g, &UNBUILT) <
                tern_cost_predict_us(&H200, &wasteful, &p, &g, &UNBUILT));
    struct tern_geometry through = g;
    through.workspace_bytes = 256LL * 37888 * 8;
    assert_true(tern_cost_predict_us(&H200, &fits, &p, &g, &UNBUILT) <
                tern_cost_predict_us(&H200, &fits, &p, &through, &UNBUILT));
}

/* Of two launches of equal grids the one whose blocks share the work worse is slower; sums of larger clusters take longer to meet. */
static void test_work_of_a_block(void **state) {
    (void)state;
    struct tern_template t = MMA;
    struct tern_format f = format("ternary-g128");
    struct tern_problem_shape p = {.format = &f, .m = 1024, .n = 3584, .k = 3584, .type = TERN_F16};
    strcpy(t.params[0].name, "CLUSTER_K");
    t.param_count = 1;
    struct tern_candidate two = {.tmpl = &t, .values = {2}}, eight = {.tmpl = &t, .values = {8}};
    struct tern_geometry even = {{132, 1, 1}, 256, 2, 65536, 0, 0, 0, 1024 * 3584 / 132}, uneven = even;
    uneven.busiest *= 2;
    double us = tern_cost_predict_us(&H200, &two, &p, &even, &UNBUILT);
    assert_true(tern_cost_predict_us(&H200, &two, &p, &uneven, &UNBUILT) > 1.5 * us);
    assert_true(tern_cost_predict_us(&H200, &eight, &p, &even, &UNBUILT) > us + 4e-6 * 1024 * 3584 * 6 / 4.8);
}

static void test_cannot_launch(void **state) {
    (void)state;
    assert_true(isinf(predict(&H200, 1, 132, 256, 300000, 64, 0)));
    assert_true(isinf(predict(&H200, 1, 132, 2048, 0, 64, 0)));
    assert_true(isinf(predict(&H200, 1, 0, 256, 0, 64, 0)));
}

/* Any geometry that can launch has a finite prediction, not below the limit, and more rows of x never make it cheaper. */
static void test_finite_and_monotone(void **state) {
    (void)state;
    struct tern_random r;
    struct tern_format f = format("gptq4-g128");
    tern_random_init(&r, 1, "cost");
    int launched = 0;
    for (int round = 0; round < 20000; round++) {
        const struct tern_gpu *gpu = round % 2 ? &H200 : &T4;
        struct tern_candidate c = {.tmpl = &MMA};
        struct tern_problem_shape p = {.format = &f,
                                       .m = 1 + (int64_t)tern_random_below(&r, 9000),
                                       .n = 8 * (1 + (int64_t)tern_random_below(&r, 9000)),
                                       .k = 32 * (1 + (int64_t)tern_random_below(&r, 900)),
                                       .type = TERN_F16};
        struct tern_geometry g = {
            {1 + (int64_t)tern_random_below(&r, 1 << (round % 20)), 1, 1 + (int64_t)tern_random_below(&r, 4)},
            32 * (1 + (int64_t)tern_random_below(&r, 32)),
            1,
            (int64_t)tern_random_below(&r, 250000),
            (int64_t)tern_random_below(&r, 1 << 20),
            0,
            0,
            0};
        struct tern_resources build = {(int64_t)tern_random_below(&r, 256), 0, (int64_t)tern_random_below(&r, 2) * 64};
        double us = tern_cost_predict_us(gpu, &c, &p, &g, &build);
        assert_true((tern_cost_occupancy(gpu, &g, &build) > 0) == (isfinite(us) != 0));
        if (!isfinite(us))
            continue;
        launched++;
        assert_true(us >= tern_cost_limit_us(gpu, TERN_F16, &f, p.m, p.n, p.k));
        p.m++;
        double more = tern_cost_predict_us(gpu, &c, &p, &g, &build);
        if (!(more >= us * (1 - 1e-12)))
            fail_msg("M=%lld: %.17g, one less: %.17g", (long long)p.m, more, us);
    }
    assert_true(launched > 5000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_occupancy),
        cmocka_unit_test(test_decode_preferences),
        cmocka_unit_test(test_prefill_preferences),
        cmocka_unit_test(test_work_of_a_block),
        cmocka_unit_test(test_cannot_launch),
        cmocka_unit_test(test_finite_and_monotone),
    };
    return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
