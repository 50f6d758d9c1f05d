/* What export and select share: result rows from the database, and a row's launch as C text or as numbers. */
#include "commands/dispatch.h"

#include "config/expr.h"
#include "core/file.h"
#include "formats/format.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BINDINGS 48

/* Parameters of a row by name; the names point into `words`. */
struct bindings {
    struct tern_binding items[MAX_BINDINGS];
    size_t count;
    struct tern_strs words;
};

/* The name is borrowed. */
static enum tern_status bind(struct bindings *b, const char *name, int64_t value, struct tern_error *err) {
    if (b->count == MAX_BINDINGS)
        return tern_error_set(err, TERN_INTERNAL, "more than %d launch parameters", MAX_BINDINGS);
    b->items[b->count++] = (struct tern_binding){name, value};
    return TERN_OK;
}

/* "BLOCK_M=16 STAGES=4" */
static enum tern_status bind_params(struct bindings *b, const char *params, struct tern_error *err) {
    tern_strs_split(&b->words, params, ' ');
    for (size_t i = 0; i < b->words.count; i++) {
        char *equals = strchr(b->words.items[i], '=');
        int64_t value = 0;
        if (!equals || !tern_str_parse_int(equals + 1, INT64_MIN, INT64_MAX, &value))
            return tern_error_set(err, TERN_INTERNAL, "parameters \"%s\": expected NAME=NUMBER", params);
        *equals = 0;
        enum tern_status status = bind(b, b->words.items[i], value, err);
        if (status)
            return status;
    }
    return TERN_OK;
}

/* Lists what there is, so that a mistyped selection is repaired at once. */
static void hint_contents(struct tern_store *store, struct tern_error *err) {
    struct tern_results all = {0};
    struct tern_str text = {0};
    if (tern_store_winners(store, NULL, NULL, &all, NULL) == TERN_OK) {
        tern_results_sort(&all);
        for (size_t i = 0; i < all.count; i++) {
            const struct tern_result *row = &all.rows[i], *last = i ? row - 1 : NULL;
            if (!last || strcmp(last->gpu, row->gpu) || strcmp(last->shapes, row->shapes))
                tern_str_printf(&text, "%s--gpu %s --shapes %s", text.length ? ", " : "", row->gpu, row->shapes);
        }
        if (text.length)
            tern_error_hint(err, "it holds: %s", text.data);
        else
            tern_error_hint(err, "it holds no winner yet: run `tune --gpu G --shapes S` first");
    }
    tern_str_free(&text);
    tern_results_free(&all);
}

/* "configs/shapes/qwen7b.lua" and "qwen7b.lua" name the same model as "qwen7b". */
static const char *plain_name(const char *name, char *out, size_t size) {
    const char *slash = name ? strrchr(name, '/') : NULL;
    if (!name)
        return NULL;
    tern_str_copy(out, size, slash ? slash + 1 : name);
    size_t length = strlen(out);
    if (length > 4 && !strcmp(out + length - 4, ".lua"))
        out[length - 4] = 0;
    return out;
}

void tern_dispatch_leave_out_others(struct tern_results *rows) {
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++)
        kept += !*tern_conditions(rows->rows[i].shapes);
    if (kept == 0 || kept == rows->count)
        return;
    kept = 0;
    for (size_t i = 0; i < rows->count; i++)
        if (!*tern_conditions(rows->rows[i].shapes))
            rows->rows[kept++] = rows->rows[i];
    rows->count = kept;
}

enum tern_status tern_dispatch_rows(const char *db, const char *gpu, const char *shapes, struct tern_results *rows,
                                    struct tern_error *err) {
    struct tern_store *store = NULL;
    char gpu_name[64], shapes_name[64];
    enum tern_status status;
    if (!tern_file_exists(db)) {
        tern_error_set(err, TERN_USAGE, "database %s does not exist", db);
        tern_error_hint(err, "run `tune --gpu G --shapes S` first, or name another one with --db PATH");
        return TERN_USAGE;
    }
    /* A database that is only read is never made. */
    status = tern_store_open(db, TERN_STORE_READ, &store, err);
    if (status)
        return status;
    status = tern_store_winners(store, plain_name(gpu, gpu_name, sizeof gpu_name),
                                plain_name(shapes, shapes_name, sizeof shapes_name), rows, err);
    if (!status && !rows->count) {
        status = tern_error_set(err, TERN_USAGE, "%s holds no winner for gpu %s, shapes %s", db, gpu ? gpu : "(any)",
                                shapes ? shapes : "(any)");
        hint_contents(store, err);
    }
    tern_results_sort(rows);
    tern_store_close(store);
    return status;
}

