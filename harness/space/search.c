/* Search strategies over the candidates of one problem. See search.h. */
#include "space/search.h"

#include "core/random.h"
#include "core/str.h"
#include "space/joint.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEAR_LIMIT   1.02  /* times the limit: nothing better is worth a search (tuning.md) */
#define ASK_SDS      1.0   /* lower bound that chooses the next question */
#define STOP_SDS     1.25  /* lower bound that must lie above the best for a race to end, */
#define NEAR_SDS     3.0   /* and for a step away from the best to be left out */
#define SURE_SDS     1.5   /* lower bound that must lie above the best for a default or the last winner to be left out */
#define FAMILY_SDS   2.0   /* the same for a family's first question on a problem */
#define STOP_MARGIN  0.01  /* faster by less than this is not worth a question */
#define MISSED       0.042 /* share of the best time that earlier races missed, in 95 % of the recorded problems */
#define GAP_CHANCE   0.1   /* that an untried candidate beats the gap, by the estimates */
#define GAP_SDS      2.0   /* lower bound that says how near to the best an untried candidate may come */
#define GAP_MOST     48    /* of these the gap looks at the nearest: those behind them are like them */
#define FAMILY_LEAST 8     /* questions, or answers of neighbours, before a family that may hold the best is given up */

/* Prior variances of r = ln(measured / predicted), by what the times of two candidates have in common. These and the bounds above
 * were chosen on the recorded run that tests/e2e/strategies.sh replays; a factor of 3 on any variance changes its result by
 * 0.3 % and a few GPU seconds. */
#define PROBLEM_OFFSET 0.04 /* the problem, */
#define FAMILY_OFFSET  0.04 /* the family, */
#define ADDITIVE       0.06 /* values of single parameters, */
#define INTERACTION    0.03 /* combinations of them, */
#define MODEL_SLOPE    0.3  /* and how far the model's ln us is to be believed, for each unit of it */
#define NOISE          1e-3 /* of a measurement, and of what the above does not explain */
#define FADE_STEPS     2.0 /* steps of a parameter over which its effect changes by e; of combinations, all steps together */
#define SHARED         0.8 /* correlation of all but the offset on neighbouring problems */
#define SCALE_PRIOR    8.0 /* measurements that the size of these variances is worth against what the evidence says */

static const char *const names[TERN_STRATEGY_COUNT] = {"exhaustive", "random", "model", "race"};

struct point {
    struct tern_search_point p;
    int steps[TERN_SEARCH_MAX_VALUES]; /* position of each value among the values of its family */
    double centred;                    /* ln of the prediction, less the mean of all */
    bool asked, told, twin;            /* twin: of a neighbouring problem's winner */
    double variance, mean;             /* of r, given the evidence */
    double us;                         /* as told; infinite where there is no time */
};

/* One measurement: of a point of this problem, or of its twin on a neighbouring one. */
struct evidence {
    size_t point, problem; /* problem 0: this one */
    double *row;           /* of L, the Cholesky factor of the covariance of all evidence */
    double *solved;        /* (L^-1 k) of this piece for each point */
    double whitened;       /* (L^-1 r) of this piece */
};

struct tern_search {
    enum tern_strategy strategy;
    struct point *points;
    size_t count, at; /* at: next of `order` */
    size_t *order;    /* fixed orders */
    double *fade;     /* exp(-steps / FADE_STEPS), up to `count` steps */
    size_t order_count;
    struct evidence *evidence;
    size_t evidence_count, evidence_room, family_count, asked;
    double surprise; /* sum of the squares of whitened evidence: its number, if the variances are of the right size */
    double limit_us, best_us;
};

enum tern_strategy tern_strategy_find(const char *name) {
    int i = 0;
    while (i < TERN_STRATEGY_COUNT && strcmp(names[i], name) != 0)
        i++;
    return (enum tern_strategy)i;
}

const char *tern_strategy_name(enum tern_strategy strategy) {
    return names[strategy];
}

/* ---- estimates of a race: Gaussian process regression (Rasmussen and Williams 2006, algorithm 2.1), one measurement at a
 * time ---- */

