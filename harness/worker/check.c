/* The check of one candidate on prepared problems. Every comparison is written so that NaN fails. */
#include "worker/check.h"
#include "worker/check_internal.h"

#include "core/clock.h"
#include "core/str.h"
#include "verify/guard.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two poisons: NaN shows what nobody wrote, a finite one what NaN-proof code (max, comparisons) would hide. */
#define POISON_FINITE 0x5A5A5A5Au /* 203.25 as binary16, 1.5e16 as bfloat16 */

/* The last six have a long K, for candidates that take x in pieces, split K, or come round their ring of slices; the last one rows enough that a block
 * of the emulator's four multiprocessors has several tiles, too. */
const struct tern_check_shape tern_check_shapes[] = {
    {1, 8, 32},     {1, 24, 96},    {1, 72, 160},    {2, 72, 160},   {3, 24, 416},   {5, 72, 288},
    {1, 200, 704},  {8, 200, 416},  {17, 72, 160},   {33, 24, 416},  {65, 72, 96},   {16, 136, 704},
    {130, 24, 160}, {64, 200, 352}, {257, 40, 224},  {97, 136, 416}, {3, 24, 18944}, {9, 24, 8640},
    {17, 24, 4448}, {40, 24, 2208}, {130, 24, 1184}, {20, 584, 1312}};
const size_t tern_check_shape_count = sizeof tern_check_shapes / sizeof tern_check_shapes[0];

bool tern_check_shape_fits(const struct tern_check_shape *shape, const struct tern_format *format,
                           const struct tern_template *t) {
    return shape->m >= t->m_min && shape->m <= t->m_max &&
           tern_format_check_shape(format, shape->n, shape->k, true, NULL) == TERN_OK;
}

struct tern_check_shape tern_check_own_shape(int64_t m, int64_t k) {
    return (struct tern_check_shape){m, 24, k};
}

static bool is_one(const struct tern_candidate *candidate, const char *name) {
    const struct tern_template *t = candidate->tmpl;
    for (size_t i = 0; i < t->param_count; i++) {
        if (strcmp(t->params[i].name, name) == 0) {
            return candidate->values[i] == 1;
        }
    }
    return false;
}

enum tern_arithmetic tern_check_arithmetic(const struct tern_candidate *candidate, enum tern_activation type) {
    if (type == TERN_E4M3) {
        return TERN_ARITHMETIC_E4M3;
    }
    if (type != TERN_INT8) {
        return TERN_ARITHMETIC_A16;
    }
    return is_one(candidate, "ROUND_SCALES") ? TERN_ARITHMETIC_A8_ROUNDED : TERN_ARITHMETIC_A8;
}

enum tern_exactness tern_check_exactness(const struct tern_candidate *candidate, enum tern_activation type) {
    const struct tern_template *t = candidate->tmpl;
    if (type == TERN_E4M3) {
        return TERN_E4M3_SUMS;
    }
    if (type == TERN_INT8) {
        return TERN_EXACT_SUMS;
    }
    if (is_one(candidate, "ROUND_WEIGHTS")) {
        return TERN_ROUNDED_WEIGHTS;
    }
    return t->exact_weights ? TERN_EXACT_WEIGHTS : TERN_ROUNDED_WEIGHTS;
}

/* ---- one launch
 * ---------------------------------------------------------------------------------------------------------------- */
struct check_run {
    struct tern_check_problem *p;
    const struct tern_candidate *candidate;
    struct tern_geometry geometry;
    void *function, *prologue;
    int64_t sms;
    enum tern_exactness exactness;
    struct tern_check_result *result;
    struct tern_error *err; /* of the harness */
    enum tern_status status;
};

/* Notes the first thing that is wrong with the candidate. */
static void __attribute__((format(printf, 3, 4)))
fail(struct check_run *run, enum tern_outcome outcome, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char text[sizeof run->result->detail];
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    run->result->outcome = outcome;
    tern_str_copy(run->result->detail, sizeof run->result->detail, text);
}

static bool good(const struct check_run *run) {
    return run->status == TERN_OK && run->result->outcome == TERN_OUTCOME_OK;
}

/* An error of the backend during a launch is the candidate's outcome. A GPU that refuses the launch has run nothing, and its
 * context still stands; the emulator runs the kernel within the launch. */
