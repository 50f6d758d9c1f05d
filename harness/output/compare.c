/* Pairs two sets of results and judges each pair. See compare.h. */
#include "output/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const verdict_names[] = {
#define X(id, name, meaning) name,
    TERN_COMPARE_VERDICTS(X)
#undef X
};

const char *tern_compare_verdict_name(enum tern_compare_verdict verdict) {
    return verdict_names[verdict];
}

/* Two names that contradict each other; one that is not known contradicts nothing. */
static bool differ(const char *a, const char *b) {
    return a[0] && b[0] && strcmp(a, b) != 0;
}

static bool same_problem(const struct tern_result *a, const struct tern_result *b) {
    return a->m == b->m && a->n == b->n && a->k == b->k && !strcmp(a->layer, b->layer) && !strcmp(a->format, b->format) &&
           !strcmp(a->op, b->op) && !differ(a->shapes, b->shapes);
}

static bool measured(const struct tern_result *row) {
    return !row->planned && row->us > 0;
}

static bool other_device(const struct tern_result *a, const struct tern_result *b) {
    return differ(a->gpu, b->gpu) || differ(a->device, b->device);
}

/* Index of the row of b that answers for this row of a: of the same GPU if there is one. b->count if there is none. */
static size_t find_partner(const struct tern_result *row, const struct tern_results *b, const bool *taken) {
    size_t found = b->count;
    for (size_t i = 0; i < b->count; i++) {
        if (taken[i] || !measured(&b->rows[i]) || !same_problem(row, &b->rows[i]))
            continue;
        if (!other_device(row, &b->rows[i]))
            return i;
        found = found == b->count ? i : found;
    }
    return found;
}

/* Comparisons are written so that NaN, an interval that is not known, ends in AMBIGUOUS. */
static enum tern_compare_verdict judge(const struct tern_compare_row *row) {
    if (row->lo > 1 + row->noise)
        return TERN_COMPARE_SLOWER;
    if (row->hi < 1 / (1 + row->noise))
        return TERN_COMPARE_FASTER;
    if (row->lo >= 1 / (1 + row->noise) && row->hi <= 1 + row->noise)
        return TERN_COMPARE_SAME;
    return TERN_COMPARE_AMBIGUOUS;
}

static void compare_pair(struct tern_compare_row *row, tern_compare_noise *noise, void *user) {
    const struct tern_result *a = row->a, *b = row->b;
    if (other_device(a, b)) {
        row->verdict = TERN_COMPARE_OTHER_DEVICE;
    } else if (differ(a->policy, b->policy)) {
        row->verdict = TERN_COMPARE_OTHER_POLICY;
    } else {
        row->ratio = b->us / a->us;
        row->lo = row->ratio * exp(-hypot(log(b->us / b->us_lo), log(a->us_hi / a->us)));
        row->hi = row->ratio * exp(hypot(log(b->us_hi / b->us), log(a->us / a->us_lo)));
        row->noise = noise(user, a, b);
        row->verdict = judge(row);
    }
}

static struct tern_compare_row *add_row(struct tern_compare *out, const struct tern_result *a, const struct tern_result *b) {
    struct tern_compare_row *row = &out->rows[out->count++];
    *row = (struct tern_compare_row){.a = a, .b = b, .ratio = NAN, .lo = NAN, .hi = NAN, .noise = NAN};
    return row;
}

/* Rows of b without a partner stand behind those of their GPU, model, format and layer in a. */
static void add_new(struct tern_compare *out, const struct tern_results *b, const bool *taken) {
    for (size_t i = 0; i < b->count; i++)
        if (!taken[i] && measured(&b->rows[i]))
            add_row(out, NULL, &b->rows[i])->verdict = TERN_COMPARE_NEW;
}

