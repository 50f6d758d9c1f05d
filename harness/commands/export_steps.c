/* What kernels are expected to take at sizes between tuned M, from their recorded times there and the rounds of their launches, and
 * the steps of an exported table that follow. See export_times.h. */
#include "commands/export_times.h"

#include "commands/dispatch.h"
#include "core/str.h"
#include "space/between.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Times foretold for wgmma-tile on an H200 (docs/dispatch.md) were 4.4 % off (rms) between two sizes where the kernel had been tried,
 * 5.1 % on one side of them. */
#define OVERHEAD_ROUNDS 0.5  /* what does not go with the rounds: launch, first tile, last sums */
#define OVERHEAD_US     3.0  /* of it most, for another N: rounds may be long */
#define ROW_BLOCK       64   /* rows of W */
#define DOUBT           1.05 /* a time from one side only has to be that much better */
#define WORTH_A_KERNEL  0.97 /* what a runner-up has to take at most, over the table's best kernel */
#define REFUSED         1.2  /* what an N costs that a kernel's template refuses, and the row's not */
#define REFUSED_WORK    1.5  /* the same where its work is the busiest block's, which falls faster with N */
#define FARTHEST        16   /* times the N and K of a row: its last step and band serve what lies beyond */

/* A kernel that the table holds, and what is known of it at the rows of the group. */
struct known {
    const struct tern_result *kernel;
    struct tern_dispatch_grid *grid;
    struct tern_rules *rules;
    double refused;         /* times as long where they newly refuse it */
    double *us;             /* NAN: not tried there */
    int64_t *rounds, *work; /* 0: no launch */
};

struct tern_outlook {
    const struct tern_selection_group *group;
    const struct tern_dispatch_limits *limits;
    struct known *kernels;
    size_t count;
};

static bool holds(const struct tern_outlook *o, const struct tern_result *kernel) {
    for (size_t i = 0; i < o->count; i++)
        if (!strcmp(o->kernels[i].kernel->build_key, kernel->build_key))
            return true;
    return false;
}

static void add_kernel(struct tern_outlook *o, const struct tern_times *times, const struct tern_results *rows,
                       const struct tern_result *kernel) {
    const struct tern_selection_group *group = o->group;
    struct known *k = &o->kernels[o->count];
    if (strcmp(kernel->op, group->op) || strcmp(kernel->format, group->format) || holds(o, kernel))
        return;
    *k = (struct known){.kernel = kernel};
    if (tern_dispatch_grid_open(kernel, tern_times_busiest(times, kernel), &k->grid,
                                NULL)) { /* rows of a database that was written by another version */
        tern_dispatch_grid_free(k->grid);
        return;
    }
    k->rules = tern_times_rules(times, kernel);
    k->refused = tern_times_busiest(times, kernel)[0] ? REFUSED_WORK : REFUSED;
    k->us = tern_alloc(group->count * sizeof *k->us);
    k->rounds = tern_alloc(group->count * sizeof *k->rounds);
    k->work = tern_alloc(group->count * sizeof *k->work);
    for (size_t i = 0; i < group->count; i++) {
        k->us[i] = tern_times_us(times, rows, (size_t)(group->rows[i] - rows->rows), kernel);
        k->rounds[i] = tern_dispatch_rounds(k->grid, group->rows[i]->m, group->n, group->k, o->limits->sms);
        k->work[i] = tern_dispatch_work(k->grid, group->rows[i]->m, group->n, group->k, o->limits->sms);
    }
    o->count++;
}

struct tern_outlook *tern_outlook_open(const struct tern_times *times, const struct tern_selection_table *table,
                                       const struct tern_selection_group *group,
                                       const struct tern_export_stand_in *stand_ins,
                                       const struct tern_dispatch_limits *limits) {
    struct tern_outlook *o = tern_alloc_zero(1, sizeof *o);
    const struct tern_results *rows = table->results;
    *o = (struct tern_outlook){group, limits, tern_alloc_zero(rows->count + 1, sizeof *o->kernels), 0};
    for (size_t g = 0; g < table->count; g++)
        for (size_t i = 0; i < table->groups[g].count; i++) {
            const struct tern_result *row = table->groups[g].rows[i];
            const struct tern_export_stand_in *other = stand_ins ? &stand_ins[row - rows->rows] : NULL;
            add_kernel(o, times, rows, other && other->kernel ? other->kernel : row);
        }
    for (size_t i = 0; i < rows->count; i++) /* behind the winners: one that wins elsewhere is known as that */
        if (rows->rows[i].runner_up && rows->rows[i].template_name[0])
            add_kernel(o, times, rows, &rows->rows[i]);
    return o;
}