static void fail_launch(struct check_run *run, bool refused, const struct tern_error *err) {
    bool emulated = strcmp(run->p->backend->name, "emu") == 0;
    bool resources = err->status == TERN_MISSING || (emulated ? strstr(err->text, "OUT_OF_RESOURCES") != NULL : refused);
    fail(run, resources ? TERN_OUTCOME_RESOURCES : TERN_OUTCOME_FAULT, "%s", err->text);
    run->result->sticky = !resources && !emulated;
}

/* Geometry and arguments of one launch; nothing is launched here. */
static struct tern_launch make_launch(const struct check_run *run, const struct check_set *set,
                                      const struct check_buffer *x) {
    const struct tern_check_problem *p = run->p;
    struct tern_launch launch = {.function = run->function,
                                 .block = run->geometry.block,
                                 .cluster = run->geometry.cluster,
                                 .smem_bytes = run->geometry.smem_bytes,
                                 .prologue = run->prologue,
                                 .prologue_grid = run->geometry.prologue_grid,
                                 .prologue_block = run->geometry.prologue_block};
    memcpy(launch.grid, run->geometry.grid, sizeof launch.grid);
    launch.args = (struct tern_args){.x = check_buffer_data(x),
                                     .codes = check_buffer_data(&set->inputs[CHECK_CODES]),
                                     .scales = check_buffer_data(&set->inputs[CHECK_SCALES]),
                                     .zeros = check_buffer_data(&set->inputs[CHECK_ZEROS]),
                                     .bias = check_buffer_data(&set->inputs[CHECK_BIAS]),
                                     .y = check_buffer_data(&p->y),
                                     .workspace = check_buffer_data(&p->workspace),
                                     .m = p->shape.m,
                                     .n = p->shape.n,
                                     .k = p->shape.k,
                                     .groups = set->weights.groups,
                                     .group_size = tern_format_group_size(&p->format, p->shape.k),
                                     .multiprocessors = run->sms};
    return launch;
}

/* y's guards and the workspace's; y goes to p->got. */
static void read_outputs(struct check_run *run) {
    struct tern_check_problem *p = run->p;
    bool intact;
    int64_t offset = 0;
    run->status = check_buffer_read(p, &p->y, p->got, &intact, &offset, run->err);
    if (run->status == TERN_OK && !intact) {
        fail(run, TERN_OUTCOME_WRONG, "wrote outside y: byte %lld of %lld", (long long)offset, (long long)p->y.bytes);
    }
    if (good(run)) {
        run->status = check_buffer_read(p, &p->workspace, NULL, &intact, &offset, run->err);
        if (run->status == TERN_OK && !intact) {
            fail(run, TERN_OUTCOME_WRONG, "wrote outside the workspace: byte %lld of %lld", (long long)offset,
                 (long long)p->workspace.bytes);
        }
    }
}

/* Launches; of a dependent candidate the launch ahead brings x, and poison for what it may write, late. */
static enum tern_status launch_now(const struct check_run *run, const struct check_set *set, const struct check_buffer *x,
                                   uint32_t poison, struct tern_error *err) {
    const struct tern_check_problem *p = run->p;
    struct tern_launch launch = make_launch(run, set, x);
    if (!run->candidate->dependent) {
        return p->backend->launch(p->context, &launch, err);
    }
    const struct tern_late late[] = {
        {check_buffer_data(&p->late_x), launch.args.x, 0, (size_t)x->bytes},
        {check_buffer_data(&p->y), NULL, poison, (size_t)p->y.bytes},
        {check_buffer_data(&p->workspace), NULL, poison, (size_t)p->workspace.bytes / sizeof poison * sizeof poison}};
    launch.args.x = late[0].to;
    return p->backend->launch_behind(p->context, &launch, late, p->workspace.base != NULL ? 3 : 2, err);
}