/* One expression as C; "" appends nothing, which the exporter takes as absent. */
static enum tern_status print_one(const char *text, const struct bindings *b, struct tern_str *out, struct tern_error *err) {
    struct tern_expr *expr = NULL;
    if (!text[0])
        return TERN_OK;
    enum tern_status status = tern_expr_parse(text, &expr, err);
    if (!status)
        status = tern_expr_print_c(expr, b->items, b->count, out, err);
    tern_expr_free(expr);
    return status;
}

enum tern_status tern_dispatch_launch(const struct tern_result *row, struct tern_export_launch *out,
                                      struct tern_error *err) {
    struct bindings b = {0};
    struct tern_format format;
    memset(out, 0, sizeof *out);
    enum tern_status status = tern_format_parse(row->format, &format, err);
    if (status)
        goto out;
    /* Channel and tensor scales: a whole row, whose length is known only at the call. */
    out->group_size = format.group > 0 ? format.group : 0;
    status = bind_params(&b, row->params, err);
    if (!status)
        status = bind(&b, "BITS", format.bits, err);
    if (!status)
        status = bind(&b, "HAS_ZEROS", format.sym ? 0 : 1, err);
    const struct {
        const char *text;
        struct tern_str *into;
    } parts[] = {{row->grid[0], &out->grid[0]},
                 {row->grid[1], &out->grid[1]},
                 {row->grid[2], &out->grid[2]},
                 {row->block, &out->block},
                 {row->smem, &out->smem},
                 {row->workspace, &out->workspace},
                 {row->cluster, &out->cluster},
                 {row->prologue_grid, &out->prologue_grid},
                 {row->prologue_block, &out->prologue_block}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && !status; i++)
        status = print_one(parts[i].text, &b, parts[i].into, err);
    if (status)
        tern_error_prefix(err, "launch of %s: ", row->template_name);
out:
    tern_strs_free(&b.words);
    return status;
}

/* One expression as a number; "" is `absent`. */
static enum tern_status eval_one(const char *text, const struct bindings *b, int64_t absent, int64_t *value,
                                 struct tern_error *err) {
    struct tern_expr *expr = NULL;
    *value = absent;
    if (!text[0])
        return TERN_OK;
    enum tern_status status = tern_expr_parse(text, &expr, err);
    if (!status)
        status = tern_expr_eval(expr, b->items, b->count, value, err);
    tern_expr_free(expr);
    return status;
}

/* What the header's launch functions compute at run time: see add_launch of output/export_table.c. */
static enum tern_status bind_problem(struct bindings *b, const struct tern_format *format, int64_t m, int64_t n, int64_t k,
                                     int64_t sms, struct tern_error *err) {
    const struct tern_binding problem[] = {{"M", m},
                                           {"N", n},
                                           {"K", k},
                                           {"G", tern_format_groups(format, k)},
                                           {"GROUP", tern_format_group_size(format, k)},
                                           {"BITS", format->bits},
                                           {"HAS_ZEROS", format->sym ? 0 : 1},
                                           {"SMS", sms}};
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < sizeof problem / sizeof problem[0] && !status; i++)
        status = bind(b, problem[i].name, problem[i].value, err);
    return status;
}

enum tern_status tern_dispatch_geometry(const struct tern_result *row, int64_t m, int64_t n, int64_t k, int64_t sms,
                                        struct tern_dispatch_geometry *out, struct tern_error *err) {
    struct bindings b = {0};
    struct tern_format format;
    enum tern_status status = tern_format_parse(row->format, &format, err);
    if (status)
        goto out;
    status = bind_params(&b, row->params, err);
    if (!status)
        status = bind_problem(&b, &format, m, n, k, sms, err);
    const struct {
        const char *text;
        int64_t absent, *into;
    } parts[] = {{row->grid[0], 1, &out->grid[0]},
                 {row->grid[1], 1, &out->grid[1]},
                 {row->grid[2], 1, &out->grid[2]},
                 {row->block, 1, &out->block},
                 {row->smem, 0, &out->smem_bytes},
                 {row->workspace, 0, &out->workspace_bytes},
                 {row->cluster, 1, &out->cluster},
                 {row->prologue_grid, 0, &out->prologue_grid},
                 {row->prologue_block, 0, &out->prologue_block}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && !status; i++)
        status = eval_one(parts[i].text, &b, parts[i].absent, parts[i].into, err);
    if (status)
        tern_error_prefix(err, "launch of %s: ", row->template_name);
out:
    tern_strs_free(&b.words);
    return status;
}

/* ---- rounds ---- */

#define SMS_ENOUGH (INT64_C(1) << 30) /* multiprocessors for any problem; products with it stay below 2^63 */

struct tern_dispatch_grid {
    struct tern_expr *axes[3]; /* NULL: 1 */
    struct tern_expr *busiest; /* NULL: the template says nothing */
    struct tern_expr *smem;    /* NULL: none */
    int64_t static_smem_bytes;
    struct tern_format format;
    struct bindings params;
};

