/* Tests of ceilings: what limits make of them, what the store keeps, how they are printed, and that every probe compiles to
 * the instructions that it measures. Needs no GPU. */
#include "config/ceilings.h"
#include "core/file.h"
#include "device/compiler.h"
#include "device/fixed_kernels.h"
#include "output/ceilings.h"
#include "space/cost.h"
#include "store_fixture.h"

#include <limits.h>
#include <stdio.h>

static void put(struct tern_ceilings *c, const char *kind, double argument, double value, const char *unit) {
    struct tern_ceiling *row = tern_ceilings_add(c, kind, argument, unit);
    assert_non_null(row);
    row->value = value;
    row->sm_mhz = 1980;
    row->sample_count = 3;
    for (int i = 0; i < 3; i++)
        row->samples_us[i] = value + i;
}

/* As an H200 might answer; 4 MiB took longer than 8 MiB by noise. */
static void sample_ceilings(struct tern_ceilings *c) {
    c->count = 0;
    put(c, "launch", 1, 0.5, "us");
    put(c, "launch", 1056, 1.1, "us");
    put(c, "read", 1 << 20, 2.0, "us");
    put(c, "read", 4 << 20, 3.6, "us");
    put(c, "read", 8 << 20, 3.5, "us");
    put(c, "read", 1 << 30, 244.0, "us");
    put(c, "copy", 1 << 30, 4280, "GB/s");
    put(c, "mma-f16/cool", 4e-4, 622, "TFLOPS");
    put(c, "mma-bf16/cool", 4e-4, 9999, "TFLOPS"); /* must not be taken for f16 */
    put(c, "mma-s8/cool", 4e-4, 1243, "TOPS");
    put(c, "wgmma-f16/cool", 4e-4, 850, "TFLOPS");
    put(c, "wgmma-f16/sustained", 1, 700, "TFLOPS");
}

static struct tern_gpu description(void) {
    return (struct tern_gpu){.name = "h200", .memory_gbs = 4800, .f16_tflops = 989, .s8_tops = 1, .launch_us = 9};
}

static void limits_come_from_ceilings(void **state) {
    struct tern_ceilings c;
    struct tern_gpu gpu = description();
    (void)state;
    sample_ceilings(&c);
    tern_gpu_apply_ceilings(&gpu, &c, 0);
    assert_int_equal(gpu.cold_points, 4);
    assert_float_equal(gpu.launch_us, 0.5, 0);
    assert_float_equal(gpu.s8_tops, 1243, 0);
    assert_float_equal(gpu.f16_tflops, 850, 0);
    assert_float_equal(gpu.memory_gbs, (1 << 30) / 244.0 * 1e-3, 1e-9);
    assert_float_equal(tern_gpu_read_us(&gpu, 0), 0.5, 1e-12);
    assert_float_equal(tern_gpu_read_us(&gpu, 1 << 20), 2.0, 1e-12);
    assert_float_equal(tern_gpu_read_us(&gpu, 1 << 19), 1.25, 1e-12);
    assert_float_equal(tern_gpu_read_us(&gpu, 4 << 20), 3.5, 1e-12); /* what reads more bounds what reads less */
    assert_float_equal(tern_gpu_read_us(&gpu, 2.0 * (1 << 30)), 488, 1e-6);
    double before = 0;
    for (double bytes = 0; bytes < 3e9; bytes += 1e7) {
        assert_true(tern_gpu_read_us(&gpu, bytes) >= before);
        before = tern_gpu_read_us(&gpu, bytes);
    }
    struct tern_format format;
    assert_int_equal(tern_format_parse("ternary-g128", &format, NULL), TERN_OK);
    assert_float_equal(tern_cost_limit_us(&gpu, TERN_F16, &format, 4096, 4096, 4096), 2.0 * 4096 * 4096 * 4096 / 850e6,
                       1e-6);
}