static double covariance(const struct tern_search *s, const struct point *a, const struct point *b, bool same_problem) {
    double sum = same_problem ? PROBLEM_OFFSET : 0, alike = 0, all_alike = 1;
    sum += MODEL_SLOPE * a->centred * b->centred * (same_problem ? 1 : SHARED);
    if (a->p.family != b->p.family)
        return sum;
    for (size_t v = 0; v < a->p.value_count; v++) {
        double fade = s->fade[abs(a->steps[v] - b->steps[v])];
        alike += fade;
        all_alike *= fade;
    }
    double effects = FAMILY_OFFSET + INTERACTION * all_alike;
    effects += a->p.value_count > 0 ? ADDITIVE * alike / (double)a->p.value_count : ADDITIVE;
    return sum + (same_problem ? 1 : SHARED) * effects;
}

/* Takes in r of a point on a problem: a new row of L, and what it says of every point. */
static void learn(struct tern_search *s, size_t index, size_t problem, double r) {
    size_t n = s->evidence_count;
    if (n == s->evidence_room) {
        s->evidence_room = n ? 2 * n : 64;
        s->evidence = tern_realloc(s->evidence, s->evidence_room * sizeof *s->evidence);
    }
    struct evidence *e = &s->evidence[n];
    *e = (struct evidence){.point = index,
                           .problem = problem,
                           .row = tern_alloc((n + 1) * sizeof(double)),
                           .solved = tern_alloc(s->count * sizeof(double))};
    const struct point *at = &s->points[index];
    double left = covariance(s, at, at, true) + NOISE;
    e->whitened = r;
    for (size_t j = 0; j < n; j++) {
        const struct evidence *other = &s->evidence[j];
        double k = covariance(s, at, &s->points[other->point], problem == other->problem);
        for (size_t l = 0; l < j; l++)
            k -= e->row[l] * other->row[l];
        e->row[j] = k / other->row[j];
        left -= e->row[j] * e->row[j];
        e->whitened -= e->row[j] * other->whitened;
    }
    e->row[n] = sqrt(left > NOISE / 2 ? left : NOISE / 2);
    e->whitened /= e->row[n];
    s->surprise += e->whitened * e->whitened;
    for (size_t i = 0; i < s->count; i++)
        e->solved[i] = covariance(s, &s->points[i], at, problem == 0);
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < s->count; i++)
            e->solved[i] -= s->evidence[j].solved[i] * e->row[j];
    for (size_t i = 0; i < s->count; i++) {
        e->solved[i] /= e->row[n];
        s->points[i].mean += e->solved[i] * e->whitened;
        s->points[i].variance -= e->solved[i] * e->solved[i];
    }
    s->evidence_count = n + 1;
}

/* Of all variances, by how much the evidence surprised. */
static double scale_of(const struct tern_search *s) {
    return (SCALE_PRIOR + s->surprise) / (SCALE_PRIOR + (double)s->evidence_count);
}

/* Bound of ln us so many standard deviations below the estimate; negative: above it. */
static double lower_bound(const struct tern_search *s, const struct point *p, double sds) {
    return log(p->p.predicted_us) + p->mean - sds * sqrt(p->variance > 0 ? scale_of(s) * p->variance : 0);
}

/* ---- opening ---- */

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Position of each point's value of parameter `v` among the distinct values of its family. */
static void rank_values(struct tern_search *s, size_t family, size_t v) {
    int64_t *values = tern_alloc((s->count + 1) * sizeof *values);
    size_t n = 0, distinct = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->points[i].p.family == family && v < s->points[i].p.value_count)
            values[n++] = s->points[i].p.values[v];
    qsort(values, n, sizeof *values, by_value);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || values[i] != values[distinct - 1])
            values[distinct++] = values[i];
    for (size_t i = 0; i < s->count; i++) {
        struct point *p = &s->points[i];
        if (p->p.family != family || v >= p->p.value_count)
            continue;
        const int64_t *found = bsearch(&p->p.values[v], values, distinct, sizeof *values, by_value);
        p->steps[v] = (int)(found - values);
    }
    free(values);
}