enum tern_status tern_dispatch_grid_open(const struct tern_result *row, const char *busiest,
                                         struct tern_dispatch_grid **grid, struct tern_error *err) {
    struct tern_dispatch_grid *g = tern_alloc_zero(1, sizeof *g);
    enum tern_status status = tern_format_parse(row->format, &g->format, err);
    if (!status)
        status = bind_params(&g->params, row->params, err);
    for (int i = 0; i < 3 && !status; i++)
        if (row->grid[i][0])
            status = tern_expr_parse(row->grid[i], &g->axes[i], err);
    if (!status && busiest[0])
        status = tern_expr_parse(busiest, &g->busiest, err);
    if (!status && row->smem[0])
        status = tern_expr_parse(row->smem, &g->smem, err);
    g->static_smem_bytes = row->static_smem_bytes;
    *grid = g;
    return status;
}

void tern_dispatch_grid_free(struct tern_dispatch_grid *grid) {
    if (!grid)
        return;
    for (int i = 0; i < 3; i++)
        tern_expr_free(grid->axes[i]);
    tern_expr_free(grid->busiest);
    tern_expr_free(grid->smem);
    tern_strs_free(&grid->params.words);
    free(grid);
}

/* Blocks of the launch on so many multiprocessors; 0 where there is none. */
static int64_t blocks_on(const struct tern_dispatch_grid *grid, int64_t m, int64_t n, int64_t k, int64_t sms) {
    struct bindings b = grid->params; /* the words stay the grid's */
    int64_t blocks = 1;
    if (bind_problem(&b, &grid->format, m, n, k, sms, NULL))
        return 0;
    for (int i = 0; i < 3; i++) {
        int64_t count = 1;
        if (grid->axes[i] && tern_expr_eval(grid->axes[i], b.items, b.count, &count, NULL))
            return 0;
        if (count <= 0 || count > SMS_ENOUGH || blocks > SMS_ENOUGH)
            return 0;
        blocks *= count;
    }
    return blocks;
}

int64_t tern_dispatch_rounds(const struct tern_dispatch_grid *grid, int64_t m, int64_t n, int64_t k, int64_t sms) {
    const int64_t there = blocks_on(grid, m, n, k, sms), wanted = blocks_on(grid, m, n, k, SMS_ENOUGH);
    const int64_t at_once = there < sms ? there : sms;
    return at_once > 0 ? (wanted + at_once - 1) / at_once : 0;
}

int64_t tern_dispatch_work(const struct tern_dispatch_grid *grid, int64_t m, int64_t n, int64_t k, int64_t sms) {
    struct bindings b = grid->params; /* the words stay the grid's */
    int64_t busiest = 0;
    if (!grid->busiest)
        return tern_dispatch_rounds(grid, m, n, k, sms);
    if (blocks_on(grid, m, n, k, sms) == 0 || bind_problem(&b, &grid->format, m, n, k, sms, NULL) ||
        tern_expr_eval(grid->busiest, b.items, b.count, &busiest, NULL) || busiest < 0)
        return 0;
    return busiest;
}

bool tern_dispatch_launches(const struct tern_dispatch_grid *grid, int64_t m, int64_t n, int64_t k,
                            const struct tern_dispatch_limits *limits) {
    struct bindings b = grid->params; /* the words stay the grid's */
    int64_t bytes = 0;
    if (blocks_on(grid, m, n, k, limits->sms) == 0 || bind_problem(&b, &grid->format, m, n, k, limits->sms, NULL) ||
        (grid->smem && tern_expr_eval(grid->smem, b.items, b.count, &bytes, NULL)))
        return false;
    return bytes >= 0 && bytes + grid->static_smem_bytes <= limits->smem_bytes;
}

/* The twin of tern_takes_ in tern/dispatch_select.h. An expression that fails (overflow) does not fit. */
bool tern_dispatch_fits(void *limits, const struct tern_result *row, const struct tern_selection_problem *problem) {
    const struct tern_dispatch_limits *device = limits;
    struct tern_dispatch_geometry g;
    if (tern_dispatch_geometry(row, problem->m, problem->n, problem->k, device->sms, &g, NULL))
        return false;
    if (row->prologue[0] &&
        !(g.prologue_grid > 0 && g.prologue_grid <= INT32_MAX && g.prologue_block > 0 && g.prologue_block <= 1024))
        return false;
    return g.grid[0] > 0 && g.grid[0] <= INT32_MAX && g.grid[1] > 0 && g.grid[1] <= 65535 && g.grid[2] > 0 &&
           g.grid[2] <= 65535 && g.block > 0 && g.block <= 1024 && g.cluster > 0 && g.grid[0] % g.cluster == 0 &&
           g.smem_bytes >= 0 && g.smem_bytes + row->static_smem_bytes <= device->smem_bytes && g.workspace_bytes >= 0;
}