static void a_faster_library_refutes_the_rate(void **state) {
    struct tern_ceilings c;
    struct tern_gpu gpu = description();
    (void)state;
    sample_ceilings(&c);
    tern_gpu_apply_ceilings(&gpu, &c, 849); /* slower: the probes stay */
    assert_float_equal(gpu.f16_tflops, 850, 0);
    gpu = description();
    tern_gpu_apply_ceilings(&gpu, &c, 860);
    assert_float_equal(gpu.f16_tflops, 989, 0);
    gpu = description();
    tern_gpu_apply_ceilings(&gpu, &c, 1000);
    assert_float_equal(gpu.f16_tflops, 1000, 0);
    gpu = description(); /* tcgen05 has no probe */
    gpu.cc = 100;
    tern_gpu_apply_ceilings(&gpu, &c, 860);
    assert_float_equal(gpu.f16_tflops, 989, 0);
    gpu = description();
    c.count = 2; /* no rates, no reads: the description's figures stay */
    tern_gpu_apply_ceilings(&gpu, &c, 0);
    assert_float_equal(gpu.f16_tflops, 989, 0);
    assert_float_equal(gpu.memory_gbs, 4800, 0);
    assert_int_equal(gpu.cold_points, 0);
}

static void rows_are_limited(void **state) {
    struct tern_ceilings c = {.count = 0};
    (void)state;
    for (int i = 0; i < TERN_MAX_CEILINGS; i++)
        assert_non_null(tern_ceilings_add(&c, "read", i, "us"));
    assert_null(tern_ceilings_add(&c, "read", 1, "us"));
    assert_null(tern_ceilings_find(&c, "copy"));
}

static void the_newest_of_a_class_is_found(void **state) {
    struct fixture f;
    struct tern_store *s;
    struct tern_ceilings c, back;
    struct tern_error err;
    double tflops;
    (void)state;
    fixture_open(&f);
    CHECK_OK(tern_store_open(f.db, TERN_STORE_WRITE, &s, failure));
    struct rows r = sample_rows(s, true);
    sample_ceilings(&c);
    CHECK_OK(tern_store_ceilings_find(s, r.device, &back, failure));
    assert_int_equal(back.count, 0);
    CHECK_OK(tern_store_ceilings_put(s, r.run, r.device, &c, failure));
    c.rows[0].value = 0.7;
    c.count = 3;
    struct tern_store_device peer = sample_device(true), newer = peer, planned = sample_device(false);
    int64_t peer_id, newer_id, planned_id, run;
    strcpy(peer.uuid, "GPU-2");
    strcpy(newer.driver, "590.1");
    CHECK_OK(tern_store_device(s, &peer, &peer_id, failure));
    CHECK_OK(tern_store_device(s, &newer, &newer_id, failure));
    CHECK_OK(tern_store_device(s, &planned, &planned_id, failure));
    CHECK_OK(tern_store_run_begin(s, peer_id, "tune calibrate", "0.1", 7, &run, failure));
    CHECK_OK(tern_store_ceilings_put(s, run, peer_id, &c, failure));

    CHECK_OK(tern_store_ceilings_find(s, r.device, &back, failure)); /* another card of the class, calibrated later */
    assert_int_equal(back.count, 3);
    assert_memory_equal(&back.rows[0], &c.rows[0], sizeof c.rows[0]);
    assert_memory_equal(&back.rows[2], &c.rows[2], sizeof c.rows[2]);
    CHECK_OK(tern_store_ceilings_find(s, newer_id, &back, failure)); /* another driver is another class */
    assert_int_equal(back.count, 0);
    CHECK_OK(tern_store_ceilings_of_gpu(s, "h200", &back, failure));
    assert_int_equal(back.count, 3);
    CHECK_OK(tern_store_ceilings_of_gpu(s, "t4", &back, failure));
    assert_int_equal(back.count, 0);

    /* No ceiling without a device that could produce it, none that is no number, and all of a calibration or nothing. */
    assert_int_equal(tern_store_ceilings_put(s, run, planned_id, &c, &err), TERN_INTERNAL);
    c.rows[2].value = NAN;
    assert_int_equal(tern_store_ceilings_put(s, r.run, newer_id, &c, &err), TERN_INTERNAL);
    CHECK_OK(tern_store_ceilings_find(s, newer_id, &back, failure));
    assert_int_equal(back.count, 0);
    c.count = 0;
    assert_int_equal(tern_store_ceilings_put(s, run, peer_id, &c, &err), TERN_INTERNAL);

    CHECK_OK(tern_store_fastest_gemm(s, "h200", &tflops, failure));
    assert_float_equal(tflops, 0, 0);
    struct tern_store_baseline b = {
        .kind = "cublaslt-best16", .policy = "graph/cold", .us = 100, .us_lo = NAN, .us_hi = NAN};
    CHECK_OK(tern_store_baseline_put(s, r.run, r.device, r.problem, &b, NULL, 0, failure));
    b = (struct tern_store_baseline){
        .kind = "dequant-cublaslt", .policy = "graph/cold", .us = 1, .us_lo = NAN, .us_hi = NAN};
    CHECK_OK(tern_store_baseline_put(s, r.run, r.device, r.problem, &b, NULL, 0, failure));
    CHECK_OK(tern_store_fastest_gemm(s, "h200", &tflops, failure));
    assert_float_equal(tflops, 2.0 * 4608 * 3584 / 100 * 1e-6, 1e-12);
    tern_store_close(s);
    fixture_close(&f);
}

