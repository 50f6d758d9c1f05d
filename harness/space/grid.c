/* The parameter grid of a template: enumeration with counted exclusions, launch geometry, text and source form of
 * candidates. Owns nothing but the lists it fills. Must not compile, time or store anything. */
#include "space/grid.h"

#include "config/expr.h"
#include "core/result.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GRID_POINTS   1000000 /* more is a mistake in space.lua, not a search space */
#define MAX_BLOCK_THREADS 1024    /* of every CUDA architecture so far */
#define MAX_GRID_X        2147483647LL
#define MAX_GRID_YZ       65535
#define MAX_CLUSTER       8 /* the portable cluster size */
#define BF16_CC           80
#define ALL_PARAMS        UINT32_MAX /* a bit each */
#define ORDER_SAMPLES     64u        /* calls of valid() from which the order of the odometer comes */

/* ---- launch geometry ---- */

#define BINDING_COUNT (TERN_MAX_PARAMS + 8)

/* Parameters first, then the problem, so a parameter would hide a problem size of its name. Returns how many. */
static size_t bind_names(const struct tern_candidate *c, const struct tern_problem_shape *p, int64_t sms,
                         struct tern_binding bindings[BINDING_COUNT]) {
    size_t count = 0;
    for (; count < c->tmpl->param_count; count++)
        bindings[count] = (struct tern_binding){c->tmpl->params[count].name, c->values[count]};
    const struct tern_binding problem[] = {
        {"M", p->m},
        {"N", p->n},
        {"K", p->k},
        {"G", tern_format_groups(p->format, p->k)},
        {"GROUP", tern_format_group_size(p->format, p->k)},
        {"BITS", p->format->bits},
        {"HAS_ZEROS", p->format->sym ? 0 : 1},
        {"SMS", sms},
    };
    memcpy(&bindings[count], problem, sizeof problem);
    return count + sizeof problem / sizeof problem[0];
}

/* What all launch expressions of one candidate share. */
struct evaluation {
    const struct tern_candidate *candidate;
    struct tern_binding bindings[BINDING_COUNT];
    size_t count;
    struct tern_error *err;
};

/* One launch expression; `absent` is its value where space.lua leaves it out. Negative results are mistakes. */
static enum tern_status evaluate(const struct evaluation *e, const char *what, const char *text, int64_t absent,
                                 int64_t *value) {
    struct tern_expr *expr = NULL;
    *value = absent;
    if (!text[0])
        return TERN_OK;
    enum tern_status status = tern_expr_parse(text, &expr, e->err);
    if (!status)
        status = tern_expr_eval(expr, e->bindings, e->count, value, e->err);
    if (!status && *value < 0)
        status = tern_error_set(e->err, TERN_USAGE, "\"%s\" is negative: %lld", text, (long long)*value);
    tern_expr_free(expr);
    if (status) {
        char params[256];
        tern_candidate_text(e->candidate, params, sizeof params);
        tern_error_prefix(e->err, "template %s, launch.%s, %s", e->candidate->tmpl->name, what, params);
    }
    return status;
}

enum tern_status tern_candidate_geometry(const struct tern_candidate *c, const struct tern_problem_shape *problem,
                                         int64_t sms, struct tern_geometry *out, struct tern_error *err) {
    static const char *const axes[3] = {"grid[1]", "grid[2]", "grid[3]"};
    const struct tern_template *t = c->tmpl;
    struct evaluation e = {.candidate = c, .err = err};
    struct tern_geometry g = {0};
    enum tern_status status = TERN_OK;
    e.count = bind_names(c, problem, sms, e.bindings);
    for (int i = 0; i < 3 && !status; i++)
        status = evaluate(&e, axes[i], t->grid[i], 1, &g.grid[i]);
    const struct {
        const char *what, *text;
        int64_t absent, *value;
    } rest[] = {
        {"block", t->block, 0, &g.block},
        {"smem", t->smem, 0, &g.smem_bytes},
        {"workspace", t->workspace, 0, &g.workspace_bytes},
        {"cluster", t->cluster, 1, &g.cluster},
        {"busiest", t->busiest, 0, &g.busiest},
        {"prologue.grid", t->prologue_grid, 0, &g.prologue_grid},
        {"prologue.block", t->prologue_block, 0, &g.prologue_block},
    };
    for (size_t i = 0; i < sizeof rest / sizeof rest[0] && !status; i++)
        status = evaluate(&e, rest[i].what, rest[i].text, rest[i].absent, rest[i].value);
    if (problem->m == 0) /* nothing to compute: the caller launches nothing */
        g.grid[0] = g.grid[1] = g.grid[2] = 0;
    if (status)
        g = (struct tern_geometry){0};
    *out = g;
    return status;
}

