/* Is a candidate right on the prepared layer? FP64 reference, guards and poison, a second set of activations, a bitwise repeat
 * on another copy of the weights, and inputs that stay as they were. Owns no memory; times nothing. */
#include "worker/gpu_session.h"

#include "core/clock.h"
#include "core/str.h"
#include "verify/guard.h"

#include <stdarg.h>
#include <stdio.h>

#define TIMED_INPUT  0 /* of layer.inputs: what is timed */
#define SECOND_INPUT 1

static void __attribute__((format(printf, 3, 4)))
fail(struct gpu_verdict *v, enum tern_outcome outcome, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(v->detail, sizeof v->detail, format, arguments);
    va_end(arguments);
    v->outcome = outcome;
}

/* Launches; of a dependent candidate the launch ahead brings x, and poison for what it may write, late. `refused` has the reason
 * if the launch is. */
static enum tern_status launch_now(struct gpu_session *s, const struct gpu_kernel *kernel, struct tern_launch *launch,
                                   bool *launched, struct tern_error *refused, struct tern_error *err) {
    struct gpu_layer *l = &s->layer;
    enum tern_status status = TERN_OK;
    const int64_t row_bytes = l->weights.k * 2;
    if (!kernel->candidate.dependent) {
        *launched = s->backend->launch(s->context, launch, refused) == TERN_OK;
        return TERN_OK;
    }
    if (!l->late_x)
        status = s->backend->alloc(s->context, (size_t)(l->m_max * row_bytes), &l->late_x, err);
    const struct tern_late late[] = {
        {l->late_x, launch->args.x, 0, (size_t)(launch->args.m * row_bytes)},
        {l->y.at, NULL, TERN_POISON_WORD, (size_t)(launch->args.m * l->weights.n * 2)},
        {l->workspace.at, NULL, TERN_POISON_WORD, (size_t)kernel->geometry.workspace_bytes / 4 * 4}};
    launch->args.x = l->late_x;
    *launched = status == TERN_OK && s->backend->launch_behind(s->context, launch, late, 3, refused) == TERN_OK;
    return status;
}

/* Launches once on poisoned y and workspace, with guards right behind what this candidate may write, and waits. */
static enum tern_status launch_poisoned(struct gpu_session *s, const struct gpu_kernel *kernel, int64_t m, int input,
                                        size_t copy, struct gpu_verdict *v, struct tern_error *err) {
    struct gpu_layer *l = &s->layer;
    struct tern_launch launch = gpu_kernel_launch(s, kernel, m, copy);
    struct tern_error local;
    bool launched = false;
    launch.args.x = l->inputs[input].x;
    enum tern_status status = gpu_guarded_poison(s, &l->y, m * l->weights.n * 2, err);
    if (status == TERN_OK)
        status = gpu_guarded_poison(s, &l->workspace, kernel->geometry.workspace_bytes, err);
    if (status == TERN_OK)
        status = s->backend->synchronize(s->context, err);
    if (status == TERN_OK)
        status = launch_now(s, kernel, &launch, &launched, &local, err);
    if (status != TERN_OK)
        return status;
    if (!launched) {
        fail(v, TERN_OUTCOME_RESOURCES, "%s", local.text); /* refused at launch; the context still stands */
    } else if (s->backend->synchronize(s->context, &local) != TERN_OK) {
        fail(v, TERN_OUTCOME_FAULT, "%s", local.text);
        s->sticky = true;
    }
    return TERN_OK;
}

/* Every element of y as it lies there against the FP64 reference; `when` goes in front of what is wrong. */
static enum tern_status judge(struct gpu_session *s, const struct gpu_kernel *kernel, int64_t m, int input, const char *when,
                              struct gpu_verdict *v, struct tern_error *err) {
    const struct gpu_layer *l = &s->layer;
    const int64_t n = l->weights.n;
    const struct tern_precision precision = {l->weights.k, l->type, kernel->exactness};
    struct tern_mismatch miss;
    int64_t poisoned = 0;
    enum tern_status status =
        tern_fixed_compare(s->fixed, l->y.at, l->inputs[input].y_ref[kernel->arithmetic],
                           l->inputs[input].bound_scale[kernel->arithmetic], m, n, &precision, &miss, &poisoned, err);
    if (status == TERN_OK && !(miss.checked == m * n && miss.count == 0))
        fail(v, TERN_OUTCOME_WRONG,
             "%s%lld of %lld differ (%lld unwritten), first at row %lld column %lld: got %g, expected %g +- %g", when,
             (long long)miss.count, (long long)(m * n), (long long)poisoned, (long long)miss.row, (long long)miss.col,
             miss.got, miss.expected, miss.tolerance);
    return status;
}

static enum tern_status check_guards(struct gpu_session *s, struct gpu_verdict *v, struct tern_error *err) {
    bool y_intact = true, workspace_intact = true;
    enum tern_status status = gpu_guarded_check(s, &s->layer.y, &y_intact, err);
    if (status == TERN_OK)
        status = gpu_guarded_check(s, &s->layer.workspace, &workspace_intact, err);
    if (status == TERN_OK && !(y_intact && workspace_intact))
        fail(v, TERN_OUTCOME_WRONG, "wrote outside %s", y_intact ? "the workspace" : "y");
    return status;
}

