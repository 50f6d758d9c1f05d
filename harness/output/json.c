/* The --json of `run` and `show` (documented in design 8): stable keys, unknown numbers null. */
#include "output/table.h"

#include "core/str.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

/* JSON has no NaN: what is unknown is null, never 0. */
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

/* Text that is not UTF-8 (a strange file name) keeps its ASCII part; JSON cannot hold the rest. */
static json_t *text(const char *value) {
    json_t *string = json_string(value);
    if (string)
        return string;
    char *copy = tern_strdup(value);
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    string = json_string(copy);
    free(copy);
    return string;
}

/* Where times come from: a replay's were measured once, but not by this run. */
static const char *how(const char *gpu, bool planned) {
    return planned ? "planned" : tern_is_replay_name(gpu) ? "replayed" : "measured";
}

/* The kernel and its evidence; us in microseconds. predicted_us is the cost model's, us stays null in planned rows. */
static json_t *winner(const struct tern_result *row) {
    if (!row->template_name[0])
        return json_null();
    json_t *object = json_object();
    json_object_set_new(object, "template", text(row->template_name));
    json_object_set_new(object, "params", text(row->params));
    json_object_set_new(object, "us", number(row->us));
    json_object_set_new(object, "us_lo", number(row->us_lo));
    json_object_set_new(object, "us_hi", number(row->us_hi));
    json_object_set_new(object, "p_best", number(row->p_best));
    json_object_set_new(object, "regret", number(row->regret));
    json_object_set_new(object, "predicted_us", number(row->predicted_us));
    return object;
}

/* The keys of one problem, in the documented order: people read it too. */
static json_t *problem(const struct tern_result *row) {
    json_t *object = json_object(), *baseline = json_null();
    if (row->baseline[0]) {
        baseline = json_object();
        json_object_set_new(baseline, "name", text(row->baseline));
        json_object_set_new(baseline, "us", number(row->baseline_us));
    }
    json_object_set_new(object, "layer", text(row->layer));
    json_object_set_new(object, "format", text(row->format));
    json_object_set_new(object, "op", text(row->op));
    json_object_set_new(object, "m", json_integer(row->m));
    json_object_set_new(object, "n", json_integer(row->n));
    json_object_set_new(object, "k", json_integer(row->k));
    json_object_set_new(object, "policy", row->policy[0] ? text(row->policy) : json_null());
    json_object_set_new(object, "status", text(!row->template_name[0] ? "none" : how(row->gpu, row->planned)));
    json_object_set_new(object, "winner", winner(row));
    json_object_set_new(object, "baseline", baseline);
    json_object_set_new(object, "speedup", number(row->speedup));
    json_object_set_new(object, "speedup_lo", number(row->speedup_lo));
    json_object_set_new(object, "sustained_us", number(row->sustained_us));
    json_object_set_new(object, "sustained_speedup", number(row->sustained_speedup));
    json_object_set_new(object, "limit_us", number(row->limit_us));
    json_object_set_new(object, "pct_of_limit", number(row->pct_of_limit));
    return object;
}

void tern_output_run_json(FILE *out, const char *gpu, bool planned, const char *db, const struct tern_results *results,
                          const int64_t outcomes[TERN_OUTCOME_COUNT]) {
    json_t *root = json_object(), *problems = json_array(), *counts = json_object();
    for (size_t i = 0; i < results->count; i++)
        json_array_append_new(problems, problem(&results->rows[i]));
    /* Every outcome, also those with count 0: a reader need not test for the key. */
    for (int i = 0; outcomes && i < TERN_OUTCOME_COUNT; i++)
        json_object_set_new(counts, tern_outcome_name((enum tern_outcome)i), json_integer(outcomes[i]));
    json_object_set_new(root, "gpu", text(gpu));
    json_object_set_new(root, "mode", text(how(gpu, planned)));
    json_object_set_new(root, "db", text(db));
    json_object_set_new(root, "problems", problems);
    json_object_set_new(root, "outcomes", counts);
    /* Nine digits: finer than any clock here, and free of binary noise such as 13.100000000000001. */
    json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(root);
}