void tern_outlook_free(struct tern_outlook *o) {
    if (!o)
        return;
    for (size_t i = 0; i < o->count; i++) {
        tern_dispatch_grid_free(o->kernels[i].grid);
        tern_rules_free(o->kernels[i].rules);
        free(o->kernels[i].us);
        free(o->kernels[i].rounds);
        free(o->kernels[i].work);
    }
    free(o->kernels);
    free(o);
}

static bool within_half_an_octave(int64_t a, int64_t b) {
    return 2 * a <= 3 * b && 2 * b <= 3 * a;
}

/* At m, a launch of so many rounds, by what the kernel took at row i alone: less than half an octave away along the rounds; at any distance no longer than for more rows. */
static double one_sided_us(const struct tern_outlook *o, const struct known *k, size_t i, int64_t m, int64_t rounds) {
    const int64_t tried = o->group->rows[i]->m;
    const double most = tried > m ? k->us[i] : INFINITY;
    if (!within_half_an_octave(tried, m))
        return most < INFINITY ? most : NAN;
    if (rounds == k->rounds[i])
        return k->us[i];
    return fmin(most, DOUBT * k->us[i] * ((double)rounds + OVERHEAD_ROUNDS) / ((double)k->rounds[i] + OVERHEAD_ROUNDS));
}

/* By the nearest sizes on both sides where it was tried; by one of them if the other is missing. NAN: nothing is expected. */
static double expected_us(const struct tern_outlook *o, const struct known *k, int64_t m) {
    const int64_t rounds = tern_dispatch_rounds(k->grid, m, o->group->n, o->group->k, o->limits->sms);
    size_t low = SIZE_MAX, high = SIZE_MAX;
    if (rounds == 0 || m < k->kernel->min_m || m > k->kernel->max_m)
        return NAN;
    for (size_t i = 0; i < o->group->count; i++) {
        if (!(k->us[i] > 0) || k->rounds[i] == 0)
            continue;
        if (o->group->rows[i]->m < m)
            low = i;
        else if (high == SIZE_MAX)
            high = i;
    }
    if (low != SIZE_MAX && high != SIZE_MAX) {
        const double span = (double)(k->rounds[high] - k->rounds[low]), part = (double)(rounds - k->rounds[low]);
        return span > 0 ? k->us[low] + (k->us[high] - k->us[low]) * fmin(fmax(part / span, 0), 1) : k->us[high];
    }
    const size_t one = high != SIZE_MAX ? high : low;
    return one != SIZE_MAX ? one_sided_us(o, k, one, m, rounds) : NAN;
}

const struct tern_result *tern_outlook_best(const struct tern_outlook *o, const char *layout, int64_t m, double *us) {
    const struct tern_result *best = NULL;
    *us = INFINITY;
    for (size_t i = 0; i < o->count; i++) {
        const struct tern_result *kernel = o->kernels[i].kernel;
        const bool counts = !kernel->runner_up && !strcmp(kernel->layout, layout);
        const double expected = counts ? expected_us(o, &o->kernels[i], m) : NAN;
        if (expected < *us) { /* the first of equals: groups are sorted */
            *us = expected;
            best = kernel;
        }
    }
    return best;
}

/* ---- steps ---- */

static void add_step(struct tern_selection_steps *steps, int64_t size, const struct tern_result *kernel) {
    if (steps->count && steps->items[steps->count - 1].kernel == kernel) {
        steps->items[steps->count - 1].size = size;
        return;
    }
    steps->items = tern_realloc(steps->items, (steps->count + 1) * sizeof *steps->items);
    steps->items[steps->count++] = (struct tern_selection_step){size, kernel};
}

/* Between two rows that read the same packed weights. Ends where nothing is expected of any kernel: the rule without steps answers. */
static void fill_between(const struct tern_outlook *o, const struct tern_result *low, const struct tern_result *high,
                         struct tern_selection_steps *steps) {
    if (strcmp(low->layout, high->layout))
        return;
    for (int64_t m = low->m; m + 1 < high->m;) {
        double us;
        m = tern_between_step(m);
        if (m >= high->m)
            m = high->m - 1;
        const struct tern_result *kernel = tern_outlook_best(o, high->layout, m, &us);
        if (!kernel)
            return;
        add_step(steps, m, kernel);
    }
}