/* Poisons y and workspace, launches, waits, reads y back. */
static void launch_untimed(struct check_run *run, const struct check_set *set, const struct check_buffer *x,
                           uint32_t poison) {
    struct tern_check_problem *p = run->p;
    struct tern_error launch_err = {0};
    run->status = check_buffer_write(p, &p->y, NULL, poison, run->err);
    if (run->status == TERN_OK) {
        run->status = check_buffer_write(p, &p->workspace, NULL, poison, run->err);
    }
    if (run->status == TERN_OK && run->candidate->dependent) {
        run->status = check_buffer_reserve(p, &p->late_x, x->bytes, 78, run->err);
    }
    if (run->status != TERN_OK) {
        return;
    }
    enum tern_status launched = launch_now(run, set, x, poison, &launch_err);
    bool refused = launched != TERN_OK;
    if (!refused) {
        launched = p->backend->synchronize(p->context, &launch_err);
    }
    run->result->launches++;
    if (launched != TERN_OK) {
        fail_launch(run, refused, &launch_err);
        return;
    }
    read_outputs(run);
}

static void launch_once(struct check_run *run, const struct check_set *set, const struct check_buffer *x, uint32_t poison) {
    int64_t start_ns = tern_clock_now_ns();
    launch_untimed(run, set, x, poison);
    run->result->device_seconds += (double)(tern_clock_now_ns() - start_ns) * 1e-9;
}

/* ---- judgements
 * ---------------------------------------------------------------------------------------------------------------- */
/* Every element against FP64; elements that still hold poison are named as such, since they are another kind of bug. */
static void judge_reference(struct check_run *run, const struct check_set *set) {
    struct tern_check_problem *p = run->p;
    struct tern_mismatch *mismatch = &run->result->mismatch;
    const struct tern_precision precision = {p->shape.k, p->type, run->exactness};
    if (tern_reference_compare(p->got, p->shape.n, p->rows, p->shape.m, p->cols, p->shape.n, set->ref, set->bound_scale,
                               &precision, mismatch)) {
        return;
    }
    int64_t unwritten = tern_guard_count_poison(p->got, p->shape.m * p->shape.n);
    if (unwritten > 0) {
        fail(run, TERN_OUTCOME_WRONG, "%lld elements of y were not written, first mismatch at row %lld, column %lld",
             (long long)unwritten, (long long)mismatch->row, (long long)mismatch->col);
    } else {
        fail(run, TERN_OUTCOME_WRONG,
             "row %lld, column %lld: got %.8g, expected %.8g, tolerance %.3g; %lld of %lld elements differ",
             (long long)mismatch->row, (long long)mismatch->col, mismatch->got, mismatch->expected, mismatch->tolerance,
             (long long)mismatch->count, (long long)mismatch->checked);
    }
}

/* Bitwise: the second run had the same inputs and another poison in y and workspace. */
static void judge_repeat(struct check_run *run) {
    struct tern_check_problem *p = run->p;
    for (int64_t i = 0; i < p->shape.m * p->shape.n; i++) {
        if (p->got[i] != p->first[i]) {
            bool unwritten = p->got[i] == (uint16_t)POISON_FINITE;
            fail(run, unwritten ? TERN_OUTCOME_WRONG : TERN_OUTCOME_NONDET,
                 "second run differs at row %lld, column %lld: %.8g, then %.8g%s", (long long)(i / p->shape.n),
                 (long long)(i % p->shape.n), tern_activation_to_double(p->type, p->first[i]),
                 tern_activation_to_double(p->type, p->got[i]), unwritten ? " (the poison)" : "");
            return;
        }
    }
}

/* Whether one is what y must be for a single weight: it, rounded once to the type of y. Of quantised x 1 times its scale of
 * 1 / 127 or 1 / 448 is off by an ulp of binary32 at most, which may fall on the other side of a tie. */
static bool reads_back(const struct check_run *run, double got, double weight) {
    const enum tern_activation type = run->p->type;
    if (run->exactness == TERN_EXACT_SUMS || run->exactness == TERN_E4M3_SUMS) {
        const struct tern_precision precision = {32, type, TERN_EXACT_SUMS};
        return fabs(got - weight) <= tern_reference_tolerance(weight, fabs(weight), &precision);
    }
    return got == tern_activation_to_double(type, tern_activation_from_double(type, weight));
}

