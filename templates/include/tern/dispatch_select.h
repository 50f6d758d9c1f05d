/* The selection of exported tables: pure functions of a table, C99 and C++11; no allocation, no lock, any thread.
 * Shared by exported headers, which hold a copy of this text, and by tern_rt. The twin of harness/output/select.c: whoever
 * changes one changes the other, and test_output_export.c compares them. */
#ifndef TERN_DISPATCH_SELECT_H
#define TERN_DISPATCH_SELECT_H

#include <string.h>

static inline int64_t tern_min_(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t tern_max_(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static inline int64_t tern_ceil_div_(int64_t a, int64_t b) {
    return a / b + (a % b > 0);
}

/* The kernel is made for this m, and its launch, then in *c, is within the limits of the device. */
static inline int tern_takes_(const struct tern_table *t, int index, int64_t m, int64_t n, int64_t k,
                              struct tern_choice *c) {
    const struct tern_kernel_ *kernel = &t->kernels[index];
    if (m < kernel->kernel.min_m || m > kernel->kernel.max_m)
        return 0;
    kernel->launch(c, m, n, k);
    return c->grid[0] > 0 && c->grid[0] <= 2147483647 && c->grid[1] > 0 && c->grid[1] <= 65535 && c->grid[2] > 0 &&
           c->grid[2] <= 65535 && c->block > 0 && c->block <= 1024 && c->cluster > 0 &&
           (c->cluster == 1 || c->grid[0] % c->cluster == 0) && c->smem_bytes >= 0 &&
           c->smem_bytes + kernel->kernel.static_smem_bytes <= t->smem_bytes && c->workspace_bytes >= 0 &&
           (!kernel->kernel.prologue ||
            (c->prologue_grid > 0 && c->prologue_grid <= 2147483647 && c->prologue_block > 0 && c->prologue_block <= 1024));
}

/* The first step for sizes like this one; count where there is none. */
static inline int tern_step_for_(const struct tern_step_ *steps, int count, int64_t size) {
    int low = 0, high = count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (size <= steps[middle].size)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The kernel for another shape by the bands of an entry, -1 where none was found. The last step of a band serves all larger n, the last
 * band all larger k. */
static inline int tern_beside_(const struct tern_step_ *bands, int count, int64_t n, int64_t k) {
    const struct tern_step_ *steps = bands + count;
    int band, first, last;
    if (count == 0)
        return -1;
    band = tern_step_for_(bands, count - 1, k);
    first = band > 0 ? bands[band - 1].kernel : 0;
    last = bands[band].kernel - 1;
    return steps[first + tern_step_for_(steps + first, last - first, n)].kernel;
}

/* The one for a problem that is not this entry's: of another shape, else by its m, between this entry's and the one before. */
static inline int tern_step_below_(const struct tern_table *t, const struct tern_entry_ *entry, int64_t m, int64_t n,
                                   int64_t k, int other_shape, int between) {
    const struct tern_step_ *steps = t->steps + entry->first_step;
    const int beside = other_shape ? tern_beside_(steps + entry->step_count, entry->band_count, n, k) : -1;
    int step;
    if (beside >= 0 || !between)
        return beside;
    step = tern_step_for_(steps, entry->step_count, m);
    return step < entry->step_count ? steps[step].kernel : -1;
}

/* The entry for m inside a group, its launch in *c and the kernel's index in *kernel. For other shapes and between two tuned m: the
 * kernel that the exporter expects to be the fastest, if it found one. Else the next larger tuned m costs at most its own time, the next
 * smaller one ceil(m / tuned) times its own; the cheaper wins, the larger on a tie. Where neither takes m: the nearest larger,
 * then the nearest smaller that does. */
static inline const struct tern_entry_ *tern_find_(const struct tern_table *t, const struct tern_group_ *group, int64_t m,
                                                   int64_t n, int64_t k, int other_shape, struct tern_choice *c, int *kernel,
                                                   int *exact) {
    const struct tern_entry_ *entries = t->entries + group->first;
    const int count = group->count;
    int above = 0, i;
    while (above < count && entries[above].m < m)
        above++;
    *exact = above < count && entries[above].m == m;
    if (above < count) {
        *kernel = tern_step_below_(t, &entries[above], m, n, k, other_shape, above > 0 && !*exact);
        if (*kernel >= 0 && tern_takes_(t, *kernel, m, n, k, c))
            return &entries[above];
    }
    if (above < count && tern_takes_(t, *kernel = entries[above].kernel, m, n, k, c)) {
        const struct tern_entry_ *high = &entries[above], *low = high - 1;
        struct tern_choice other;
        if (*exact || above == 0 || low->ns >= high->ns / ((m - 1) / low->m + 1))
            return high;
        other = *c;
        if (!tern_takes_(t, low->kernel, m, n, k, &other))
            return high;
        *c = other;
        *kernel = low->kernel;
        return low;
    }
    *exact = 0;
    for (i = above; i < count; i++)
        if (tern_takes_(t, *kernel = entries[i].kernel, m, n, k, c))
            return &entries[i];
    for (i = above; i-- > 0;)
        if (tern_takes_(t, *kernel = entries[i].kernel, m, n, k, c))
            return &entries[i];
    return NULL;
}

/* The tuned (n, k) with the smallest of max(|log2 n ratio|, |log2 k ratio|), as the fraction over / under. All sizes are below
 * 2^31, so that the products are exact. */
static inline const struct tern_group_ *tern_nearest_(const struct tern_table *t, const struct tern_family_ *family,
                                                      int64_t n, int64_t k, int64_t *over, int64_t *under) {
    const struct tern_group_ *groups = t->groups + family->first, *best = NULL;
    int i;
    for (i = 0; i < family->count; i++)
        if (groups[i].n == n && groups[i].k == k)
            return &groups[i];
    for (i = 0; i < family->count; i++) {
        const struct tern_group_ *group = &groups[i];
        int64_t a = tern_max_(n, group->n), b = tern_min_(n, group->n);
        int64_t c = tern_max_(k, group->k), d = tern_min_(k, group->k);
        if (a * d < c * b)
            a = c, b = d;
        if (!best || a * *under < *over * b)
            best = group, *over = a, *under = b;
    }
    return best;
}

static inline const struct tern_family_ *tern_family_of_(const struct tern_table *t, const char *op, const char *format) {
    int i;
    for (i = 0; i < t->family_count; i++)
        if (strcmp(t->families[i].format, format) == 0 && strcmp(t->families[i].op, op) == 0)
            return &t->families[i];
    return NULL;
}

/* No kernel. Field by field, here and below: what is copied whole right behind stores of its fields waits for these. */
static inline void tern_nothing_(struct tern_choice *c, int use_cublas) {
    c->kernel = NULL;
    c->grid[0] = c->grid[1] = c->grid[2] = c->block = c->cluster = 0;
    c->smem_bytes = c->workspace_bytes = c->prologue_grid = c->prologue_block = 0;
    c->use_cublas = use_cublas;
    c->use_dequant = 0;
    c->match = TERN_MATCH_NONE;
    c->tuned_m = c->tuned_n = c->tuned_k = 0;
    c->tuned_us = 0.0;
}

static inline struct tern_choice tern_choose_(const struct tern_table *t, const char *format, const char *op, int64_t m,
                                              int64_t n, int64_t k) {
    const int64_t limit = (int64_t)1 << 24, unknown_ns = INT64_MAX / 4;
    const struct tern_family_ *family;
    const struct tern_group_ *group;
    const struct tern_entry_ *entry;
    int64_t over = 1, under = 1;
    int kernel = 0, exact = 0, other_shape;
    struct tern_choice c;
    tern_nothing_(&c, m > 0 && n > 0 && k > 0);
    if (m <= 0 || n <= 0 || k <= 0 || m >= limit || n >= limit || k >= limit || n % 8 != 0 || k % 32 != 0)
        return c;
    family = tern_family_of_(t, op ? op : "linear-a16", format);
    group = family ? tern_nearest_(t, family, n, k, &over, &under) : NULL;
    other_shape = over != under;
    entry = group ? tern_find_(t, group, m, n, k, other_shape, &c, &kernel, &exact) : NULL;
    if (!entry) {
        tern_nothing_(&c, 1); /* a launch that does not fit was in it */
        return c;
    }
    c.kernel = &t->kernels[kernel].kernel;
    c.use_cublas = entry->use_cublas;
    c.use_dequant = entry->use_dequant;
    c.tuned_m = entry->m;
    c.tuned_n = group->n;
    c.tuned_k = group->k;
    c.tuned_us = entry->ns < unknown_ns ? (double)entry->ns / 1000.0 : 0.0;
    if (other_shape)
        c.match = over <= 4 * under ? TERN_MATCH_NEAR : TERN_MATCH_DEFAULT;
    else
        c.match = exact ? TERN_MATCH_EXACT : TERN_MATCH_BETWEEN;
    return c;
}

/* Whether `name` is one of the names in `list`, which | separates. */
static inline int tern_named_(const char *list, const char *name) {
    const size_t length = strlen(name);
    const char *at;
    for (at = list; *at;) {
        const size_t part = strcspn(at, "|");
        if (part == length && strncmp(at, name, length) == 0)
            return 1;
        at += part + (at[part] == '|');
    }
    return 0;
}

/* How well a table fits a GPU: exact by name and size; near where the compute capability is the same; default where the
 * driver can load the kernels (same major, "sm_80" on 8.6, never "sm_90a"); none elsewhere. */
static inline enum tern_match tern_fit_(const struct tern_table *t, const char *device, int cc, int64_t sms) {
    const size_t length = strlen(t->arch);
    if (t->cc == cc)
        return t->sms == sms && tern_named_(t->devices, device) ? TERN_MATCH_EXACT : TERN_MATCH_NEAR;
    if (t->cc / 10 == cc / 10 && t->cc < cc && length && t->arch[length - 1] >= '0' && t->arch[length - 1] <= '9')
        return TERN_MATCH_DEFAULT;
    return TERN_MATCH_NONE;
}

/* The best table for a GPU, of two that fit alike the one of nearer size, then the first; NULL with NONE. */
static inline const struct tern_table *tern_choose_table_(const struct tern_table *tables, int count, const char *device,
                                                          int cc, int64_t sms, enum tern_match *match) {
    const struct tern_table *best = NULL;
    int64_t over = 0, under = 1;
    int i;
    *match = TERN_MATCH_NONE;
    for (i = 0; i < count; i++) {
        const enum tern_match fit = tern_fit_(&tables[i], device, cc, sms);
        const int64_t a = tern_max_(sms, tables[i].sms), b = tern_min_(sms, tables[i].sms);
        if (fit == TERN_MATCH_NONE || (best && ((int)fit > (int)*match || (fit == *match && a * under >= over * b))))
            continue;
        best = &tables[i], over = a, under = b;
        *match = fit;
    }
    return best;
}

static inline const char *tern_match_text_(enum tern_match match) {
    static const char *const names[] = {"none", "exact", "between", "near", "default"};
    return (int)match >= 0 && (int)match < 5 ? names[(int)match] : "?";
}

#endif