/* The row that tells most of a kernel at row i: that one, or if it was not tried there the next with more M, as it takes no longer for fewer.
 * The number of rows: none. */
static size_t telling_row(const struct tern_outlook *o, const struct known *k, size_t i) {
    size_t j = i;
    if (o->group->rows[i]->m < k->kernel->min_m || strcmp(k->kernel->layout, o->group->rows[i]->layout))
        return o->group->count;
    while (j < o->group->count && (!(k->us[j] > 0) || k->work[j] == 0))
        j++;
    return j;
}

/* What a kernel is expected to take at row i if W had n rows: all but the overhead goes with its work. */
static double beside_us(const struct tern_outlook *o, const struct known *k, size_t i, int64_t n) {
    const size_t j = telling_row(o, k, i);
    if (j == o->group->count)
        return INFINITY;
    const struct tern_result *row = o->group->rows[j];
    const int64_t work = tern_dispatch_work(k->grid, row->m, n, row->k, o->limits->sms);
    const double overhead = fmin(OVERHEAD_US, k->us[j] * OVERHEAD_ROUNDS / ((double)k->rounds[j] + OVERHEAD_ROUNDS));
    return work ? overhead + (k->us[j] - overhead) * (double)work / (double)k->work[j] : INFINITY;
}

/* Whether the kernel leaves at that N what its template made it for: its time at row i does not tell what that costs. */
static bool newly_refused(const struct tern_outlook *o, const struct known *k, size_t i, int64_t n) {
    const struct tern_result *row = o->group->rows[i];
    return !tern_rules_take(k->rules, row->m, n, row->k) && tern_rules_take(k->rules, row->m, row->n, row->k);
}

/* The next N at which rounds may be others, or K at which a kernel may not be launched: a row block of 64 more, a sixty-fourth of an octave
 * where that is more. */
static int64_t next_size(int64_t size) {
    int64_t step = ROW_BLOCK;
    while (step * 128 <= size)
        step *= 2;
    return (size / step + 1) * step;
}

/* What each kernel of an outlook is expected to take beside a row, for one N after the other. */
struct beside {
    const struct tern_outlook *o;
    size_t row;
    int64_t *n;
    double *us;   /* [N][kernel] */
    bool *judged; /* the same: its template was asked about that N, which takes time, so only of kernels that would win */
    size_t count;
};

static struct beside open_beside(const struct tern_outlook *o, size_t i) {
    struct beside b = {o, i, NULL, NULL, NULL, 0};
    const int64_t first = next_size(o->group->n / FARTHEST - 1), last = o->group->n * FARTHEST;
    for (int64_t n = first; n <= last; n = next_size(n))
        b.count++;
    b.n = tern_alloc((b.count + 1) * sizeof *b.n);
    b.us = tern_alloc((b.count * o->count + 1) * sizeof *b.us);
    b.judged = tern_alloc_zero(b.count * o->count + 1, sizeof *b.judged);
    b.n[0] = first;
    for (size_t s = 0; s < b.count; s++) {
        b.n[s + 1] = next_size(b.n[s]);
        for (size_t j = 0; j < o->count; j++)
            b.us[s * o->count + j] = beside_us(o, &o->kernels[j], i, b.n[s]);
    }
    return b;
}

static void close_beside(struct beside *b) {
    free(b->n);
    free(b->us);
    free(b->judged);
}

/* Of the kernels that `in` holds the one that is expected to be the fastest at the s-th N, by what is known so far; the number of
 * kernels where nothing is. */
static size_t least_beside(const struct beside *b, size_t s, const bool *in) {
    const struct tern_outlook *o = b->o;
    const double *us = &b->us[s * o->count];
    size_t best = o->count;
    for (size_t j = 0; j < o->count; j++) {
        const bool new = best < o->count && o->kernels[j].kernel->runner_up && !o->kernels[best].kernel->runner_up;
        const double least = best == o->count ? INFINITY : new ? WORTH_A_KERNEL *us[best] : us[best];
        /* The first of equals: groups are sorted, and runners-up come last. */
        if (in[j] && us[j] < least)
            best = j;
    }
    return best;
}

