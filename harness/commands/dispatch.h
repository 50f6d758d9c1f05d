/* What export and select share: result rows from the database, and a row's launch as C text or as numbers. */
#ifndef TERN_COMMANDS_DISPATCH_H
#define TERN_COMMANDS_DISPATCH_H

#include "output/export.h"
#include "output/select.h"

/* Where `run` keeps its rows when --db is not given. */
#define TERN_DEFAULT_DB "results/tern.db"

/* Reads the winners of a database, sorted. gpu and shapes: NULL for all. A missing file or an empty selection is TERN_USAGE,
 * the latter with what the database does hold. */
enum tern_status tern_dispatch_rows(const char *db, const char *gpu, const char *shapes, struct tern_results *rows,
                                    struct tern_error *err);

/* Rows on a checkpoint's weights, or of dependent launches (tern_conditions), answer when their model is named; beside rows on random
 * weights and of plain launches they would answer the same questions twice, and are left out. */
void tern_dispatch_leave_out_others(struct tern_results *rows);

/* A row's launch expressions as C text; free with tern_export_launch_free, also after an error. */
enum tern_status tern_dispatch_launch(const struct tern_result *row, struct tern_export_launch *out, struct tern_error *err);

struct tern_dispatch_geometry {
    int64_t grid[3], block, cluster, smem_bytes, workspace_bytes;
    int64_t prologue_grid, prologue_block; /* 0 without a prologue */
};
/* A row's launch for a problem that need not be the row's own. */
enum tern_status tern_dispatch_geometry(const struct tern_result *row, int64_t m, int64_t n, int64_t k, int64_t sms,
                                        struct tern_dispatch_geometry *out, struct tern_error *err);

/* What launches and the functions below need to know of the device. */
struct tern_dispatch_limits {
    int64_t sms, smem_bytes; /* smem: most of one block, dynamic and static */
};

/* The grid of a row's launch, and its shared memory, ready for many sizes. */
struct tern_dispatch_grid;
/* busiest: what the template says of its busiest block, "" if nothing. The caller frees with tern_dispatch_grid_free. */
enum tern_status tern_dispatch_grid_open(const struct tern_result *row, const char *busiest,
                                         struct tern_dispatch_grid **grid, struct tern_error *err);
void tern_dispatch_grid_free(struct tern_dispatch_grid *grid);
/* How many times over the launch for this problem fills the multiprocessors: the blocks that it would have if there were enough of
 * them for all of its work at once, over those that there are. A kernel's time follows it. 0: no launch. */
int64_t tern_dispatch_rounds(const struct tern_dispatch_grid *grid, int64_t m, int64_t n, int64_t k, int64_t sms);
/* What the busiest block computes where the template says so, else the rounds: comparable between sizes of one kernel only. 0: no launch. */
int64_t tern_dispatch_work(const struct tern_dispatch_grid *grid, int64_t m, int64_t n, int64_t k, int64_t sms);
/* Whether the launch for this problem has blocks, and shared memory for them. */
bool tern_dispatch_launches(const struct tern_dispatch_grid *grid, int64_t m, int64_t n, int64_t k,
                            const struct tern_dispatch_limits *limits);

/* tern_selection_fits with a struct tern_dispatch_limits as user: the same limits as in the exported header. */
bool tern_dispatch_fits(void *limits, const struct tern_result *row, const struct tern_selection_problem *problem);

#endif
