/* Selection: which tuned row answers for a problem that may never have been tuned.
 * Any change here has to be made in tern/dispatch_select.h as well; test_output_export.c compares them. */
#include "output/select.h"

#include "core/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_NS (INT64_MAX / 4)

const char *tern_selection_match_name(enum tern_selection_match match) {
    static const char *const names[] = {"none", "exact", "between", "near", "default"};
    return names[match];
}

static int compare_numbers(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

/* The key of a group: op, format, N, K. */
static int compare_group(const struct tern_result *a, const struct tern_result *b) {
    int order = strcmp(a->op, b->op);
    if (!order)
        order = strcmp(a->format, b->format);
    if (!order)
        order = compare_numbers(a->n, b->n);
    return order ? order : compare_numbers(a->k, b->k);
}

/* Where rows of one group come from: a model's layer. Rows of one source share their layout. */
static int compare_source(const struct tern_result *a, const struct tern_result *b) {
    int order = strcmp(a->shapes, b->shapes);
    return order ? order : strcmp(a->layer, b->layer);
}

static int compare_rows(const void *left, const void *right) {
    const struct tern_result *a = *(const struct tern_result *const *)left, *b = *(const struct tern_result *const *)right;
    int order = compare_group(a, b);
    if (!order)
        order = compare_source(a, b);
    return order ? order : compare_numbers(a->m, b->m);
}

/* Length of the run of rows that starts at `begin` and is alike under `compare`. */
static size_t run_length(const struct tern_result **rows, size_t begin, size_t end,
                         int (*compare)(const struct tern_result *, const struct tern_result *)) {
    size_t i = begin + 1;
    while (i < end && !compare(rows[begin], rows[i]))
        i++;
    return i - begin;
}

/* Fills a group from rows[begin..end), all of one (op, format, N, K), out of the source with the most rows. */
static void fill_group(struct tern_selection_group *group, const struct tern_result **rows, size_t begin, size_t end) {
    size_t best = begin, best_count = 0;
    for (size_t at = begin; at < end;) {
        size_t count = run_length(rows, at, end, compare_source);
        if (count > best_count) {
            best = at;
            best_count = count;
        }
        at += count;
    }
    *group = (struct tern_selection_group){rows[begin]->op, rows[begin]->format, rows[begin]->n, rows[begin]->k, NULL, 0};
    group->rows = tern_alloc(best_count * sizeof *group->rows);
    for (size_t i = best; i < best + best_count; i++)
        if (!group->count || group->rows[group->count - 1]->m != rows[i]->m)
            group->rows[group->count++] = rows[i];
}

struct tern_selection_table tern_selection_build(const struct tern_results *results) {
    struct tern_selection_table table = {.results = results};
    if (!results->count)
        return table;
    const struct tern_result **rows = tern_alloc(results->count * sizeof *rows);
    size_t count = 0;
    for (size_t i = 0; i < results->count; i++)
        if (results->rows[i].template_name[0] && !results->rows[i].runner_up)
            rows[count++] = &results->rows[i];
    qsort(rows, count, sizeof *rows, compare_rows);
    table.groups = tern_alloc(results->count * sizeof *table.groups);
    for (size_t at = 0; at < count;) {
        size_t length = run_length(rows, at, count, compare_group);
        fill_group(&table.groups[table.count++], rows, at, at + length);
        at += length;
    }
    free(rows);
    return table;
}

void tern_selection_free(struct tern_selection_table *table) {
    for (size_t i = 0; i < table->count; i++)
        free(table->groups[i].rows);
    free(table->groups);
    memset(table, 0, sizeof *table);
}

int64_t tern_selection_ns(const struct tern_result *row) {
    double us = row->planned ? row->predicted_us : row->us;
    return us > 0.0 && us < 1e12 ? (int64_t)llround(us * 1000.0) : UNKNOWN_NS;
}

/* NAN on either side compares false: no measurement, no claim. */
bool tern_selection_use_cublas(const struct tern_result *row) {
    return row->baseline_us < row->us;
}

int tern_selection_use_dequant(const struct tern_result *row) {
    bool e4m3 = row->dequant_e4m3_us < row->us && !(row->dequant_us <= row->dequant_e4m3_us);
    return e4m3 ? 2 : row->dequant_us < row->us;
}

/* One question to the table. */
struct query {
    const struct tern_selection_table *table;
    const struct tern_selection_problem *problem;
    tern_selection_fits *fits;
    void *user;
};

/* The range of M first: it costs nothing, the launch arithmetic does. */
static bool takes(const struct query *q, const struct tern_result *row) {
    int64_t m = q->problem->m;
    return row->min_m <= m && m <= row->max_m && (!q->fits || q->fits(q->user, row, q->problem));
}

/* The kernel that was found best for sizes like this one; NULL if none was. */
static const struct tern_result *step_for(const struct tern_selection_steps *steps, int64_t size) {
    for (size_t i = 0; i < steps->count; i++)
        if (size <= steps->items[i].size)
            return steps->items[i].kernel;
    return NULL;
}

/* The same for another shape; NULL if nothing was found. */
static const struct tern_result *beside(const struct tern_selection_stairs *stairs, int64_t n, int64_t k) {
    size_t band = 0, step = 0;
    if (stairs->band_count == 0)
        return NULL;
    while (band + 1 < stairs->band_count && k > stairs->bands[band].k)
        band++;
    const struct tern_selection_steps *steps = &stairs->bands[band].steps;
    while (step + 1 < steps->count && n > steps->items[step].size)
        step++;
    return steps->items[step].kernel;
}

/* The one for a problem that is not this row's: of another shape, else by its M, which is between this row's and the one before. */
static const struct tern_result *step_below(const struct query *q, const struct tern_result *row, bool other, bool between) {
    if (!q->table->stairs)
        return NULL;
    const struct tern_selection_stairs *stairs = &q->table->stairs[row - q->table->results->rows];
    const struct tern_result *kernel = other ? beside(stairs, q->problem->n, q->problem->k) : NULL;
    return kernel || !between ? kernel : step_for(&stairs->between, q->problem->m);
}

/* The row for m inside a group; *kernel is another's where one was found for other shapes, or between two tuned M. Else neighbours:
 * the next larger tuned M costs at most its own time, the next smaller one ceil(m / M) times its own; the cheaper of the two
 * wins, the larger on a tie. Where neither takes m: the nearest larger, then the nearest smaller that does. */
static const struct tern_result *find_in_group(const struct tern_selection_group *group, const struct query *q, bool other,
                                               const struct tern_result **kernel, bool *exact) {
    const int64_t m = q->problem->m;
    size_t above = 0;
    while (above < group->count && group->rows[above]->m < m)
        above++;
    const struct tern_result *high = above < group->count ? group->rows[above] : NULL;
    const struct tern_result *low = above > 0 ? group->rows[above - 1] : NULL;
    const struct tern_result *step = high ? step_below(q, high, other, low && high->m != m) : NULL;
    *kernel = NULL;
    *exact = high && high->m == m && takes(q, high);
    if (step && takes(q, step)) {
        *kernel = step;
        return high;
    }
    if (*exact)
        return high;
    if (high && takes(q, high)) {
        if (!low || !takes(q, low))
            return high;
        int64_t passes = (m - 1) / low->m + 1, low_ns = tern_selection_ns(low);
        return low_ns < tern_selection_ns(high) / passes ? low : high;
    }
    for (size_t i = above; i < group->count; i++)
        if (takes(q, group->rows[i]))
            return group->rows[i];
    for (size_t i = above; i-- > 0;)
        if (takes(q, group->rows[i]))
            return group->rows[i];
    return NULL;
}

struct ratio { /* >= 1: the larger of two sizes over the smaller; compared exactly, all sizes < 2^31 */
    int64_t over, under;
};

static struct ratio ratio_of(int64_t a, int64_t b) {
    return a > b ? (struct ratio){a, b} : (struct ratio){b, a};
}

/* a < b by cross products: no rounding, no libm, the same answer in the header. */
static bool ratio_less(struct ratio a, struct ratio b) {
    return a.over * b.under < b.over * a.under;
}

/* What the formats demand of N and K, and sizes whose products stay far from 2^63. */
static bool in_range(const struct tern_selection_problem *p) {
    const int64_t end = TERN_SELECT_SIZE_END;
    return p->m > 0 && p->n > 0 && p->k > 0 && p->m < end && p->n < end && p->k < end && p->n % 8 == 0 && p->k % 32 == 0;
}

/* The tuned (N, K) with the smallest of max(|log2 N ratio|, |log2 K ratio|); that ratio in *distance. */
static const struct tern_selection_group *nearest(const struct tern_selection_table *table,
                                                  const struct tern_selection_problem *p, struct ratio *distance) {
    const struct tern_selection_group *best = NULL;
    for (size_t i = 0; i < table->count; i++) {
        const struct tern_selection_group *group = &table->groups[i];
        if (strcmp(group->op, p->op ? p->op : "linear-a16") || strcmp(group->format, p->format))
            continue;
        struct ratio by_n = ratio_of(p->n, group->n), by_k = ratio_of(p->k, group->k);
        struct ratio larger = ratio_less(by_n, by_k) ? by_k : by_n;
        if (!best || ratio_less(larger, *distance)) {
            best = group;
            *distance = larger;
        }
    }
    return best;
}

struct tern_selection_answer tern_selection_ask(const struct tern_selection_table *table,
                                                const struct tern_selection_problem *problem, tern_selection_fits *fits,
                                                void *user) {
    const struct query query = {table, problem, fits, user};
    struct tern_selection_answer answer = {NULL, NULL, TERN_SELECTION_NONE};
    struct ratio distance = {1, 1};
    bool exact = false;
    if (!in_range(problem))
        return answer;
    const struct tern_selection_group *group = nearest(table, problem, &distance);
    const bool other = distance.over != distance.under;
    answer.row = group ? find_in_group(group, &query, other, &answer.kernel, &exact) : NULL;
    if (!answer.row)
        return answer;
    if (!answer.kernel)
        answer.kernel = answer.row;
    if (other)
        answer.match =
            distance.over <= TERN_SELECT_NEAR_RATIO * distance.under ? TERN_SELECTION_NEAR : TERN_SELECTION_DEFAULT;
    else
        answer.match = exact ? TERN_SELECTION_EXACT : TERN_SELECTION_BETWEEN;
    return answer;
}

const struct tern_result *tern_selection_find(const struct tern_selection_table *table,
                                              const struct tern_selection_problem *problem, tern_selection_fits *fits,
                                              void *user, enum tern_selection_match *match) {
    struct tern_selection_answer answer = tern_selection_ask(table, problem, fits, user);
    *match = answer.match;
    return answer.row;
}