/* ---- exclusions ---- */

/* Adds `points` to a reason. `why` may be NULL when nobody asks. */
static void exclude(struct tern_exclusions *why, const char *reason, int64_t points) {
    if (!why)
        return;
    size_t capacity = sizeof why->items / sizeof why->items[0];
    for (size_t i = 0; i < why->count; i++) {
        if (strncmp(why->items[i].reason, reason, sizeof why->items[i].reason - 1) == 0) {
            why->items[i].count += points;
            return;
        }
    }
    if (why->count == capacity) {
        tern_str_copy(why->items[capacity - 1].reason, sizeof why->items[0].reason, "other reasons");
        why->items[capacity - 1].count += points;
        return;
    }
    tern_str_copy(why->items[why->count].reason, sizeof why->items[0].reason, reason);
    why->items[why->count++].count = points;
}

/* Why the template as a whole cannot serve the problem on this GPU; "" if it can. */
static void whole_template_reason(const struct tern_template *t, const struct tern_problem_shape *p,
                                  const struct tern_gpu *gpu, char *reason, size_t size) {
    bool bits = false;
    for (size_t i = 0; i < sizeof t->bits / sizeof t->bits[0] && t->bits[i]; i++)
        bits = bits || t->bits[i] == p->format->bits;
    reason[0] = '\0';
    if (!t->types[p->type])
        tern_str_format(reason, size, "%s activations are not supported", tern_activation_name(p->type));
    else if (p->type == TERN_BF16 && gpu->cc < BF16_CC)
        tern_str_format(reason, size, "bf16 needs compute capability %d.%d", BF16_CC / 10, BF16_CC % 10);
    else if (!t->families[p->format->family])
        tern_str_format(reason, size, "%s weights are not supported", tern_family_name(p->format->family));
    else if (!bits)
        tern_str_format(reason, size, "%d-bit weights are not supported", p->format->bits);
    else if (gpu->cc < t->min_cc)
        tern_str_format(reason, size, "needs compute capability %d.%d", t->min_cc / 10, t->min_cc % 10);
    else if (p->m < t->m_min || p->m > t->m_max)
        tern_str_format(reason, size, "M outside %lld..%lld", (long long)t->m_min, (long long)t->m_max);
}

/* Hardware limits known before compiling; NULL if the geometry is within all of them. Reasons carry no numbers of the
 * candidate, so that they pool. */
static const char *hardware_reason(const struct tern_geometry *g, const struct tern_problem_shape *p,
                                   const struct tern_gpu *gpu) {
    if (g->block < 1 || g->block > MAX_BLOCK_THREADS || (gpu->threads_sm && g->block > gpu->threads_sm))
        return "threads a block outside 1..1024";
    if (g->smem_bytes > gpu->smem_block_bytes)
        return "more shared memory than a block may have";
    if (g->workspace_bytes > gpu->memory_bytes)
        return "more workspace than device memory";
    if (g->cluster < 1 || g->cluster > MAX_CLUSTER || (g->cluster > 1 && gpu->cc < 90))
        return "cluster size not possible on this architecture";
    if (p->m == 0)
        return NULL;
    if (g->grid[0] < 1 || g->grid[1] < 1 || g->grid[2] < 1)
        return "empty grid";
    if (g->grid[0] > MAX_GRID_X || g->grid[1] > MAX_GRID_YZ || g->grid[2] > MAX_GRID_YZ)
        return "grid larger than the hardware's";
    return g->grid[0] % g->cluster ? "grid not a multiple of the cluster" : NULL;
}

/* ---- enumeration ---- */

/* A candidate is a plain value: the list holds copies, the template stays with its owner. */
static void add_candidate(struct tern_candidates *list, const struct tern_candidate *c) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 64;
        list->items = tern_realloc(list->items, list->capacity * sizeof *list->items);
    }
    list->items[list->count++] = *c;
}

