/* Search strategies on made-up problems whose answer is known. Their worth on measured ones: test_search_recorded.c. */
#include "core/random.h"
#include "space/search.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIDE = 6, COUNT = 2 * SIDE * SIDE * SIDE };

/* Two families of three parameters; each parameter has a best value and what it costs to be off it, in logarithms. */
struct world {
    int64_t values[COUNT][3];
    struct tern_search_point points[COUNT];
    double us[COUNT];
    size_t best;
};

static void make(struct world *w, uint64_t seed) {
    struct tern_random random;
    int64_t best[2][3];
    double slope[2][3];
    tern_random_init(&random, seed, "world");
    for (int f = 0; f < 2; f++)
        for (int v = 0; v < 3; v++) {
            best[f][v] = (int64_t)tern_random_below(&random, SIDE);
            slope[f][v] = 0.05 + 0.2 * tern_random_unit(&random);
        }
    w->best = 0;
    for (size_t i = 0; i < COUNT; i++) {
        size_t f = i / (SIDE * SIDE * SIDE), rest = i % (SIDE * SIDE * SIDE);
        double ln = 3 + 0.3 * (double)f + 0.02 * tern_random_normal(&random);
        for (int v = 0; v < 3; v++, rest /= SIDE) {
            w->values[i][v] = (int64_t)1 << rest % SIDE; /* doublings, as tile sizes are */
            ln += slope[f][v] * fabs((double)((int64_t)(rest % SIDE) - best[f][v]));
        }
        w->us[i] = exp(ln);
        w->points[i] = (struct tern_search_point){.family = f,
                                                  .values = w->values[i],
                                                  .value_count = 3,
                                                  .predicted_us = 20 * exp(0.2 * tern_random_normal(&random)),
                                                  .must_ask = i == 17 || i == 300};
        if (w->us[i] < w->us[w->best])
            w->best = i;
    }
}

/* Asks until the strategy has enough, or `most` times; returns the best over the least. */
static double play(const struct world *w, enum tern_strategy strategy, double limit_us, size_t most, size_t *asked) {
    struct tern_search *s = tern_search_open(strategy, w->points, COUNT, limit_us, 1);
    size_t index;
    for (*asked = 0; *asked < most && tern_search_next(s, &index); (*asked)++)
        tern_search_tell(s, index, w->us[index]);
    double ratio = tern_search_best(s) / w->us[w->best];
    tern_search_close(s);
    return ratio;
}

static void names_go_both_ways(void **state) {
    (void)state;
    for (int i = 0; i < TERN_STRATEGY_COUNT; i++)
        assert_int_equal(tern_strategy_find(tern_strategy_name((enum tern_strategy)i)), i);
    assert_int_equal(tern_strategy_find("annealing"), TERN_STRATEGY_COUNT);
}

static void fixed_orders_ask_everything_once(void **state) {
    static struct world w;
    (void)state;
    make(&w, 1);
    for (int strategy = TERN_STRATEGY_EXHAUSTIVE; strategy <= TERN_STRATEGY_MODEL; strategy++) {
        struct tern_search *s = tern_search_open((enum tern_strategy)strategy, w.points, COUNT, 0, 5);
        int seen[COUNT] = {0};
        size_t index, n = 0;
        double last = 0;
        for (; tern_search_next(s, &index); n++) {
            assert_int_equal(seen[index]++, 0);
            if (strategy == TERN_STRATEGY_EXHAUSTIVE)
                assert_int_equal(index, n);
            if (strategy == TERN_STRATEGY_MODEL) {
                assert_true(w.points[index].predicted_us >= last);
                last = w.points[index].predicted_us;
            }
        }
        assert_int_equal(n, COUNT);
        assert_true(tern_search_gap(s) == 1); /* asked, but nothing told */
        tern_search_close(s);
    }
}

/* 432 candidates whose predictions say nothing: a tenth of them is enough for a race, on average within 2 %. */
static void a_race_learns_from_its_answers(void **state) {
    static struct world w;
    double race = 0, random = 0;
    size_t asked;
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        make(&w, seed);
        race += log(play(&w, TERN_STRATEGY_RACE, 0, 43, &asked));
        random += log(play(&w, TERN_STRATEGY_RANDOM, 0, 43, &asked));
    }
    assert_true(exp(race / 20) < 1.02);
    assert_true(race < 0.2 * random);
}

static void a_race_ends_by_itself(void **state) {
    static struct world w;
    size_t asked, most = 0;
    double sum = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        make(&w, seed);
        sum += log(play(&w, TERN_STRATEGY_RACE, 0, COUNT, &asked));
        most = asked > most ? asked : most;
    }
    assert_true(exp(sum / 20) < 1.02);
    assert_true(most < COUNT / 8);
}

/* A limit that the best reaches: nothing better is to be had. */
static void a_race_ends_near_the_limit(void **state) {
    static struct world w;
    size_t with, without;
    (void)state;
    make(&w, 3);
    assert_true(play(&w, TERN_STRATEGY_RACE, w.us[w.best] * 0.99, COUNT, &with) < 1.03);
    (void)play(&w, TERN_STRATEGY_RACE, 0, COUNT, &without);
    assert_true(with <= without);
}