/* y[i][j] is the single weight W[j][hot[i]], exact for every template. */
static void judge_one_hot(struct check_run *run) {
    struct tern_check_problem *p = run->p;
    for (int64_t i = 0; i < p->shape.m; i++) {
        for (int64_t j = 0; j < p->shape.n; j++) {
            double weight = check_weight(&p->sets[0], j, p->hot[i]);
            double got = tern_activation_to_double(p->type, p->got[i * p->shape.n + j]);
            if (!reads_back(run, got, weight)) {
                fail(run, TERN_OUTCOME_WRONG, "one-hot x reads weight W[%lld][%lld] as %.8g, expected %.8g", (long long)j,
                     (long long)p->hot[i], got, weight);
                return;
            }
        }
    }
}

/* Inputs must be as they were. */
static void judge_inputs(struct check_run *run) {
    struct tern_check_problem *p = run->p;
    for (int s = 0; s < 2 && good(run); s++) {
        for (int i = 0; i < CHECK_INPUTS && good(run); i++) {
            const struct check_buffer *buffer = &p->sets[s].inputs[i];
            if (buffer->base == NULL) {
                continue;
            }
            bool intact;
            int64_t offset = 0;
            uint8_t *now = tern_alloc((size_t)buffer->bytes);
            run->status = check_buffer_read(p, buffer, now, &intact, &offset, run->err);
            if (run->status == TERN_OK && !intact) {
                fail(run, TERN_OUTCOME_WRONG, "wrote outside %s: byte %lld of %lld", check_input_names[i], (long long)offset,
                     (long long)buffer->bytes);
            } else if (run->status == TERN_OK && memcmp(now, check_input_data(&p->sets[s], i), (size_t)buffer->bytes) != 0) {
                fail(run, TERN_OUTCOME_WRONG, "changed its input %s", check_input_names[i]);
            }
            free(now);
        }
    }
}

/* The four launches and their judgements, up to the first failure. */
static void run_all(struct check_run *run) {
    struct tern_check_problem *p = run->p;
    struct check_set *sets = p->sets;
    launch_once(run, &sets[0], &sets[0].inputs[CHECK_X], TERN_POISON_WORD);
    if (good(run)) {
        judge_reference(run, &sets[0]);
    }
    if (good(run)) {
        memcpy(p->first, p->got, (size_t)p->y.bytes);
        launch_once(run, &sets[0], &sets[0].inputs[CHECK_X], POISON_FINITE);
    }
    if (good(run)) {
        judge_repeat(run);
    }
    if (good(run)) {
        launch_once(run, &sets[1], &sets[1].inputs[CHECK_X], TERN_POISON_WORD);
    }
    if (good(run)) {
        judge_reference(run, &sets[1]);
    }
    if (good(run)) {
        launch_once(run, &sets[0], &p->one_hot_buffer, TERN_POISON_WORD);
    }
    if (good(run)) {
        judge_one_hot(run);
    }
    if (good(run)) {
        judge_inputs(run);
    }
}

enum tern_status tern_check_run(struct tern_check_problem *p, const struct tern_candidate *candidate, void *function,
                                void *prologue, int64_t sms, struct tern_check_result *result, struct tern_error *err) {
    *result = (struct tern_check_result){.outcome = TERN_OUTCOME_OK};
    struct check_run run = {.p = p, .candidate = candidate, .sms = sms, .result = result, .err = err};
    run.function = function;
    run.prologue = prologue;
    run.exactness = tern_check_exactness(candidate, p->type);
    struct tern_problem_shape shape = {
        .format = &p->format, .m = p->shape.m, .n = p->shape.n, .k = p->shape.k, .type = p->type};
    struct tern_error local = {0};
    if (tern_candidate_geometry(candidate, &shape, sms, &run.geometry, &local) != TERN_OK) {
        fail(&run, TERN_OUTCOME_INVALID, "%s", local.text);
        return TERN_OK;
    }
    check_buffer_release(p, &p->workspace); /* none, or exactly as large as this candidate asks for */
    if (run.geometry.workspace_bytes > 0 &&
        check_buffer_reserve(p, &p->workspace, run.geometry.workspace_bytes, 77, &local) != TERN_OK) {
        fail(&run, TERN_OUTCOME_RESOURCES, "workspace of %lld bytes: %s", (long long)run.geometry.workspace_bytes,
             local.text);
        return TERN_OK;
    }
    run_all(&run);
    if (run.status == TERN_OK && result->outcome != TERN_OUTCOME_OK && !result->sticky) {
        run.status = check_problem_upload(p, err); /* it may have damaged the inputs of the next one */
    }
    return run.status;
}