/* Appends the candidate, or says why not (reason not empty). *read: see tern_template_valid. */
static enum tern_status consider(const struct tern_candidate *c, const struct tern_problem_shape *problem,
                                 const struct tern_gpu *gpu, struct tern_candidates *out, char *reason, size_t reason_size,
                                 uint32_t *read, struct tern_error *err) {
    bool valid = true;
    struct tern_geometry geometry;
    enum tern_status status = TERN_OK;
    reason[0] = '\0';
    *read = ALL_PARAMS;
    if (c->tmpl->lua)
        status = tern_template_valid(c->tmpl, c->values, problem, gpu, &valid, read, reason, reason_size, err);
    if (!status && !valid && !reason[0])
        tern_str_copy(reason, reason_size, "excluded by the template without a reason");
    if (status || !valid)
        return status;
    *read = ALL_PARAMS; /* what follows looks at all of them */
    status = tern_candidate_geometry(c, problem, gpu->sms, &geometry, err);
    if (status)
        return status;
    const char *limit = hardware_reason(&geometry, problem, gpu);
    if (limit)
        tern_str_copy(reason, reason_size, limit);
    else
        add_candidate(out, c);
    return TERN_OK;
}

/* The grid as an odometer, last place fastest. */
struct odometer {
    const struct tern_template *tmpl;
    size_t order[TERN_MAX_PARAMS]; /* the parameter in each place */
    size_t digits[TERN_MAX_PARAMS];
    size_t fallback
        [TERN_MAX_PARAMS]; /* digits of the default candidate, which is taken out of turn; [0] SIZE_MAX: not on the grid */
};

static const struct tern_param *param_at(const struct odometer *o, size_t place) {
    return &o->tmpl->params[o->order[place]];
}

/* How many digits a refusal that looked at `read` depends on. */
static size_t depth(const struct odometer *o, uint32_t read) {
    size_t places = o->tmpl->param_count;
    while (places > 0 && !(read >> o->order[places - 1] & 1u))
        places--;
    return places;
}

/* Place of digits among the points that share their first `prefix` digits. */
static int64_t place_behind(const struct odometer *o, const size_t *digits, size_t prefix) {
    int64_t place = 0;
    for (size_t i = prefix; i < o->tmpl->param_count; i++)
        place = place * (int64_t)param_at(o, i)->value_count + (int64_t)digits[i];
    return place;
}

/* Points from the present one on, itself included, that share its first `prefix` digits; the default is counted elsewhere. */
static int64_t points_left(const struct odometer *o, size_t prefix) {
    int64_t points = 1, here = place_behind(o, o->digits, prefix);
    for (size_t i = prefix; i < o->tmpl->param_count; i++)
        points *= (int64_t)param_at(o, i)->value_count;
    bool holds_default = memcmp(o->digits, o->fallback, prefix * sizeof o->digits[0]) == 0 && o->fallback[0] != SIZE_MAX &&
                         place_behind(o, o->fallback, prefix) >= here;
    return points - here - holds_default;
}

/* Steps to the next point with another value among the first `prefix` digits; false after the last. */
static bool next_point(struct odometer *o, size_t prefix) {
    for (size_t i = o->tmpl->param_count; i-- > 0;) {
        if (i < prefix && ++o->digits[i] < param_at(o, i)->value_count)
            return true;
        o->digits[i] = 0;
    }
    return false;
}

static void find_fallback(struct odometer *o) {
    for (size_t i = 0; i < o->tmpl->param_count; i++) {
        const struct tern_param *p = param_at(o, i);
        while (o->fallback[i] < p->value_count && p->values[o->fallback[i]] != p->fallback)
            o->fallback[i]++;
        if (o->fallback[i] == p->value_count) {
            o->fallback[0] = SIZE_MAX;
            return;
        }
    }
}

/* Puts what valid() looks at most often into the first places: the less a refusal has looked at, the more points it spares. The odometer is asked about
 * points all over the grid, the same ones each time. */
static enum tern_status order_places(struct odometer *o, const struct tern_problem_shape *problem,
                                     const struct tern_gpu *gpu, struct tern_error *err) {
    const struct tern_template *t = o->tmpl;
    int64_t values[TERN_MAX_PARAMS];
    unsigned reads[TERN_MAX_PARAMS] = {0};
    enum tern_status status = TERN_OK;
    for (unsigned sample = 0; sample < ORDER_SAMPLES && t->lua && !status; sample++) {
        char reason[120];
        bool valid;
        uint32_t read = 0;
        for (size_t i = 0; i < t->param_count; i++)
            values[i] = t->params[i].values[(sample * 2654435761u >> (8 + i % 16)) % t->params[i].value_count];
        status = tern_template_valid(t, values, problem, gpu, &valid, &read, reason, sizeof reason, err);
        for (size_t i = 0; i < t->param_count; i++)
            reads[i] += read >> i & 1u;
    }
    for (size_t i = 0; i < t->param_count; i++) { /* a parameter goes before those that were read less */
        size_t place = i;
        for (; place > 0 && reads[o->order[place - 1]] < reads[i]; place--)
            o->order[place] = o->order[place - 1];
        o->order[place] = i;
    }
    return status;
}