struct keyed {
    double key;
    size_t index;
};

static int by_key(const void *a, const void *b) {
    const struct keyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static void make_order(struct tern_search *s, uint64_t seed) {
    struct tern_random random;
    struct keyed *keys = tern_alloc((s->count + 1) * sizeof *keys);
    tern_random_init(&random, seed, "search");
    for (size_t i = 0; i < s->count; i++) {
        const struct tern_search_point *p = &s->points[i].p;
        double key = s->strategy == TERN_STRATEGY_RANDOM  ? tern_random_unit(&random)
                     : s->strategy == TERN_STRATEGY_MODEL ? p->predicted_us
                                                          : 0;
        keys[s->order_count++] = (struct keyed){key, i};
    }
    qsort(keys, s->order_count, sizeof *keys, by_key);
    for (size_t i = 0; i < s->order_count; i++)
        s->order[i] = keys[i].index;
    free(keys);
}

struct tern_search *tern_search_open(enum tern_strategy strategy, const struct tern_search_point *points, size_t count,
                                     double limit_us, uint64_t seed) {
    struct tern_search *s = tern_alloc_zero(1, sizeof *s);
    s->strategy = strategy;
    s->points = tern_alloc_zero(count + 1, sizeof *s->points);
    s->order = tern_alloc((count + 1) * sizeof *s->order);
    s->fade = tern_alloc((count + 1) * sizeof *s->fade);
    for (size_t i = 0; i <= count; i++)
        s->fade[i] = exp(-(double)i / FADE_STEPS);
    s->count = count;
    s->limit_us = limit_us;
    s->best_us = (double)INFINITY;
    double mean = 0;
    for (size_t i = 0; i < count; i++)
        mean += log(points[i].predicted_us) / (double)count;
    for (size_t i = 0; i < count; i++) {
        s->points[i].p = points[i];
        s->points[i].centred = log(points[i].predicted_us) - mean;
        if (points[i].family >= s->family_count)
            s->family_count = points[i].family + 1;
    }
    for (size_t f = 0; f < s->family_count; f++)
        for (size_t v = 0; v < TERN_SEARCH_MAX_VALUES; v++)
            rank_values(s, f, v);
    for (size_t i = 0; i < count; i++)
        s->points[i].variance = covariance(s, &s->points[i], &s->points[i], true);
    make_order(s, seed);
    return s;
}

void tern_search_close(struct tern_search *s) {
    if (!s)
        return;
    for (size_t e = 0; e < s->evidence_count; e++) {
        free(s->evidence[e].row);
        free(s->evidence[e].solved);
    }
    free(s->evidence);
    free(s->points);
    free(s->order);
    free(s->fade);
    free(s);
}

#define ANY_FAMILY SIZE_MAX

static bool is_open(const struct point *p) {
    return !p->asked && !p->told && !p->p.closed;
}

/* Least lower bound among the points of a family that nobody asked for. */
static struct point *most_promising(const struct tern_search *s, size_t family, double sds, double *bound) {
    struct point *best = NULL;
    *bound = (double)INFINITY;
    for (size_t i = 0; i < s->count; i++) {
        struct point *p = &s->points[i];
        if (!is_open(p) || (family != ANY_FAMILY && p->p.family != family))
            continue;
        double lower = lower_bound(s, p, sds);
        if (!best || lower < *bound) {
            best = p;
            *bound = lower;
        }
    }
    return best;
}

static bool near_limit(const struct tern_search *s) {
    return s->limit_us > 0 && s->best_us <= NEAR_LIMIT * s->limit_us;
}

/* None of the untried may be faster, as far as the evidence goes. */
static bool seen_enough(const struct tern_search *s) {
    double bound;
    if (!isfinite(s->best_us))
        return false;
    most_promising(s, ANY_FAMILY, STOP_SDS, &bound);
    return bound > log(s->best_us * (1 - STOP_MARGIN));
}

/* ---- questions and answers ---- */

void tern_search_neighbour(struct tern_search *s, size_t problem, size_t index, double us, double predicted_us) {
    if (s->strategy == TERN_STRATEGY_RACE && us > 0 && isfinite(us) && predicted_us > 0)
        learn(s, index, problem + 1, log(us / predicted_us));
}

void tern_search_twin(struct tern_search *s, size_t family, const int64_t *winner) {
    struct point *nearest = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < s->count; i++) {
        struct point *p = &s->points[i];
        size_t differ = 0;
        for (size_t v = 0; v < p->p.value_count; v++)
            differ += p->p.values[v] != winner[v];
        if (p->p.closed || p->p.family != family || differ > least ||
            (nearest && differ == least && p->p.predicted_us >= nearest->p.predicted_us))
            continue;
        nearest = p;
        least = differ;
    }
    if (nearest)
        nearest->twin = true;
}

