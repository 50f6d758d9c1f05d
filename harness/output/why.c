/* Why a winner is one: finalists, what was pruned by which rule, what failed, what the compiler says. See trials.h. */
#include "output/report_parts.h"
#include "output/trials_parts.h"

#include <math.h>
#include <string.h>

#define LINE_WIDTH    79
#define PARAMS_INDENT 7

/* Words from column `indent` on, broken at blanks before column 80; the first line starts where the caller left off. */
static void print_words(FILE *out, size_t indent, const char *text) {
    size_t column = indent;
    for (const char *word = text; *word;) {
        size_t length = strcspn(word, " ");
        if (column > indent && column + 1 + length > LINE_WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        }
        column += (size_t)fprintf(out, "%s%.*s", column > indent ? " " : "", (int)length, word);
        word += length + (word[length] == ' ');
    }
    fputc('\n', out);
}

static void print_params(FILE *out, const char *params) {
    fprintf(out, "%*s", PARAMS_INDENT, "");
    print_words(out, PARAMS_INDENT, params);
}

static void print_winner(FILE *out, const struct tern_why *why) {
    const struct tern_result *w = why->winner;
    char series[64];
    report_series(w, series, sizeof series);
    fprintf(out, "%s  %s  %s %lldx%lld  M=%lld  on %s%s%s\n", w->shapes, series, w->layer, (long long)w->n, (long long)w->k,
            (long long)w->m, w->gpu, w->policy[0] ? ", " : "", w->policy);
    if (w->planned) {
        fprintf(out, "PLANNED: %s, predicted %.2f us, limit %.2f us; nothing was measured\n", w->template_name,
                w->predicted_us, w->limit_us);
    } else {
        fprintf(out, "%s: %.2f us, 95 %% within %.2f to %.2f; limit %.2f us (%.0f %%)\n", w->template_name, w->us, w->us_lo,
                w->us_hi, w->limit_us, w->pct_of_limit);
        fprintf(out, "P(fastest finalist) %.2f; another choice may save up to %.1f %%\n", w->p_best, 100 * w->regret);
    }
    print_params(out, w->params);
    if (isfinite(w->speedup))
        fprintf(out, "%.2f times as fast as %s (%.2f us)", w->speedup, w->baseline, w->baseline_us);
    if (isfinite(w->speedup_lo) && isfinite(w->speedup_hi))
        fprintf(out, ", 95 %% within %.2f to %.2f", w->speedup_lo, w->speedup_hi);
    if (isfinite(w->speedup))
        fputc('\n', out);
    if (isfinite(w->sustained_us))
        fprintf(out, "under load: %.2f us, %.2f times as fast as cuBLASLt under its own\n", w->sustained_us,
                w->sustained_speedup);
}

static bool of_stage(const struct tern_trial *t, const char *stage) {
    return t->problem && strcmp(t->stage, stage) == 0;
}

/* The screening time of a finalist, NAN if it was not screened. */
static double screen_us(const struct tern_why *why, const struct tern_trial *f) {
    for (size_t i = 0; i < why->trial_count; i++) {
        const struct tern_trial *t = &why->trials[i];
        if (of_stage(t, "screen") && t->outcome == TERN_OUTCOME_OK && !strcmp(t->template_name, f->template_name) &&
            !strcmp(t->params, f->params))
            return t->us;
    }
    return (double)NAN;
}

static void print_finalists(FILE *out, const struct tern_why *why) {
    bool headed = false;
    for (size_t i = 0; i < why->trial_count; i++) {
        const struct tern_trial *t = &why->trials[i];
        char us[24], screen[24], name[24], detail[80];
        if (!of_stage(t, "final"))
            continue;
        if (!headed)
            fprintf(out, "\nfinalists, in rounds with the baselines\n  %-16s %8s %17s %8s %6s %5s %6s\n", "", "us",
                    "95 % interval", "screened", "rounds", "regs", "spills");
        headed = true;
        fprintf(out, "  %-16s %8s %8.2f %8.2f %8s %6lld %5lld %6lld\n", trials_fit(name, sizeof name, t->template_name, 16),
                trials_us(us, sizeof us, t->us), t->us_lo, t->us_hi, trials_us(screen, sizeof screen, screen_us(why, t)),
                (long long)t->samples, (long long)t->registers, (long long)t->spill_bytes);
        print_params(out, t->params);
        if (t->outcome != TERN_OUTCOME_OK || t->detail[0])
            fprintf(out, "       %s: %s\n", tern_outcome_name(t->outcome), trials_fit(detail, sizeof detail, t->detail, 62));
    }
    for (size_t i = 0; i < why->baseline_count; i++) {
        const struct tern_why_baseline *b = &why->baselines[i];
        char us[24], name[32];
        fprintf(out, "  %-16s %8s %8.2f %8.2f\n", trials_fit(name, sizeof name, b->kind, 26),
                trials_us(us, sizeof us, b->us), b->us_lo, b->us_hi);
    }
}