/* The order of a grid whose last declared parameter changes fastest. */
static int compare_candidates(const void *a, const void *b) {
    const struct tern_candidate *left = a, *right = b;
    size_t i = 0;
    while (i < left->tmpl->param_count && left->values[i] == right->values[i])
        i++;
    if (i == left->tmpl->param_count)
        return 0;
    const int64_t *value = left->tmpl->params[i].values;
    while (*value != left->values[i] && *value != right->values[i])
        value++;
    return *value == left->values[i] ? -1 : 1;
}

/* Size of the whole grid; the cap keeps the product from overflowing as well. */
static enum tern_status count_points(const struct tern_template *t, int64_t *points, struct tern_error *err) {
    *points = 1;
    for (size_t i = 0; i < t->param_count; i++) {
        *points *= (int64_t)t->params[i].value_count;
        if (*points > MAX_GRID_POINTS)
            return tern_error_set(err, TERN_USAGE, "template %s: its parameters span more than %d points", t->name,
                                  MAX_GRID_POINTS);
        if (*points == 0)
            return tern_error_set(err, TERN_USAGE, "template %s: parameter %s has no values", t->name, t->params[i].name);
    }
    return TERN_OK;
}

enum tern_status tern_grid_enumerate(const struct tern_template *t, const struct tern_problem_shape *problem,
                                     const struct tern_gpu *gpu, struct tern_candidates *out, struct tern_exclusions *why,
                                     struct tern_error *err) {
    char reason[120];
    int64_t points;
    uint32_t read;
    struct tern_candidate fallback = {.tmpl = t, .dependent = problem->dependent && t->dependent}, c = fallback;
    struct odometer o = {.tmpl = t};
    enum tern_status status = count_points(t, &points, err);
    if (status)
        return status;
    whole_template_reason(t, problem, gpu, reason, sizeof reason);
    if (reason[0]) {
        exclude(why, reason, points);
        return TERN_OK;
    }
    for (size_t i = 0; i < t->param_count; i++)
        fallback.values[i] = t->params[i].fallback;
    /* The default takes part in every search, so it comes first and only once. */
    status = consider(&fallback, problem, gpu, out, reason, sizeof reason, &read, err);
    if (!status && reason[0])
        exclude(why, reason, 1);
    if (!status)
        status = order_places(&o, problem, gpu, err);
    find_fallback(&o);
    size_t first = out->count, prefix;
    do {
        for (size_t i = 0; i < t->param_count; i++)
            c.values[o.order[i]] = param_at(&o, i)->values[o.digits[i]];
        prefix = t->param_count;
        if (status || tern_candidate_equal(&c, &fallback))
            continue;
        status = consider(&c, problem, gpu, out, reason, sizeof reason, &read, err);
        /* A refusal that looked at the first places only holds for all values of the rest: the grid skips those points. */
        if (status || !reason[0])
            continue;
        prefix = depth(&o, read);
        exclude(why, reason, points_left(&o, prefix));
    } while (!status && next_point(&o, prefix));
    if (out->count > first)
        qsort(out->items + first, out->count - first, sizeof *out->items, compare_candidates);
    return status;
}

void tern_candidates_free(struct tern_candidates *list) {
    free(list->items);
    *list = (struct tern_candidates){0};
}

/* ---- text forms ---- */

void tern_candidate_text(const struct tern_candidate *c, char *out, size_t size) {
    struct tern_str text = {0};
    for (size_t i = 0; i < c->tmpl->param_count; i++)
        tern_str_printf(&text, "%s%s=%lld", i ? " " : "", c->tmpl->params[i].name, (long long)c->values[i]);
    if (c->dependent)
        tern_str_printf(&text, "%s" TERN_DEPENDENT_WORD, c->tmpl->param_count ? " " : "");
    tern_str_copy(out, size, tern_str_text(&text));
    tern_str_free(&text);
}

/* Fills the error, with a suggestion from the template's own names. */
static enum tern_status unknown_parameter(const struct tern_template *t, const char *name, struct tern_error *err) {
    struct tern_strs names = {0};
    for (size_t i = 0; i < t->param_count; i++)
        tern_strs_add(&names, t->params[i].name);
    const char *near = tern_str_suggest(name, &names);
    tern_error_set(err, TERN_USAGE, "template %s has no parameter \"%s\"", t->name, name);
    if (near)
        tern_error_hint(err, "did you mean %s?", near);
    tern_strs_free(&names);
    return TERN_USAGE;
}