/* Where nothing is known a default comes first; the others have their say before the end unless they are far behind. */
static void defaults_have_their_say(void **state) {
    static struct world w;
    size_t index;
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        size_t asked = 0;
        bool heard[COUNT] = {false};
        make(&w, seed);
        struct tern_search *s = tern_search_open(TERN_STRATEGY_RACE, w.points, COUNT, 0, 1);
        for (; tern_search_next(s, &index); asked++) {
            assert_true(asked > 0 || w.points[index].must_ask);
            heard[index] = true;
            tern_search_tell(s, index, w.us[index]);
        }
        for (size_t i = 0; i < COUNT; i++)
            assert_true(!w.points[i].must_ask || heard[i] || w.us[i] > 1.1 * tern_search_best(s));
        tern_search_close(s);
    }
}

/* Half of the candidates do not run: the race goes on and finds the best of the others. */
static void failures_are_no_times(void **state) {
    static struct world w;
    size_t index, best = COUNT;
    (void)state;
    make(&w, 5);
    for (size_t i = 0; i < COUNT; i++) {
        if (w.values[i][0] >= 8)
            w.us[i] = (double)NAN;
        else if (best == COUNT || w.us[i] < w.us[best])
            best = i;
    }
    struct tern_search *s = tern_search_open(TERN_STRATEGY_RACE, w.points, COUNT, 0, 1);
    assert_true(isinf(tern_search_best(s)));
    for (int n = 0; n < 100 && tern_search_next(s, &index); n++)
        tern_search_tell(s, index, w.us[index]);
    assert_true(tern_search_best(s) < 1.03 * w.us[best]);
    assert_true(tern_search_gap(s) >= 0.042 && tern_search_gap(s) < 0.5); /* no less while there are untried ones */
    tern_search_close(s);
    s = tern_search_open(TERN_STRATEGY_EXHAUSTIVE, w.points, COUNT, 0, 1);
    while (tern_search_next(s, &index))
        tern_search_tell(s, index, w.us[index]);
    assert_true(tern_search_gap(s) == 0);
    tern_search_close(s);
}

/* A neighbour that was searched through tells where to look: its best is the first question behind the defaults. */
static void neighbours_are_heard(void **state) {
    static struct world w;
    size_t index;
    (void)state;
    make(&w, 6);
    struct tern_search *s = tern_search_open(TERN_STRATEGY_RACE, w.points, COUNT, 0, 1);
    for (size_t i = 0; i < COUNT; i += 2)
        tern_search_neighbour(s, 0, i, 2 * w.us[i], 2 * w.points[i].predicted_us);
    double best = (double)INFINITY;
    for (int n = 0; n < 8 && tern_search_next(s, &index); n++) {
        tern_search_tell(s, index, w.us[index]);
        best = fmin(best, w.us[index]);
    }
    assert_true(best < 1.1 * w.us[w.best]);
    tern_search_close(s);
}

/* What won next door is tried, or what is most like it, however bad it looks by then. */
static void a_neighbours_winner_has_its_twin_tried(void **state) {
    static struct world w;
    bool asked[COUNT] = {false};
    size_t index, bad = COUNT; /* the slowest that a race of its own does not ask for */
    (void)state;
    make(&w, 7);
    struct tern_search *s = tern_search_open(TERN_STRATEGY_RACE, w.points, COUNT, 0, 1);
    while (tern_search_next(s, &index)) {
        asked[index] = true;
        tern_search_tell(s, index, w.us[index]);
    }
    tern_search_close(s);
    for (size_t i = 0; i < COUNT; i++)
        if (!asked[i] && (bad == COUNT || w.us[i] > w.us[bad]))
            bad = i;
    assert_true(bad < COUNT);
    const struct tern_search_point *p = &w.points[bad];
    const int64_t like[3] = {p->values[0], 999, p->values[2]}; /* nobody has it; one of SIDE is most like it */
    for (int exact = 0; exact < 2; exact++) {
        size_t twins = 0, likes = 0;
        s = tern_search_open(TERN_STRATEGY_RACE, w.points, COUNT, 0, 1);
        tern_search_twin(s, p->family, exact ? p->values : like);
        while (tern_search_next(s, &index)) {
            const struct tern_search_point *q = &w.points[index];
            twins += index == bad;
            likes += q->family == p->family && q->values[0] == like[0] && q->values[2] == like[2];
            tern_search_tell(s, index, w.us[index]);
        }
        assert_true(exact ? twins == 1 : likes > 0);
        tern_search_close(s);
    }
}

/* 4 x 2 candidates of one family that the model holds for equal. Next door the second value of the second parameter costs 12 %;
 * here it saves 10 %. */
struct turned {
    int64_t values[8][2];
    struct tern_search_point points[8];
    double us[8];
};

