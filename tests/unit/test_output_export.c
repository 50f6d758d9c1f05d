/* Tests of the exported header: it compiles as C99 and C++11 with every warning an error, answers what `tune select`
 * answers, and has the same bytes whatever the order of the rows. With --write-database PATH [planned] it writes the
 * database of invented rows that the scripts in tests/e2e read. */
#include "export_fixture.h"

#include "core/archive.h"
#include "core/random.h"
#include "output/select.h"
#include "store/cache.h"

#define PROBLEMS 3000

static const char CALLER[] =
    "#define TERN_DISPATCH_IMPLEMENTATION\n"
    "#include \"tern_dispatch.h\"\n"
    "#include \"tern_dispatch.h\"\n"
    "#include <stdio.h>\n"
    "int main(void) {\n"
    "    char format[64];\n"
    "    long m, n, k;\n"
    "    while (scanf(\"%63s %ld %ld %ld\", format, &m, &n, &k) == 4) {\n"
    "        struct tern_choice c = tern_select(format, NULL, m, n, k);\n"
    "        printf(\"%s %d\", tern_match_name(c.match), c.use_cublas);\n"
    "        if (c.kernel)\n"
    "            printf(\" %s %s %s %s %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld\", c.kernel->template_name, "
    "c.kernel->params,\n"
    "                   c.kernel->format, c.kernel->layout, (long)c.grid[0], (long)c.grid[1], (long)c.grid[2], "
    "(long)c.block,\n"
    "                   (long)c.cluster, (long)c.smem_bytes, (long)c.workspace_bytes, (long)c.tuned_m, (long)c.tuned_n,\n"
    "                   (long)c.tuned_k);\n"
    "        printf(\"\\n\");\n"
    "    }\n"
    "    return tern_kernel_count() > 0 && tern_kernel_at(0) && !tern_kernel_at(tern_kernel_count()) ? 0 : 1;\n"
    "}\n";

/* A shape tuned at M = 1, 3, 10, 100 only: between them, several passes of the smaller kernel may be the cheaper choice, and
 * some kernels take only part of the range. */
static void add_sparse_shape(struct tern_results *rows) {
    static const struct {
        int64_t m, min_m, max_m;
        double us;
    } tuned[] = {{1, 1, 16, 2.0}, {3, 1, 50, 5.5}, {10, 10, 50, 30.0}, {100, 1, 4096, 120.0}};
    for (size_t i = 0; i < 4; i++) {
        struct tern_result row = fixture_row("ternary-g128", "lm_head", 1024, 1024, 1, tuned[i].m, 2.125, false);
        row.us = tuned[i].us, row.us_lo = tuned[i].us, row.us_hi = tuned[i].us, row.min_m = tuned[i].min_m,
        row.max_m = tuned[i].max_m;
        tern_results_add(rows, &row);
    }
}