/* "NAME=value" into its place; a value outside the parameter's list is refused: the kernel was not written for it. */
static enum tern_status parse_assignment(const struct tern_template *t, char *text, struct tern_candidate *c,
                                         bool seen[TERN_MAX_PARAMS], struct tern_error *err) {
    char *equals = strchr(text, '=');
    int64_t value;
    if (!equals || !tern_str_parse_int(equals + 1, INT64_MIN, INT64_MAX, &value))
        return tern_error_set(err, TERN_USAGE, "template %s: \"%s\" is not NAME=integer", t->name, text);
    *equals = '\0';
    if (t->dependent && !c->dependent && value == 1 && strcmp(text, "DEPENDENT") == 0) {
        c->dependent = true;
        return TERN_OK;
    }
    for (size_t i = 0; i < t->param_count; i++) {
        const struct tern_param *p = &t->params[i];
        if (strcmp(p->name, text) != 0)
            continue;
        if (seen[i])
            return tern_error_set(err, TERN_USAGE, "template %s: %s is given twice", t->name, text);
        /* The fallback is legal even if a list leaves it out. */
        bool listed = value == p->fallback;
        for (size_t v = 0; v < p->value_count; v++)
            listed = listed || p->values[v] == value;
        if (!listed)
            return tern_error_set(err, TERN_USAGE, "template %s: %s=%lld is not among its values", t->name, text,
                                  (long long)value);
        seen[i] = true;
        c->values[i] = value;
        return TERN_OK;
    }
    return unknown_parameter(t, text, err);
}

enum tern_status tern_candidate_parse(const struct tern_template *t, const char *text, struct tern_candidate *c,
                                      struct tern_error *err) {
    struct tern_strs parts = {0};
    struct tern_candidate parsed = {.tmpl = t};
    bool seen[TERN_MAX_PARAMS] = {false};
    enum tern_status status = TERN_OK;
    tern_strs_split(&parts, text, ' ');
    for (size_t i = 0; i < parts.count && !status; i++)
        status = parse_assignment(t, parts.items[i], &parsed, seen, err);
    for (size_t i = 0; i < t->param_count && !status; i++)
        if (!seen[i])
            status =
                tern_error_set(err, TERN_USAGE, "template %s: no value for %s in \"%s\"", t->name, t->params[i].name, text);
    tern_strs_free(&parts);
    if (!status)
        *c = parsed;
    return status;
}

bool tern_candidate_is_default(const struct tern_candidate *c) {
    for (size_t i = 0; i < c->tmpl->param_count; i++)
        if (c->values[i] != c->tmpl->params[i].fallback)
            return false;
    return true;
}

bool tern_candidate_equal(const struct tern_candidate *a, const struct tern_candidate *b) {
    if (a->dependent != b->dependent || (a->tmpl != b->tmpl && strcmp(a->tmpl->name, b->tmpl->name) != 0))
        return false;
    return memcmp(a->values, b->values, a->tmpl->param_count * sizeof a->values[0]) == 0;
}

void tern_candidate_preamble(const struct tern_candidate *c, const struct tern_format *format, enum tern_activation type,
                             struct tern_str *out) {
    for (size_t i = 0; i < c->tmpl->param_count; i++) {
        bool wide = c->values[i] > INT_MAX || c->values[i] < -INT_MAX;
        tern_str_printf(out, "constexpr %s %s = %lld;\n", wide ? "long long" : "int", c->tmpl->params[i].name,
                        (long long)c->values[i]);
    }
    tern_str_printf(out, "constexpr int BITS = %d;\n", format->bits);
    tern_str_printf(out, "constexpr int ZERO = %d;\n", format->sym ? format->zero : 0);
    tern_str_printf(out, "constexpr int HAS_ZEROS = %d;\n", format->sym ? 0 : 1);
    tern_str_printf(out, "constexpr int GROUP = %lld;\n", (long long)(format->group > 0 ? format->group : 0));
    tern_str_printf(out, "constexpr int BF16 = %d;\n", type == TERN_BF16);
    tern_str_printf(out, "constexpr int E4M3 = %d;\n", type == TERN_E4M3);
    tern_str_printf(out, "constexpr int DEPENDENT = %d;\n", c->dependent);
    tern_str_printf(out, "#line 1 \"templates/%s/kernel.cu\"\n", c->tmpl->name);
}
