/* Templates: templates/NAME/kernel.cu + templates/NAME/space.lua. The checked table of space.lua as C.
 * Owns the Lua state in which `valid` runs; nothing else of the program calls Lua code after loading. */
#ifndef TERN_CONFIG_TEMPLATE_H
#define TERN_CONFIG_TEMPLATE_H

#include "config/gpu.h"
#include "core/activation.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/result.h"
#include "formats/format.h"

#include <stdbool.h>
#include <stdint.h>

#define TERN_MAX_PARAMS       24
#define TERN_MAX_PARAM_VALUES 32

struct tern_param {
    char name[32]; /* upper case: BLOCK_M */
    char doc[160]; /* meaning and limits */
    int64_t values[TERN_MAX_PARAM_VALUES];
    size_t value_count;
    int64_t fallback; /* value of the template's default candidate */
};

struct tern_problem_shape { /* what `valid` may ask about */
    const struct tern_format *format;
    int64_t m, n, k;
    enum tern_activation type; /* of x and y */
    bool dependent;            /* launches are programmatic wherever a template can be launched so; not asked about */
};

struct tern_template {
    char name[40], dir[512];
    bool types[TERN_ACTIVATION_COUNT]; /* of x and y; `ops` in the file: linear-a16, linear-bf16, linear-a8, linear-e4m3 */
    char summary[200];
    char layout[32];    /* formats/layout.h */
    char unit[16];      /* hardware unit that bounds it: "f32" (CUDA cores), "mma-f16", "mma-s8" */
    char entry[64];     /* extern "C" symbol */
    bool families[2];   /* by enum tern_family */
    int bits[4];        /* supported code widths; 0 after the last if fewer than 4 */
    bool exact_weights; /* default exactness; a parameter ROUND_WEIGHTS = 1 makes a candidate TERN_ROUNDED_WEIGHTS */
    int min_cc;
    int64_t m_min, m_max;
    double efficiency; /* prior of the cost model: share of the limit the family reaches on large problems, 0..1 */
    struct tern_param params[TERN_MAX_PARAMS];
    size_t param_count; /* declared order */
    bool dependent;     /* launch.dependent: it waits for the kernel ahead itself (tern/dependent.cuh) */
    char grid[3][192], block[192], smem[384], workspace[320],
        cluster[64];                                            /* expressions; "" where absent (cluster: x size) */
    char busiest[768];                                          /* the same, for the cost model: space/grid.h */
    char prologue[64], prologue_grid[192], prologue_block[192]; /* kernel launched first, and its launch; "" for none */
    struct tern_sandbox *lua;
    char hash[TERN_HASH_CHARS]; /* of kernel.cu and space.lua */
};

/* Loads one template folder, or all of them (name order). Schema errors give file:line or file: key. */
enum tern_status tern_template_load(const char *dir, struct tern_template *out, struct tern_error *err);
enum tern_status tern_templates_load_all(struct tern_template **templates, size_t *count, struct tern_error *err);
/* Sets selected[i] of `count` for the templates that the comma-separated list names, for all if it is NULL. TERN_USAGE: a name
 * that none has, or no name. */
enum tern_status tern_templates_select(const struct tern_template *templates, size_t count, const char *list, bool *selected,
                                       struct tern_error *err);
/* True if the template takes activations of the type, and weights of the format's family and code width; M, N and K are not
 * looked at. */
bool tern_template_serves(const struct tern_template *t, const struct tern_format *format, enum tern_activation type);
/* What a row holds of its kernel's template: name, version, layout, entry, launch expressions, range of M. */
void tern_template_fill(const struct tern_template *t, struct tern_result *row);
void tern_template_free(struct tern_template *t);
void tern_templates_free(struct tern_template *templates, size_t count);

/* Asks space.lua's valid(p, problem, gpu) about one candidate. *valid false comes with a reason. An error only if Lua fails or
 * reads a parameter that is none. *read (may be NULL): a bit for each declared parameter that was looked at; the answer is the
 * same for all values of the others. */
enum tern_status tern_template_valid(const struct tern_template *t, const int64_t *values,
                                     const struct tern_problem_shape *problem, const struct tern_gpu *gpu, bool *valid,
                                     uint32_t *read, char *reason, size_t reason_size, struct tern_error *err);

#endif