static bool ask(struct tern_search *s, struct point *p, size_t *index) {
    p->asked = true;
    s->asked++;
    *index = (size_t)(p - s->points);
    return true;
}

/* A family of which little is known and that may hold the best, ANY_FAMILY if there is none. One bad default must not speak for
 * all, nor what is known of other problems: here each has one question, unless it is far out of reach. */
static size_t neglected_family(const struct tern_search *s) {
    double bound;
    for (size_t f = 0; f < s->family_count; f++) {
        size_t here = 0, elsewhere = 0, left = 0;
        for (size_t i = 0; i < s->count; i++) {
            const struct point *p = &s->points[i];
            here += p->p.family == f && (p->asked || p->told);
            left += p->p.family == f && is_open(p);
        }
        for (size_t e = 0; e < s->evidence_count; e++)
            elsewhere += s->evidence[e].problem != 0 && s->points[s->evidence[e].point].p.family == f;
        if (left == 0 || (here > 0 && here + elsewhere >= FAMILY_LEAST))
            continue;
        most_promising(s, f, here == 0 ? FAMILY_SDS : SURE_SDS, &bound);
        if (bound < log(s->best_us))
            return f;
    }
    return ANY_FAMILY;
}

/* Of the candidates that must have their say, the one that may be fastest; NULL when the rest is out of reach of the best time,
 * as far as the evidence goes. */
static struct point *must_be_asked(const struct tern_search *s) {
    struct point *best = NULL;
    for (size_t i = 0; i < s->count; i++) {
        struct point *p = &s->points[i];
        bool open = (p->p.must_ask || p->twin) && is_open(p);
        if (open && !p->twin && isfinite(s->best_us) && lower_bound(s, p, SURE_SDS) > log(s->best_us))
            open = false;
        if (open && (!best || lower_bound(s, p, 0) < lower_bound(s, best, 0)))
            best = p;
    }
    return best;
}

/* Of the points that have parameter `v` a step from where `from` has it, the one most like it in the others. NULL: there is none. */
static struct point *step_away(const struct tern_search *s, const struct point *from, size_t v, int step) {
    struct point *nearest = NULL;
    int least = INT_MAX;
    for (size_t i = 0; i < s->count; i++) {
        struct point *p = &s->points[i];
        if (p->p.closed || p->p.family != from->p.family || p->steps[v] - from->steps[v] != step)
            continue;
        int away = 0;
        for (size_t other = 0; other < p->p.value_count; other++)
            away += abs(p->steps[other] - from->steps[other]);
        if (away > least || (away == least && p->p.predicted_us >= nearest->p.predicted_us))
            continue;
        nearest = p;
        least = away;
    }
    return nearest;
}

/* The fastest of a family, NULL if none has a time. */
static const struct point *best_of(const struct tern_search *s, size_t family) {
    const struct point *best = NULL;
    for (size_t i = 0; i < s->count; i++)
        if (s->points[i].p.family == family && s->points[i].told && s->points[i].us < (best ? best->us : (double)INFINITY))
            best = &s->points[i];
    return best;
}

/* The most promising candidate that is a step of one parameter, and of what the grid makes follow from it, away from the best of its
 * family. What is known of a parameter may be of problems where it acts the other way: before the end each step has its say, also those of
 * families that are not ahead, unless it is far out of reach. */