static const struct tern_result *best_beside(struct beside *b, size_t s, const bool *in) {
    const struct tern_outlook *o = b->o;
    for (;;) {
        const size_t best = least_beside(b, s, in), at = s * o->count + best;
        if (best == o->count)
            return NULL;
        if (b->judged[at])
            return o->kernels[best].kernel;
        b->judged[at] = true;
        if (newly_refused(o, &o->kernels[best], b->row, b->n[s]))
            b->us[at] *= o->kernels[best].refused;
    }
}

static struct tern_selection_steps steps_beside(struct beside *b, const bool *in) {
    struct tern_selection_steps steps = {NULL, 0};
    for (size_t s = 0; s < b->count; s++) {
        const struct tern_result *best = best_beside(b, s, in);
        if (best)
            add_step(&steps, b->n[s], best);
    }
    return steps;
}

/* Which of the kernels of which something is known at row i have a launch there if its K were k. */
static void launched(const struct tern_outlook *o, size_t i, int64_t k, bool *in) {
    for (size_t j = 0; j < o->count; j++)
        in[j] = telling_row(o, &o->kernels[j], i) < o->group->count &&
                tern_dispatch_launches(o->kernels[j].grid, o->group->rows[i]->m, o->group->n, k, o->limits);
}

static bool same_steps(const struct tern_selection_steps *a, const struct tern_selection_steps *b) {
    bool same = a->count == b->count;
    for (size_t i = 0; i < a->count && same; i++)
        same = a->items[i].size == b->items[i].size && a->items[i].kernel == b->items[i].kernel;
    return same;
}

/* Takes the steps. Where they are those of the band before, that one reaches on. False: there are none, as no kernel can be launched; such K
 * belong to the band above. */
static bool add_band(struct tern_selection_stairs *stairs, int64_t k, struct tern_selection_steps steps) {
    struct tern_selection_band *last = stairs->band_count ? &stairs->bands[stairs->band_count - 1] : NULL;
    if (steps.count == 0)
        return false;
    if (last && same_steps(&last->steps, &steps)) {
        last->k = k;
        free(steps.items);
        return true;
    }
    stairs->bands = tern_realloc(stairs->bands, (stairs->band_count + 1) * sizeof *stairs->bands);
    stairs->bands[stairs->band_count++] = (struct tern_selection_band){k, steps};
    return true;
}

/* For shapes that nobody tuned whose nearest tuned one is row i's: by their N. Their K stretches all kernels alike, and decides which of
 * them can be launched. */
static void fill_bands(const struct tern_outlook *o, size_t i, struct tern_selection_stairs *stairs) {
    const int64_t first = next_size(o->group->k / FARTHEST - 1), last = o->group->k * FARTHEST;
    bool *in = tern_alloc_zero(o->count + 1, sizeof *in), *before = tern_alloc_zero(o->count + 1, sizeof *before);
    struct beside beside = open_beside(o, i);
    bool open = false;
    for (int64_t k = first; k <= last; k = next_size(k)) {
        launched(o, i, k, in);
        if (memcmp(in, before, o->count) != 0)
            open = add_band(stairs, k, steps_beside(&beside, in));
        else if (open)
            stairs->bands[stairs->band_count - 1].k = k;
        memcpy(before, in, o->count);
    }
    close_beside(&beside);
    free(in);
    free(before);
}

struct tern_selection_stairs *tern_times_stairs(const struct tern_times *times, const struct tern_selection_table *table,
                                                const struct tern_export_stand_in *stand_ins,
                                                const struct tern_dispatch_limits *limits) {
    struct tern_selection_stairs *stairs = tern_alloc_zero(table->results->count + 1, sizeof *stairs);
    for (size_t g = 0; g < table->count; g++) {
        const struct tern_selection_group *group = &table->groups[g];
        struct tern_outlook *o = tern_outlook_open(times, table, group, stand_ins, limits);
        for (size_t i = 0; i < group->count; i++) {
            struct tern_selection_stairs *of_row = &stairs[group->rows[i] - table->results->rows];
            if (i)
                fill_between(o, group->rows[i - 1], group->rows[i], &of_row->between);
            fill_bands(o, i, of_row);
        }
        tern_outlook_free(o);
    }
    return stairs;
}

void tern_times_stairs_free(struct tern_selection_stairs *stairs, size_t count) {
    for (size_t i = 0; stairs && i < count; i++) {
        free(stairs[i].between.items);
        for (size_t b = 0; b < stairs[i].band_count; b++)
            free(stairs[i].bands[b].steps.items);
        free(stairs[i].bands);
    }
    free(stairs);
}
