/* Tests of exported kernels that have another one in front: the header holds both launches, and compiles in both languages. */
#include "export_fixture.h"

#include "output/select.h"

/* A row whose kernel has another one in front and rounds scales: the header holds both launches, and refuses what neither fits. */
static void prologues_are_printed(void **state) {
    struct fixture f = {0};
    struct tern_results rows = {0};
    struct tern_error err = {0};
    static const char caller[] =
        "#define TERN_DISPATCH_IMPLEMENTATION\n"
        "#include \"tern_dispatch.h\"\n"
        "int main(void) {\n"
        "    struct tern_choice c = tern_select(\"ternary-g128\", \"linear-a8\", 128, 4096, 4096);\n"
        "    struct tern_choice plain = tern_select(\"ternary-g128\", NULL, 128, 4096, 4096);\n"
        "    return !(c.kernel && strcmp(c.kernel->prologue, \"tern_fake_quantise\") == 0 && c.prologue_grid == 128 + 32 "
        "&&\n"
        "             c.prologue_block == 256 && c.kernel->rounds_scales && plain.kernel && !plain.kernel->prologue &&\n"
        "             !plain.prologue_grid && !plain.kernel->rounds_scales &&\n"
        "             !c.use_dequant && tern_select(\"ternary-g128\", \"linear-e4m3\", 128, 4096, 4096).use_dequant == 2 "
        "&&\n"
        "             !tern_select(\"ternary-g128\", \"linear-a8\", 2000, 4096, 4096).kernel && "
        "tern_select(\"ternary-g128\", \"linear-a8\", 1000, 4096, 4096).kernel);\n"
        "}\n";
    size_t compiled = 0;
    (void)state;
    tern_str_copy(f.dir, sizeof f.dir, "/tmp/tern-export-XXXXXX");
    assert_non_null(mkdtemp(f.dir));
    struct tern_result row = fixture_row("ternary-g128", "wide", 4096, 4096, 1, 128, 2.0, false);
    tern_results_add(&rows, &row);
    tern_str_copy(row.op, sizeof row.op, "linear-a8");
    tern_str_copy(row.params, sizeof row.params, "WARPS=8 ROW_TILES=2 SPLIT_K=1 ROUND_SCALES=1");
    tern_hash_bytes(row.params, strlen(row.params), row.build_key);
    tern_str_copy(row.smem, sizeof row.smem, "1024*WARPS"); /* so that nothing but the prologue is too large for M = 2000 */
    tern_str_copy(row.prologue, sizeof row.prologue, "tern_fake_quantise");
    tern_str_copy(row.prologue_grid, sizeof row.prologue_grid, "M + ROUND_SCALES*ceil_div(N, 128)");
    tern_str_copy(row.prologue_block, sizeof row.prologue_block, "M > 1024 ? 2048 : 256");
    tern_results_add(&rows, &row);
    struct tern_result beaten = rows.rows[0]; /* by dequantising to e4m3 */
    tern_str_copy(beaten.op, sizeof beaten.op, "linear-e4m3");
    tern_str_copy(beaten.params, sizeof beaten.params, "WARPS=4 ROW_TILES=2 SPLIT_K=1");
    tern_hash_bytes(beaten.params, strlen(beaten.params), beaten.build_key);
    beaten.dequant_e4m3_us = 0.5 * beaten.us;
    tern_results_add(&rows, &beaten);
    char *db = path_in(&f, "a8.db");
    assert_int_equal(fixture_database(db, &rows, false, &err), TERN_OK);
    assert_int_equal(export_to(&f, "a8.db", "out", "", &err), TERN_OK);
    char *header = read_text(&f, "out/tern_dispatch.h"), *manifest = read_text(&f, "out/manifest.json");
    assert_non_null(strstr(header, "    c->prologue_grid = m + 1 * tern_ceil_div_(n, 128);\n"));
    assert_non_null(strstr(header, "; group scales are rounded"));
    assert_non_null(strstr(manifest, "\"dequant_faster\": true"));
    assert_non_null(strstr(manifest, "\"dequant_e4m3_us\": null"));
    assert_non_null(strstr(manifest, "\"rounds_scales\": true"));
    assert_non_null(strstr(manifest, "\"rounds_scales\": false"));
    write_text(&f, "caller.c", caller, sizeof caller - 1);
    write_text(&f, "caller.cpp", caller, sizeof caller - 1);
    char *const run[] = {(char[]){"./caller"}, NULL};
    for (size_t i = 0; i < COMPILER_COUNT; i++)
        if (compile_caller(&f, i))
            compiled += run_program(&f, NULL, NULL, run) == 0 ? 1 : 100;
    assert_true(compiled >= 2 && compiled <= COMPILER_COUNT);
    const struct tern_selection_problem large = {"linear-a8", "ternary-g128", 2000, 4096, 4096},
                                        small = {"linear-a8", "ternary-g128", 1000, 4096, 4096};
    struct tern_dispatch_limits limits = {H200_SMS, H200_SMEM};
    assert_true(tern_dispatch_fits(&limits, &row, &small));
    assert_false(tern_dispatch_fits(&limits, &row, &large));
    char *const clean[] = {(char[]){"rm"}, (char[]){"-rf"}, f.dir, NULL};
    assert_int_equal(run_program(&f, NULL, NULL, clean), 0);
    free(header);
    free(manifest);
    free(db);
    tern_results_free(&rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(prologues_are_printed)};
    return cmocka_run_group_tests_name("export of prologues", tests, NULL, NULL);
}