/* What all rows have in common, and what is not known of them. */
static void add_notes(struct tern_compare *out) {
    size_t unknown = 0, drivers = 0, devices = 0;
    const struct tern_compare_row *moved = NULL;
    for (size_t i = 0; i < out->count; i++) {
        const struct tern_compare_row *row = &out->rows[i];
        if (!(row->ratio > 0))
            continue;
        unknown += !row->a->policy[0] || !row->b->policy[0];
        devices += !row->a->device[0] || !row->b->device[0];
        if (differ(row->a->driver, row->b->driver)) {
            drivers++;
            moved = row;
        }
    }
    struct tern_str text = {0};
    if (unknown)
        tern_str_printf(&text, "%zu rows do not know their policy and were compared as if it were the same.", unknown);
    if (text.length)
        tern_strs_add(&out->notes, text.data);
    tern_str_free(&text);
    if (devices)
        tern_str_printf(&text, "%zu rows do not know their device and were compared as if it were the same.", devices);
    if (text.length)
        tern_strs_add(&out->notes, text.data);
    tern_str_free(&text);
    if (moved) {
        tern_str_printf(&text, "The driver differs: %s in A, %s in B (%zu rows).", moved->a->driver, moved->b->driver,
                        drivers);
        tern_strs_add(&out->notes, text.data);
    }
    tern_str_free(&text);
}

/* One sentence a pair of policies, or of devices, that kept rows from being compared. */
static void add_reasons(struct tern_compare *out) {
    for (size_t i = 0; i < out->count; i++) {
        const struct tern_compare_row *row = &out->rows[i];
        bool policy = row->verdict == TERN_COMPARE_OTHER_POLICY;
        struct tern_str text = {0};
        if (policy)
            tern_str_printf(&text, "Not compared: rows timed under policy %s in A and %s in B.", row->a->policy,
                            row->b->policy);
        else if (row->verdict == TERN_COMPARE_OTHER_DEVICE)
            tern_str_printf(&text, "Not compared: rows of %s in A and of %s in B.",
                            differ(row->a->device, row->b->device) ? row->a->device : row->a->gpu,
                            differ(row->a->device, row->b->device) ? row->b->device : row->b->gpu);
        bool known = text.length == 0;
        for (size_t n = 0; n < out->notes.count && !known; n++)
            known = strcmp(out->notes.items[n], text.data) == 0;
        if (!known)
            tern_strs_add(&out->notes, text.data);
        tern_str_free(&text);
    }
}

void tern_compare(const struct tern_results *a, const struct tern_results *b, tern_compare_noise *noise, void *user,
                  struct tern_compare *out) {
    bool *taken = tern_alloc_zero(b->count + 1, sizeof *taken);
    double sum = 0;
    out->rows = tern_alloc_zero(a->count + b->count + 1, sizeof *out->rows);
    for (size_t i = 0; i < a->count; i++) {
        if (!measured(&a->rows[i]))
            continue;
        size_t partner = find_partner(&a->rows[i], b, taken);
        struct tern_compare_row *row = add_row(out, &a->rows[i], partner < b->count ? &b->rows[partner] : NULL);
        row->verdict = TERN_COMPARE_MISSING;
        if (row->b)
            compare_pair(row, noise, user);
        taken[partner] = true;
    }
    add_new(out, b, taken);
    for (size_t i = 0; i < out->count; i++) {
        out->counts[out->rows[i].verdict]++;
        sum += out->rows[i].ratio > 0 ? log(out->rows[i].ratio) : 0;
    }
    size_t judged = tern_compare_judged(out);
    out->mean_ratio = judged ? exp(sum / (double)judged) : (double)NAN;
    add_notes(out);
    add_reasons(out);
    free(taken);
}

void tern_compare_free(struct tern_compare *c) {
    free(c->rows);
    tern_strs_free(&c->notes);
    memset(c, 0, sizeof *c);
}

size_t tern_compare_judged(const struct tern_compare *c) {
    return c->counts[TERN_COMPARE_SAME] + c->counts[TERN_COMPARE_FASTER] + c->counts[TERN_COMPARE_SLOWER] +
           c->counts[TERN_COMPARE_AMBIGUOUS];
}

size_t tern_compare_failed(const struct tern_compare *c) {
    return c->counts[TERN_COMPARE_SLOWER] + c->counts[TERN_COMPARE_MISSING];
}