static enum tern_status inputs_checksum(struct gpu_session *s, const struct gpu_pack *pack, int64_t m, uint64_t *sum,
                                        struct tern_error *err) {
    const struct gpu_layer *l = &s->layer;
    const int64_t x_bytes = m * l->weights.k * 2;
    const struct tern_memory_range ranges[] = {{pack->weights, pack->stride * (int64_t)pack->copies},
                                               {l->inputs[TIMED_INPUT].x, x_bytes},
                                               {l->inputs[SECOND_INPUT].x, x_bytes}};
    return tern_fixed_checksum(s->fixed, ranges, sizeof ranges / sizeof ranges[0], sum, err);
}

/* What the inputs are before a candidate sees them; known from the last candidate of the same layout and M. */
static enum tern_status note_inputs(struct gpu_session *s, const struct gpu_pack *pack, int64_t m, struct tern_error *err) {
    struct gpu_checksum *known = &s->layer.checksums[pack - s->layer.packs];
    if (known->m == m)
        return TERN_OK;
    enum tern_status status = inputs_checksum(s, pack, m, &known->sum, err);
    known->m = status == TERN_OK ? m : 0;
    return status;
}

/* Weights or activations that a candidate wrote to would make all later ones wrong: the worker ends, a new one packs anew. */
static enum tern_status check_inputs(struct gpu_session *s, const struct gpu_pack *pack, int64_t m, struct gpu_verdict *v,
                                     struct tern_error *err) {
    uint64_t sum = 0;
    enum tern_status status = inputs_checksum(s, pack, m, &sum, err);
    if (status != TERN_OK || sum == s->layer.checksums[pack - s->layer.packs].sum)
        return status;
    s->sticky = true;
    if (v->outcome == TERN_OUTCOME_OK)
        fail(v, TERN_OUTCOME_WRONG, "changed its inputs");
    return TERN_OK;
}

static enum tern_status before(struct gpu_session *s, const struct gpu_kernel *kernel, int64_t m, struct gpu_verdict *v,
                               struct tern_error *err) {
    *v = (struct gpu_verdict){.outcome = TERN_OUTCOME_OK};
    enum tern_status status = note_inputs(s, kernel->pack, m, err);
    if (status == TERN_OK)
        status = launch_poisoned(s, kernel, m, SECOND_INPUT, 0, v, err);
    if (status == TERN_OK && v->outcome == TERN_OUTCOME_OK)
        status = judge(s, kernel, m, SECOND_INPUT, "", v, err);
    if (status == TERN_OK && !s->sticky)
        status = check_guards(s, v, err);
    if (status == TERN_OK && !s->sticky && v->outcome != TERN_OUTCOME_OK)
        status = check_inputs(s, kernel->pack, m, v, err);
    return status;
}

/* The same input once more, with the last copy of the weights: y must not change by a bit. */
static enum tern_status repeat(struct gpu_session *s, const struct gpu_kernel *kernel, int64_t m, struct gpu_verdict *v,
                               struct tern_error *err) {
    const struct tern_memory_range y = {s->layer.y.at, m * s->layer.weights.n * 2};
    uint64_t first = 0, second = 0;
    enum tern_status status = tern_fixed_checksum(s->fixed, &y, 1, &first, err);
    if (status == TERN_OK)
        status = launch_poisoned(s, kernel, m, TIMED_INPUT, kernel->pack->copies - 1, v, err);
    if (status != TERN_OK || v->outcome != TERN_OUTCOME_OK)
        return status;
    status = tern_fixed_checksum(s->fixed, &y, 1, &second, err);
    if (status != TERN_OK || first == second)
        return status;
    status = judge(s, kernel, m, TIMED_INPUT, "repeated: ", v, err);
    if (status == TERN_OK && v->outcome == TERN_OUTCOME_OK)
        fail(v, TERN_OUTCOME_NONDET, "within the bound, but two runs on the same input differ");
    return status;
}

static enum tern_status after(struct gpu_session *s, const struct gpu_kernel *kernel, int64_t m, bool in_place,
                              struct gpu_verdict *v, struct tern_error *err) {
    enum tern_status status = note_inputs(s, kernel->pack, m, err);
    *v = (struct gpu_verdict){.outcome = TERN_OUTCOME_OK};
    if (status == TERN_OK && !in_place)
        status = launch_poisoned(s, kernel, m, TIMED_INPUT, 0, v, err);
    if (status == TERN_OK && v->outcome == TERN_OUTCOME_OK)
        status = judge(s, kernel, m, TIMED_INPUT, in_place ? "behind the timed runs: " : "", v, err);
    if (status == TERN_OK && v->outcome == TERN_OUTCOME_OK)
        status = repeat(s, kernel, m, v, err);
    if (status == TERN_OK && !s->sticky)
        status = check_guards(s, v, err);
    return status == TERN_OK && !s->sticky ? check_inputs(s, kernel->pack, m, v, err) : status;
}

enum tern_status gpu_verify_before(struct gpu_session *s, const struct gpu_kernel *kernel, int64_t m, struct gpu_verdict *v,
                                   struct tern_error *err) {
    int64_t start_ns = tern_clock_now_ns();
    enum tern_status status = before(s, kernel, m, v, err);
    gpu_spent(s, TERN_GPU_VERIFICATION, start_ns);
    return status;
}

enum tern_status gpu_verify_after(struct gpu_session *s, const struct gpu_kernel *kernel, int64_t m, bool in_place,
                                  struct gpu_verdict *v, struct tern_error *err) {
    int64_t start_ns = tern_clock_now_ns();
    enum tern_status status = after(s, kernel, m, in_place, v, err);
    gpu_spent(s, TERN_GPU_VERIFICATION, start_ns);
    return status;
}