static void print_rules(FILE *out, const struct tern_why *why) {
    fprintf(out, "\npruned by the templates of today, which have %lld candidates for it\n", (long long)why->grid);
    for (size_t i = 0; i < why->rule_count; i++) {
        const struct tern_why_rule *r = &why->rules[i];
        char name[24];
        size_t column = (size_t)fprintf(out, "  %-16s ", trials_fit(name, sizeof name, r->template_name, 16));
        column += r->count ? (size_t)fprintf(out, "%8lld  ", (long long)r->count) : (size_t)fprintf(out, "%8s  ", "all");
        print_words(out, column, r->reason);
    }
    if (!why->rule_count)
        fprintf(out, "  nothing\n");
}

static void print_compiler(FILE *out, const struct tern_why *why) {
    const struct tern_result *w = why->winner;
    fprintf(out, "\nthe winner as compiled for %s: %lld registers, %lld bytes spilled,\n", w->arch, (long long)w->registers,
            (long long)w->spill_bytes);
    fprintf(out, "%lld bytes of static shared memory", (long long)w->static_smem_bytes);
    if (why->block)
        fprintf(out, ", %lld dynamic; %lldx%lldx%lld blocks of %lld threads", (long long)why->smem_bytes,
                (long long)why->launch_grid[0], (long long)why->launch_grid[1], (long long)why->launch_grid[2],
                (long long)why->block);
    fputc('\n', out);
    for (const char *line = why->compiler; *line;) {
        char text[160], cut[80];
        size_t length = strcspn(line, "\n");
        tern_str_format(text, sizeof text, "%.*s", (int)(length < 150 ? length : 150), line);
        fprintf(out, "  %s\n", trials_fit(cut, sizeof cut, text, 77));
        line += length + (line[length] == '\n');
    }
}

void tern_why_print(FILE *out, const struct tern_why *why) {
    print_winner(out, why);
    print_finalists(out, why);
    fprintf(out, "\ntried: the search asks for no more once none of the rest may be faster\n");
    outcome_print(out, why->trials, why->trial_count);
    print_rules(out, why);
    print_compiler(out, why);
}

/* ---- JSON ---- */

static json_t *finalists_json(const struct tern_why *why) {
    json_t *list = json_array();
    for (size_t i = 0; i < why->trial_count; i++)
        if (of_stage(&why->trials[i], "final")) {
            json_t *one = trials_one_json(&why->trials[i]);
            json_object_set_new(one, "screen_us", trials_number(screen_us(why, &why->trials[i])));
            json_array_append_new(list, one);
        }
    return list;
}

static json_t *winner_json(const struct tern_result *w) {
    return json_pack("{s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "template",
                     trials_text(w->template_name), "params", trials_text(w->params), "planned", w->planned, "us",
                     trials_number(w->us), "us_lo", trials_number(w->us_lo), "us_hi", trials_number(w->us_hi), "p_best",
                     trials_number(w->p_best), "regret", trials_number(w->regret), "limit_us", trials_number(w->limit_us),
                     "speedup", trials_number(w->speedup), "sustained_us", trials_number(w->sustained_us), "registers",
                     (json_int_t)w->registers, "spill_bytes", (json_int_t)w->spill_bytes, "static_smem_bytes",
                     (json_int_t)w->static_smem_bytes);
}

void tern_why_json(FILE *out, const char *gpu, const char *db, const struct tern_why *list, size_t count) {
    json_t *problems = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct tern_why *why = &list[i];
        json_t *baselines = json_array(), *rules = json_array(), *one = json_object();
        for (size_t b = 0; b < why->baseline_count; b++)
            json_array_append_new(baselines, json_pack("{s:s, s:o, s:o, s:o}", "name", why->baselines[b].kind, "us",
                                                       trials_number(why->baselines[b].us), "us_lo",
                                                       trials_number(why->baselines[b].us_lo), "us_hi",
                                                       trials_number(why->baselines[b].us_hi)));
        for (size_t r = 0; r < why->rule_count; r++)
            json_array_append_new(rules,
                                  json_pack("{s:s, s:o, s:I}", "template", why->rules[r].template_name, "reason",
                                            trials_text(why->rules[r].reason), "count", (json_int_t)why->rules[r].count));
        trials_add_problem(one, why->winner);
        json_object_set_new(one, "winner", winner_json(why->winner));
        json_object_set_new(one, "finalists", finalists_json(why));
        json_object_set_new(one, "baselines", baselines);
        json_object_set_new(one, "outcomes", outcome_json(why->trials, why->trial_count));
        json_object_set_new(one, "candidates", json_integer((json_int_t)why->grid));
        json_object_set_new(one, "rules", rules);
        json_object_set_new(one, "compiler", trials_text(why->compiler));
        json_array_append_new(problems, one);
    }
    trials_print_json(out, gpu, db, "problems", problems);
}