static int set_up(void **state) {
    struct fixture *f = tern_alloc_zero(1, sizeof *f);
    struct tern_error err = {0};
    tern_str_copy(f->dir, sizeof f->dir, "/tmp/tern-export-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    fixture_results(&f->rows, false);
    for (size_t i = 0; i < f->rows.count; i++) /* one kernel does not take the largest K */
        if (f->rows.rows[i].m > 32)
            tern_str_copy(f->rows.rows[i].grid[2], sizeof f->rows.rows[i].grid[2], "SPLIT_K*(K<=18944)");
    add_sparse_shape(&f->rows);
    char *db = path_in(f, "measured.db"), *planned_db = path_in(f, "planned.db");
    struct tern_results planned = {0};
    fixture_results(&planned, true);
    enum tern_status status = fixture_database(db, &f->rows, false, &err);
    if (!status)
        status = add_trials(db, &f->rows, &err);
    if (!status)
        status = fixture_database(planned_db, &planned, true, &err);
    if (!status)
        status = export_to(f, "measured.db", "out", "", &err);
    if (status)
        fprintf(stderr, "%s\n", err.text);
    tern_results_free(&planned);
    free(db);
    free(planned_db);
    *state = f;
    return status ? -1 : 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    char *const argv[] = {(char[]){"rm"}, (char[]){"-rf"}, f->dir, NULL};
    int code = run_program(f, NULL, NULL, argv);
    tern_results_free(&f->rows);
    free(f);
    return code;
}

/* Random problems: tuned and other shapes, M around and beyond the tuned ones, unknown formats. */
static void write_problems(const struct fixture *f, struct tern_str *expected) {
    static const char *const formats[] = {"ternary-g128", "gptq4-g128", "ternary-channel"};
    struct answers answers;
    struct tern_random r;
    struct tern_str problems = {0};
    struct tern_dispatch_limits limits = {H200_SMS, H200_SMEM};
    enum tern_selection_match unused;
    size_t unfit = 0, others = 0, beside = 0, banded = 0;
    static const struct {
        int64_t m, n, k;
    } edges[] = {{0, 64, 64},      {1, 68, 64},       {1, 64, 80}, {1, 1 << 23, 64}, {1, 1 << 24, 64},
                 {1, 64, 1 << 24}, {1 << 24, 64, 64}, {1, 8, 32},  {-1, 64, 64},     {1, 0, 64}};
    struct tern_error err = {0};
    const struct tern_result *sparse = f->rows.rows;
    while (strcmp(sparse->layer, "lm_head"))
        sparse++;
    open_answers(f, "measured.db", &f->rows, &answers);
    tern_random_init(&r, 1, "export");
    for (int i = 0; i < PROBLEMS; i++) {
        const struct tern_result *like = &f->rows.rows[tern_random_below(&r, f->rows.count)];
        bool tuned = tern_random_below(&r, 2);
        const char *format = formats[tern_random_below(&r, 16) ? tern_random_below(&r, 2) : 2];
        int64_t m = (int64_t)tern_random_below(&r, UINT64_C(2) << tern_random_below(&r, 22));
        if (tern_random_below(&r, 10) == 0) { /* the sparse shape, rare among the rows */
            like = sparse;
            m %= 128;
        }
        int64_t n = tuned ? like->n : 8 * (int64_t)(1 + tern_random_below(&r, 16384));
        int64_t k = tuned ? like->k : 32 * (int64_t)(1 + tern_random_below(&r, 4096));
        if (i < (int)(sizeof edges / sizeof edges[0]))
            m = edges[i].m, n = edges[i].n, k = edges[i].k;
        struct tern_dispatch_geometry g = {0};
        const struct tern_selection_problem problem = {NULL, format, m, n, k};
        const struct tern_selection_answer answer =
            tern_selection_ask(&answers.table, &problem, tern_dispatch_fits, &limits);
        const struct tern_result *row = answer.row, *kernel = answer.kernel;
        others += answer.match == TERN_SELECTION_BETWEEN && row != kernel;
        beside += answer.match >= TERN_SELECTION_NEAR && row != kernel;
        unfit += row != tern_selection_find(&answers.table, &problem, NULL, NULL, &unused);
        tern_str_printf(&problems, "%s %lld %lld %lld\n", format, (long long)m, (long long)n, (long long)k);
        tern_str_printf(expected, "%s %d", tern_selection_match_name(answer.match),
                        row ? tern_selection_use_cublas(row) : m > 0 && n > 0);
        if (row) {
            assert_int_equal(tern_dispatch_geometry(kernel, m, n, k, H200_SMS, &g, &err), TERN_OK);
            tern_str_printf(expected, " %s %s %s %s %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld",
                            kernel->template_name, kernel->params, kernel->format, kernel->layout, (long long)g.grid[0],
                            (long long)g.grid[1], (long long)g.grid[2], (long long)g.block, (long long)g.cluster,
                            (long long)g.smem_bytes, (long long)g.workspace_bytes, (long long)row->m, (long long)row->n,
                            (long long)row->k);
        }
        tern_str_append(expected, "\n");
    }
    assert_true(unfit > 0);  /* some choices were turned down for their launch */
    assert_true(others > 0); /* some sizes between are served by another kernel than their row's */
    assert_true(beside > 0); /* and some shapes beside */
    for (size_t i = 0; i < f->rows.count; i++)
        banded += answers.stairs[i].band_count > 1;
    assert_true(banded > 0); /* by their K, too */
    write_text(f, "problems", problems.data, problems.length);
    tern_str_free(&problems);
    close_answers(&answers);
}

static void header_compiles_and_answers_as_select(void **state) {
    const struct fixture *f = *state;
    struct tern_str expected = {0};
    size_t compiled = 0;
    write_text(f, "caller.c", CALLER, sizeof CALLER - 1);
    write_text(f, "caller.cpp", CALLER, sizeof CALLER - 1);
    write_problems(f, &expected);
    static const char *const kinds[] = {"exact", "between", "near", "default", "none"};
    for (size_t i = 0; i < 5; i++)
        assert_non_null(strstr(expected.data, kinds[i]));
    for (size_t i = 0; i < COMPILER_COUNT; i++) {
        char *const run[] = {(char[]){"./caller"}, NULL};
        if (!compile_caller(f, i))
            continue;
        assert_int_equal(run_program(f, "problems", "answers", run), 0);
        char *answers = read_text(f, "answers");
        size_t same = 0; /* cmocka cuts long strings: name the first line that differs */
        while (answers[same] && answers[same] == expected.data[same])
            same++;
        while (same && answers[same - 1] != '\n')
            same--;
        if (strcmp(answers, expected.data))
            fail_msg("header: %.150s\nselect: %.150s", answers + same, expected.data + same);
        free(answers);
        compiled++;
    }
    assert_true(compiled >= 2); /* the build needs gcc and g++ itself */
    tern_str_free(&expected);
}

static void select_command_prints_the_same_choice(void **state) {
    const struct fixture *f = *state;
    struct tern_error err = {0};
    char words[512], line[64];
    struct tern_dispatch_geometry g;
    struct answers answers;
    open_answers(f, "measured.db", &f->rows, &answers);
    const struct tern_selection_problem problem = {NULL, "ternary-g128", 5, 37888, 3584};
    const struct tern_result *kernel = tern_selection_ask(&answers.table, &problem, NULL, NULL).kernel;
    assert_non_null(kernel);
    assert_int_equal(tern_dispatch_geometry(kernel, 5, 37888, 3584, H200_SMS, &g, &err), TERN_OK);
    tern_str_format(words, sizeof words,
                    "select --gpu h200 --db %s/measured.db --format ternary-g128 --m 5 --n 37888 --k 3584", f->dir);
    assert_int_equal(run_command(f, &tern_command_select, words, &err), TERN_OK);
    char *text = read_text(f, "stdout");
    tern_str_format(line, sizeof line, "grid       %lld %lld %lld\n", (long long)g.grid[0], (long long)g.grid[1],
                    (long long)g.grid[2]);
    assert_non_null(strstr(text, "match      between\n"));
    assert_non_null(strstr(text, line));
    assert_non_null(strstr(text, kernel->params));
    free(text);
    tern_str_format(words, sizeof words,
                    "select --gpu h200 --db %s/measured.db --format ternary-channel --m 5 --n 64 --k 64", f->dir);
    assert_int_equal(run_command(f, &tern_command_select, words, &err), TERN_FAILED);
    close_answers(&answers);
}

static void same_rows_give_the_same_bytes(void **state) {
    const struct fixture *f = *state;
    struct tern_error err = {0};
    struct tern_results reversed = {0};
    char *db = path_in(f, "reversed.db");
    for (size_t i = f->rows.count; i-- > 0;)
        tern_results_add(&reversed, &f->rows.rows[i]);
    assert_int_equal(fixture_database(db, &reversed, false, &err), TERN_OK);
    assert_int_equal(add_trials(db, &reversed, &err), TERN_OK);
    assert_int_equal(export_to(f, "measured.db", "again", "--shapes qwen7b", &err), TERN_OK);
    assert_int_equal(export_to(f, "reversed.db", "other", "", &err), TERN_OK);
    char *first = read_text(f, "out/tern_dispatch.h"), *again = read_text(f, "again/tern_dispatch.h"),
         *other = read_text(f, "other/tern_dispatch.h");
    assert_string_equal(first, again);
    assert_string_equal(first, other);
    assert_non_null(strstr(first, "#define TERN_DISPATCH_PLANNED 0"));
    free(first);
    free(again);
    free(other);
    free(db);
    tern_results_free(&reversed);
}

static void planned_rows_are_refused_unless_allowed(void **state) {
    const struct fixture *f = *state;
    struct tern_error err = {0};
    char *header = path_in(f, "planned/tern_dispatch.h");
    assert_int_equal(export_to(f, "planned.db", "planned", "", &err), TERN_FAILED);
    assert_non_null(strstr(err.hint, "--allow-planned"));
    assert_false(tern_file_exists(header));
    assert_int_equal(export_to(f, "planned.db", "planned", "--allow-planned", &err), TERN_OK);
    char *text = read_text(f, "planned/tern_dispatch.h");
    assert_non_null(strstr(text, "#define TERN_DISPATCH_PLANNED 1"));
    assert_non_null(strstr(text, "NOT MEASURED"));
    assert_non_null(strstr(text, "not measured */") ? text : strstr(text, "not measured, limit"));
    assert_null(strstr(text, "nan"));
    free(text);
    free(header);
}

/* The invented rows' cubins are their entry names; the cache holds one of the two. */
static void cubins_come_from_the_cache(void **state) {
    const struct fixture *f = *state;
    struct tern_error err = {0};
    struct tern_cache *cache = NULL;
    char *dir = path_in(f, "cubins"), hash[TERN_HASH_CHARS], words[256];
    static const char image[] = "tern_fake_decode";
    assert_int_equal(tern_file_make_dirs(dir, &err), TERN_OK);
    assert_int_equal(tern_cache_open(dir, &cache, &err), TERN_OK);
    assert_int_equal(tern_cache_put(cache, image, sizeof image - 1, hash, &err), TERN_OK);
    tern_cache_close(cache);
    tern_str_format(words, sizeof words, "--cache %s", dir);
    assert_int_equal(export_to(f, "measured.db", "with-cubins", words, &err), TERN_OK);
    char *header = read_text(f, "with-cubins/tern_dispatch.h"), *manifest = read_text(f, "with-cubins/manifest.json"),
         *path = path_in(f, "with-cubins/tern_kernels.bin"), *archive;
    size_t length, bytes;
    void *unpacked;
    bool found;
    assert_int_equal(tern_file_read(path, &archive, &length, &err), TERN_OK);
    assert_int_equal(tern_archive_read(archive, length, hash, &unpacked, &bytes, &found, &err), TERN_OK);
    assert_true(found && bytes == sizeof image - 1 && memcmp(unpacked, image, bytes) == 0);
    assert_non_null(strstr(header, hash));
    assert_non_null(strstr(manifest, "\"missing\": 1"));
    free(unpacked);
    free(archive);
    free(header);
    free(manifest);
    free(path);
    free(dir);
}

/* Every byte of an archive that is changed or missing is found: by the index, by zstd or by the checksum. */
static void damaged_archives_are_refused(void **state) {
    (void)state;
    struct tern_error err = {0};
    char names[2][TERN_HASH_CHARS], images[2][300];
    struct tern_archive_image list[2];
    struct tern_str packed = {0};
    for (size_t i = 0; i < 2; i++) {
        memset(images[i], (int)i + 1, sizeof images[i]);
        tern_hash_bytes(images[i], sizeof images[i], names[i]);
        list[i] = (struct tern_archive_image){.data = images[i], .bytes = sizeof images[i]};
        memcpy(list[i].name, names[i], sizeof names[i]);
    }
    tern_archive_write(list, 2, &packed);
    for (size_t at = 0; at < 2 * packed.length; at++) {
        char *copy = tern_alloc(packed.length);
        const size_t length = at < packed.length ? packed.length : at - packed.length;
        memcpy(copy, packed.data, packed.length);
        if (at < packed.length)
            copy[at] = (char)(copy[at] ^ 0x55);
        for (size_t i = 0; i < 2; i++) {
            void *image;
            size_t bytes;
            bool found;
            enum tern_status status = tern_archive_read(copy, length, names[i], &image, &bytes, &found, &err);
            if (status == TERN_OK && found)
                assert_true(bytes == sizeof images[i] && memcmp(image, images[i], bytes) == 0);
            assert_true(status == TERN_OK || (!image && status == TERN_INTERNAL));
            free(image);
        }
        free(copy);
    }
    tern_str_free(&packed);
}

static void bad_requests_are_refused(void **state) {
    const struct fixture *f = *state;
    struct tern_error err = {0};
    assert_int_equal(export_to(f, "absent.db", "bad", "", &err), TERN_USAGE);
    assert_non_null(strstr(err.text, "absent.db"));
    assert_int_equal(export_to(f, "measured.db", "bad", "--shapes llama3-8b", &err), TERN_USAGE);
    assert_non_null(strstr(err.hint, "qwen7b"));
    assert_true(export_to(f, "measured.db", "measured.db/sub", "", &err) != TERN_OK);
    assert_non_null(strstr(err.text, "measured.db"));
    char words[256];
    tern_str_format(words, sizeof words, "export --db %s/measured.db -o %s/bad", f->dir, f->dir);
    assert_int_equal(run_command(f, &tern_command_export, words, &err), TERN_USAGE);
    assert_non_null(strstr(err.text, "--gpu"));
}

/* Rows that try to break out of literals and comments. */
static void text_is_escaped(void **state) {
    struct tern_results rows = {0};
    struct tern_str text = {0};
    struct tern_error err = {0};
    (void)state;
    struct tern_result row = fixture_row("ternary-g128", "x */ int y; /*", 64, 64, 1, 1, 2.0, false);
    tern_str_copy(row.entry, sizeof row.entry, "a\"b\\c?\?/\n");
    tern_str_copy(row.baseline, sizeof row.baseline, "b*/");
    tern_results_add(&rows, &row);
    struct tern_export_launch launch = {0};
    const struct tern_export_gpu gpu = {&rows, &launch, NULL, NULL, "GPU */ x", "x", 90, 1, 1, "", "", ""};
    const struct tern_export input = {&gpu, 1, "", "", "", 1.0, NULL, 0};
    assert_int_equal(tern_export_check(&rows, false, &err), TERN_OK);
    tern_export_header(&input, &text);
    assert_non_null(strstr(text.data, "\"a\\042b\\134c\\077\\077/\\012\""));
    assert_null(strstr(text.data, "int y; */"));
    assert_null(strstr(text.data, "x */ int"));
    assert_null(strstr(text.data, "GPU */"));
    tern_str_free(&text);
    tern_results_free(&rows);
}

static int write_database(const char *path, bool planned) {
    struct tern_results rows = {0};
    struct tern_error err = {0};
    fixture_results(&rows, planned);
    enum tern_status status = fixture_database(path, &rows, planned, &err);
    if (status)
        fprintf(stderr, "%s\n", err.text);
    tern_results_free(&rows);
    return status;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_compiles_and_answers_as_select),
        cmocka_unit_test(select_command_prints_the_same_choice),
        cmocka_unit_test(same_rows_give_the_same_bytes),
        cmocka_unit_test(planned_rows_are_refused_unless_allowed),
        cmocka_unit_test(cubins_come_from_the_cache),
        cmocka_unit_test(damaged_archives_are_refused),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(text_is_escaped),
    };
    if (argc == 3 && !strcmp(argv[1], "worker"))
        return 1; /* started by export as its compile worker, which it is not: there are no packing kernels here */
    if (argc >= 3 && !strcmp(argv[1], "--write-database"))
        return write_database(argv[2], argc > 3);
    return cmocka_run_group_tests_name("export", tests, set_up, tear_down);
}
