/* Search strategies: which candidate of a problem is tried next, and when enough is known. Pure logic: no clock, no device, no
 * database; the same answers give the same questions.
 *
 *   exhaustive  every candidate, in the order of the list
 *   random      every candidate, in an order drawn from the seed
 *   model       every candidate, in the order of the cost model's predictions
 *   race        a default, then the candidate that may be fastest by what is known of its likes, until none may be faster
 *
 * The race is Bayesian optimisation: a Gaussian process (Rasmussen and Williams 2006) over r = ln(measured / predicted), whose
 * covariance says that candidates with like parameters behave alike; the next question is the least lower confidence bound
 * (Srinivas et al. 2010), and it ends when no bound of the untried lies below the best time and what is a step of one
 * parameter away from the best was tried as well. Results of neighbouring problems are evidence of less correlation. */
#ifndef TERN_SPACE_SEARCH_H
#define TERN_SPACE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A candidate as the search sees it. */
struct tern_search_point {
    size_t family;         /* template; parameters are compared within a family only */
    const int64_t *values; /* value_count parameter values, borrowed for as long as the search lives */
    size_t value_count;    /* the same for a family; at most TERN_SEARCH_MAX_VALUES */
    double predicted_us;   /* cost model; > 0 */
    bool must_ask;         /* a race asks it unless it is surely slower than the best: defaults, the last winner */
    bool closed;           /* cannot be asked, but may be the best: it is not built */
};
#define TERN_SEARCH_MAX_VALUES 24

struct tern_search; /* owned by the caller of tern_search_open, freed by tern_search_close */

enum tern_strategy {
    TERN_STRATEGY_EXHAUSTIVE,
    TERN_STRATEGY_RANDOM,
    TERN_STRATEGY_MODEL,
    TERN_STRATEGY_RACE,
    TERN_STRATEGY_COUNT
};
/* By name; TERN_STRATEGY_COUNT if there is none. */
enum tern_strategy tern_strategy_find(const char *name);
const char *tern_strategy_name(enum tern_strategy strategy);

/* `limit_us`: no time can be below it; a race ends within 2 % of it. 0: none is known. The points are copied. */
struct tern_search *tern_search_open(enum tern_strategy strategy, const struct tern_search_point *points, size_t count,
                                     double limit_us, uint64_t seed);
void tern_search_close(struct tern_search *s);

/* Before the first question: candidate `index` took `us` on neighbouring problem number `problem` (any number of its own), where
 * the model had predicted `predicted_us`. */
void tern_search_neighbour(struct tern_search *s, size_t problem, size_t index, double us, double predicted_us);

/* Before the first question: `winner` are the values of a neighbouring problem's best candidate, of `family`. A race asks for the
 * candidate that is most like it, whatever else it has learned: what won next door may be other than all that was tried here. */
void tern_search_twin(struct tern_search *s, size_t family, const int64_t *winner);

/* Chooses the next candidate and counts it as asked; several may be asked before the first is told. False: nothing is left, or
 * the strategy has seen enough. */
bool tern_search_next(struct tern_search *s, size_t *index);

/* Result of a candidate: microseconds, or NAN when it did not run right. Also of one that was never asked. */
void tern_search_tell(struct tern_search *s, size_t index, double us);

/* Best time told, INFINITY before the first. */
double tern_search_best(const struct tern_search *s);

/* By how much the best time may still be beaten by a candidate that was not tried, closed ones too, as a share of it: beaten by more at
 * one chance in ten, by the estimates and how their errors go together; no less than what earlier searches were seen to miss (4.2 %,
 * tests/e2e/strategies.sh), and no further than the limit. 0 when all were tried, 1 when nothing is known. */
double tern_search_gap(const struct tern_search *s);

#endif