static struct point *untried_step(const struct tern_search *s) {
    struct point *found = NULL;
    for (size_t family = 0; family < s->family_count; family++) {
        const struct point *best = best_of(s, family);
        for (size_t v = 0; best && v < best->p.value_count; v++)
            for (int step = -1; step <= 1; step += 2) {
                struct point *p = step_away(s, best, v, step);
                if (p && is_open(p) && lower_bound(s, p, NEAR_SDS) < log(s->best_us) &&
                    (!found || lower_bound(s, p, 0) < lower_bound(s, found, 0)))
                    found = p;
            }
    }
    return found;
}

/* Where nothing is known a default to start from, then by promise; before the end what must have its say, families of which little
 * is known, and the steps away from the best. */
static struct point *next_of_race(const struct tern_search *s) {
    double bound;
    struct point *p = s->evidence_count + s->asked == 0 || seen_enough(s) ? must_be_asked(s) : NULL;
    if (near_limit(s))
        return NULL;
    if (p)
        return p;
    size_t family = ANY_FAMILY;
    if (seen_enough(s) && (family = neglected_family(s)) == ANY_FAMILY)
        return untried_step(s);
    return most_promising(s, family, ASK_SDS, &bound);
}

bool tern_search_next(struct tern_search *s, size_t *index) {
    if (s->strategy == TERN_STRATEGY_RACE) {
        struct point *p = next_of_race(s);
        return p && ask(s, p, index);
    }
    for (; s->at < s->order_count; s->at++) {
        struct point *p = &s->points[s->order[s->at]];
        if (is_open(p))
            return ask(s, p, index);
    }
    return false;
}

void tern_search_tell(struct tern_search *s, size_t index, double us) {
    struct point *p = &s->points[index];
    if (p->told)
        return;
    p->told = true;
    p->us = us > 0 && isfinite(us) ? us : (double)INFINITY;
    if (!isfinite(p->us))
        return;
    s->best_us = fmin(s->best_us, us);
    if (s->strategy == TERN_STRATEGY_RACE)
        learn(s, index, 0, log(us / p->p.predicted_us));
}

double tern_search_best(const struct tern_search *s) {
    return s->best_us;
}

/* Of the candidates that were not told of, closed ones too, the GAP_MOST that may be fastest; returns how many. */
static size_t contenders(const struct tern_search *s, const struct point **list) {
    struct keyed *keys = tern_alloc((s->count + 1) * sizeof *keys);
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++)
        if (!s->points[i].told)
            keys[count++] = (struct keyed){lower_bound(s, &s->points[i], GAP_SDS), i};
    qsort(keys, count, sizeof *keys, by_key);
    count = count < GAP_MOST ? count : GAP_MOST;
    for (size_t i = 0; i < count; i++)
        list[i] = &s->points[keys[i].index];
    free(keys);
    return count;
}

/* Of the errors of two estimates, given the evidence. */
static double covariance_left(const struct tern_search *s, const struct point *a, const struct point *b) {
    double left = covariance(s, a, b, true);
    for (size_t e = 0; e < s->evidence_count; e++)
        left -= s->evidence[e].solved[a - s->points] * s->evidence[e].solved[b - s->points];
    return scale_of(s) * left;
}

double tern_search_gap(const struct tern_search *s) {
    const struct point *list[GAP_MOST];
    double mean[GAP_MOST], left[GAP_MOST * GAP_MOST];
    size_t n = contenders(s, list);
    if (!isfinite(s->best_us))
        return 1;
    if (n == 0)
        return 0;
    for (size_t i = 0; i < n; i++) {
        mean[i] = lower_bound(s, list[i], 0);
        for (size_t j = 0; j < n; j++)
            left[i * n + j] = covariance_left(s, list[i], list[j]);
    }
    double gap = 1 - exp(tern_joint_least(mean, left, n, GAP_CHANCE, s->asked)) / s->best_us;
    return fmin(fmax(gap, MISSED), fmax(1 - s->limit_us / s->best_us, 0));
}