static void the_table_is_narrow(void **state) {
    struct tern_ceilings c;
    const struct tern_output_device device = {"h200", "NVIDIA H200", "580.1", "t.db"};
    char *text = NULL;
    size_t length = 0;
    (void)state;
    sample_ceilings(&c);
    FILE *out = open_memstream(&text, &length);
    tern_output_ceilings(out, &device, &c);
    fclose(out);
    assert_non_null(strstr(text, "                 1      2.00       524\n"));
    assert_non_null(strstr(text, "  wgmma-f16         850  1980        700  1980  TFLOPS\n"));
    assert_non_null(strstr(text, "  mma-s8           1243  1980          -     -  TOPS\n"));
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        assert_true(strchr(line, '\n') && strchr(line, '\n') - line <= 80);
    free(text);
    out = open_memstream(&text, &length);
    tern_output_ceilings_json(out, &device, &c);
    fclose(out);
    assert_non_null(strstr(text, "\"kind\": \"read\""));
    assert_non_null(strstr(text, "\"samples_us\""));
    free(text);
}

/* wgmma has its own architecture; elsewhere its probe must compile too, to a kernel that does nothing and says so. */
static void probes_compile(void **state) {
    static const char *const archs[] = {"sm_80", "sm_89", "sm_90a", "sm_100", "sm_120"};
    struct tern_error err = {0};
    char kernels[PATH_MAX], includes[PATH_MAX];
    int major, minor, probes = 0;
    (void)state;
    if (tern_nvrtc_version(&major, &minor, NULL, 0, &err) != TERN_OK)
        skip();
    CHECK_OK(tern_file_home_path("kernels", kernels, sizeof kernels, failure));
    CHECK_OK(tern_file_home_path("templates/include", includes, sizeof includes, failure));
    const char *const dirs[] = {kernels, includes}, *entry = "";
    struct tern_str text = {0};
    for (int index = 0; tern_fixed_source(index, &text, &entry, &err); index++, tern_str_free(&text)) {
        if (strcmp(entry, "tern_probe") != 0)
            continue;
        bool wgmma = probes++ >= TERN_FIXED_WGMMA;
        for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
            struct tern_compiled built;
            if (wgmma && a != 2 && a != 4)
                continue;
            CHECK_OK(tern_nvrtc_compile(tern_str_text(&text), entry, archs[a], dirs, 2, entry, &built, failure));
            if (!built.ok)
                fail_msg("probe %d for %s: %s", probes - 1, archs[a], tern_str_text(&built.log));
            assert_int_equal(built.spill_bytes, 0);
            assert_int_equal(built.local_bytes, 0);
            assert_null(strstr(tern_str_text(&built.log), "serialized")); /* ptxas on wgmma: no ceiling then */
            tern_compiled_free(&built);
        }
    }
    assert_int_equal(probes, TERN_PROBE_COUNT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_come_from_ceilings), cmocka_unit_test(a_faster_library_refutes_the_rate),
        cmocka_unit_test(rows_are_limited),          cmocka_unit_test(the_newest_of_a_class_is_found),
        cmocka_unit_test(the_table_is_narrow),       cmocka_unit_test(probes_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
