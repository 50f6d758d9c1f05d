/* What became of candidates, by template, and why. See trials.h. */
#include "output/report_parts.h"
#include "output/trials_parts.h"

#include <stdlib.h>
#include <string.h>

#define REASONS 5 /* of one outcome; the rest is counted */

struct reason {
    const char *detail;
    size_t count;
};

/* Stages that try a candidate; a final repeats one that was tried. */
static bool counts(const struct tern_trial *t) {
    return strcmp(t->stage, "final") != 0 && strcmp(t->stage, "sustained") != 0;
}

static int compare_groups(const void *left, const void *right) {
    const struct outcome_group *a = left, *b = right;
    int order = strcmp(a->template_name, b->template_name);
    return order ? order : (int)a->outcome - (int)b->outcome;
}

struct outcome_group *outcome_groups(const struct tern_trial *trials, size_t count, size_t *group_count) {
    struct outcome_group *groups = NULL;
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        size_t g = 0;
        if (!counts(&trials[i]))
            continue;
        while (g < found &&
               (groups[g].outcome != trials[i].outcome || strcmp(groups[g].template_name, trials[i].template_name) != 0))
            g++;
        if (g == found) {
            groups = tern_realloc(groups, (found + 1) * sizeof *groups);
            groups[found++] = (struct outcome_group){trials[i].template_name, trials[i].outcome, 0, i};
        }
        groups[g].count++;
    }
    if (found > 1)
        qsort(groups, found, sizeof *groups, compare_groups);
    *group_count = found;
    return groups;
}

static int compare_reasons(const void *left, const void *right) {
    const struct reason *a = left, *b = right;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return strcmp(a->detail, b->detail);
}

/* Reasons of a group, the most frequent first; the caller frees. */
static struct reason *reasons_of(const struct tern_trial *trials, size_t count, const struct outcome_group *group,
                                 size_t *reason_count) {
    struct reason *list = NULL;
    size_t found = 0;
    for (size_t i = group->first; i < count; i++) {
        const struct tern_trial *t = &trials[i];
        size_t r = 0;
        if (!counts(t) || t->outcome != group->outcome || strcmp(t->template_name, group->template_name) != 0 ||
            !t->detail[0])
            continue;
        while (r < found && strcmp(list[r].detail, t->detail) != 0)
            r++;
        if (r == found) {
            list = tern_realloc(list, (found + 1) * sizeof *list);
            list[found++] = (struct reason){t->detail, 0};
        }
        list[r].count++;
    }
    if (found > 1)
        qsort(list, found, sizeof *list, compare_reasons);
    *reason_count = found;
    return list;
}

static void print_reasons(FILE *out, const struct tern_trial *trials, size_t count, const struct outcome_group *group) {
    size_t found = 0, others = 0;
    struct reason *list = reasons_of(trials, count, group, &found);
    for (size_t i = 0; i < found; i++) {
        char text[80];
        if (i < REASONS)
            fprintf(out, "    %6zu %-9s %s\n", list[i].count, tern_outcome_name(group->outcome),
                    trials_fit(text, sizeof text, list[i].detail, 58));
        else
            others += list[i].count;
    }
    if (others)
        fprintf(out, "    %6zu %-9s for %zu other reasons\n", others, tern_outcome_name(group->outcome), found - REASONS);
    free(list);
}

void outcome_print(FILE *out, const struct tern_trial *trials, size_t count) {
    size_t group_count = 0;
    struct outcome_group *groups = outcome_groups(trials, count, &group_count);
    for (size_t g = 0; g < group_count; g++) {
        bool fresh = !g || strcmp(groups[g].template_name, groups[g - 1].template_name) != 0;
        size_t total = 0;
        for (size_t h = g; fresh && h < group_count && !strcmp(groups[h].template_name, groups[g].template_name); h++)
            total += groups[h].count;
        if (fresh)
            fprintf(out, "%s  %-16s %6zu tried:", g ? "\n" : "", groups[g].template_name, total);
        fprintf(out, "%s %zu %s", fresh ? "" : ",", groups[g].count, tern_outcome_name(groups[g].outcome));
    }
    fputs(group_count ? "\n" : "", out);
    for (size_t g = 0; g < group_count; g++)
        if (groups[g].outcome != TERN_OUTCOME_OK)
            print_reasons(out, trials, count, &groups[g]);
    free(groups);
}

json_t *outcome_json(const struct tern_trial *trials, size_t count) {
    size_t group_count = 0;
    struct outcome_group *groups = outcome_groups(trials, count, &group_count);
    json_t *rows = json_array();
    for (size_t g = 0; g < group_count; g++) {
        size_t found = 0;
        struct reason *list = reasons_of(trials, count, &groups[g], &found);
        json_t *reasons = json_array();
        for (size_t i = 0; i < found; i++)
            json_array_append_new(
                reasons, json_pack("{s:o, s:I}", "detail", trials_text(list[i].detail), "count", (json_int_t)list[i].count));
        json_array_append_new(rows, json_pack("{s:s, s:s, s:I, s:o}", "template", groups[g].template_name, "outcome",
                                              tern_outcome_name(groups[g].outcome), "count", (json_int_t)groups[g].count,
                                              "reasons", reasons));
        free(list);
    }
    free(groups);
    return rows;
}

/* Formats and ops one after the other: candidates of two of them are different programs. */
void tern_trials_outcomes(FILE *out, const struct tern_trials *list) {
    for (size_t at = 0, end; at < list->count; at = end) {
        const struct tern_result *p = list->rows[at].problem;
        for (end = at + 1; end < list->count; end++) {
            const struct tern_result *q = list->rows[end].problem;
            if (!p != !q ||
                (p && (strcmp(p->shapes, q->shapes) != 0 || strcmp(p->format, q->format) != 0 || strcmp(p->op, q->op) != 0)))
                break;
        }
        char series[64];
        if (p) {
            report_series(p, series, sizeof series);
            fprintf(out, "%s%s  %s  on %s: checks and screens\n", at ? "\n" : "", p->shapes, series, p->gpu);
        } else
            fprintf(out, "\nrefused by the compiler, whatever the problem\n");
        outcome_print(out, &list->rows[at], end - at);
    }
}

void tern_trials_outcomes_json(FILE *out, const char *gpu, const char *db, const struct tern_trials *list) {
    trials_print_json(out, gpu, db, "outcomes", outcome_json(list->rows, list->count));
}