static struct tern_search *open_turned(struct turned *w, size_t closed) {
    memset(w, 0, sizeof *w);
    for (size_t i = 0; i < 8; i++) {
        w->values[i][0] = (int64_t)(i / 2);
        w->values[i][1] = (int64_t)(i % 2);
        w->points[i] = (struct tern_search_point){
            .values = w->values[i], .value_count = 2, .predicted_us = 10, .must_ask = i == 0, .closed = i >= closed};
        w->us[i] = (10 + 0.5 * (double)(i / 2)) * (i % 2 ? 0.9 : 1);
    }
    struct tern_search *s = tern_search_open(TERN_STRATEGY_RACE, w->points, 8, 0, 1);
    for (size_t problem = 0; problem < 2; problem++)
        for (size_t i = 0; i < 8; i++)
            tern_search_neighbour(s, problem, i, (20 + (double)(i / 2)) * (i % 2 ? 1.12 : 1), 20);
    return s;
}

/* What the evidence of other problems has written off is tried once, when it is a step away from the best. */
static void steps_from_the_best_are_tried(void **state) {
    static struct turned w;
    size_t index;
    (void)state;
    struct tern_search *s = open_turned(&w, 8);
    while (tern_search_next(s, &index))
        tern_search_tell(s, index, w.us[index]);
    assert_true(tern_search_best(s) == w.us[1]);
    tern_search_close(s);
}

/* What cannot be asked may still be the best, however much is known of the rest. */
static void the_gap_covers_what_is_closed(void **state) {
    static struct turned w;
    size_t index, asked = 0;
    (void)state;
    struct tern_search *s = open_turned(&w, 6);
    for (; tern_search_next(s, &index); asked++) {
        assert_true(index < 6);
        tern_search_tell(s, index, w.us[index]);
    }
    for (size_t i = 0; i < 6; i++)
        tern_search_tell(s, i, w.us[i]);
    assert_true(asked > 0 && tern_search_gap(s) >= 0.042);
    tern_search_tell(s, 6, w.us[6]);
    tern_search_tell(s, 7, w.us[7]);
    assert_true(tern_search_gap(s) == 0);
    tern_search_close(s);
}

/* Two families of eight; on a problem next door the second took two fifths longer, and here it is the faster one. Evidence of elsewhere alone does not
 * give it up: it has a question here. */
static void each_family_is_asked_here(void **state) {
    int64_t values[16][1];
    struct tern_search_point points[16];
    size_t index, of_second = 0;
    (void)state;
    for (size_t i = 0; i < 16; i++) {
        values[i][0] = (int64_t)(i % 8);
        points[i] = (struct tern_search_point){
            .family = i / 8, .values = values[i], .value_count = 1, .predicted_us = 10, .must_ask = i % 8 == 0};
    }
    struct tern_search *s = tern_search_open(TERN_STRATEGY_RACE, points, 16, 0, 1);
    for (size_t i = 0; i < 16; i++)
        tern_search_neighbour(s, 0, i, i < 8 ? 20 : 28, 20);
    while (tern_search_next(s, &index)) {
        tern_search_tell(s, index, index < 8 ? 10 : 9);
        of_second += index >= 8;
    }
    assert_true(of_second > 0 && tern_search_best(s) == 9);
    tern_search_close(s);
}

/* Where the model is a poor guide more is left to be hoped for; never less than nothing, and never below the limit. */
static void the_gap_follows_the_evidence(void **state) {
    static struct world w;
    double gaps[2];
    (void)state;
    make(&w, 8);
    for (int wild = 0; wild < 2; wild++) {
        struct tern_search *s = tern_search_open(TERN_STRATEGY_RACE, w.points, COUNT, 0, 1);
        for (size_t i = 0; i < COUNT; i += 9)
            tern_search_tell(s, i, wild ? w.us[i] : w.points[i].predicted_us * (1 + 0.001 * (double)(i % 2)));
        gaps[wild] = tern_search_gap(s);
        tern_search_close(s);
    }
    assert_true(gaps[0] > 0 && gaps[1] > gaps[0] && gaps[1] < 1);
    struct tern_search *s = tern_search_open(TERN_STRATEGY_RACE, w.points, COUNT, w.us[0] / 1.03, 1);
    tern_search_tell(s, 0, w.us[0]);
    assert_true(fabs(tern_search_gap(s) - (1 - 1 / 1.03)) < 1e-9);
    tern_search_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_go_both_ways),
        cmocka_unit_test(fixed_orders_ask_everything_once),
        cmocka_unit_test(a_race_learns_from_its_answers),
        cmocka_unit_test(a_race_ends_by_itself),
        cmocka_unit_test(a_race_ends_near_the_limit),
        cmocka_unit_test(defaults_have_their_say),
        cmocka_unit_test(failures_are_no_times),
        cmocka_unit_test(neighbours_are_heard),
        cmocka_unit_test(a_neighbours_winner_has_its_twin_tried),
        cmocka_unit_test(steps_from_the_best_are_tried),
        cmocka_unit_test(each_family_is_asked_here),
        cmocka_unit_test(the_gap_covers_what_is_closed),
        cmocka_unit_test(the_gap_follows_the_evidence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
