/* The progress line. See progress.h. */
#include "output/progress.h"

#include "core/str.h"

#include <math.h>
#include <string.h>

#define BAR 12 /* cells */

/* Appends if it fits; words stand two blanks apart. */
static void add(char *out, const char *text) {
    size_t length = strlen(out);
    if (text[0] && length + 2 + strlen(text) < TERN_PROGRESS_SIZE)
        tern_str_format(out + length, TERN_PROGRESS_SIZE - length, "  %s", text);
}

/* Seconds that the rest takes if it goes on as so far; NAN as long as nothing was done. */
static double left_s(const struct tern_progress *p) {
    if (p->done <= p->before || p->total <= p->done || !(p->elapsed_s > 0))
        return (double)NAN;
    return p->elapsed_s / (double)(p->done - p->before) * (double)(p->total - p->done);
}

static void add_left(char *out, double seconds) {
    char text[32];
    long long whole = isfinite(seconds) && seconds < 1e9 ? (long long)(seconds + 0.5) : -1;
    if (whole < 0)
        return;
    if (whole < 60)
        tern_str_format(text, sizeof text, "%llds left", whole);
    else if (whole < 3600)
        tern_str_format(text, sizeof text, "%lldm%02llds left", whole / 60, whole % 60);
    else
        tern_str_format(text, sizeof text, "%lldh%02lldm left", whole / 3600, whole / 60 % 60);
    add(out, text);
}

static void add_outcomes(char *out, const int64_t *outcomes) {
    char text[TERN_PROGRESS_SIZE] = "";
    for (int i = 0; outcomes && i < TERN_OUTCOME_COUNT; i++) {
        size_t length = strlen(text);
        if (outcomes[i] > 0)
            tern_str_format(text + length, sizeof text - length, "%s%lld%c", length ? " " : "", (long long)outcomes[i],
                            tern_outcome_letter((enum tern_outcome)i));
    }
    add(out, text);
}

void tern_progress_line(const struct tern_progress *p, char out[TERN_PROGRESS_SIZE]) {
    char bar[BAR + 1], text[32];
    size_t full = p->total ? p->done * BAR / p->total : 0;
    for (size_t i = 0; i < BAR; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR] = 0;
    tern_str_format(out, TERN_PROGRESS_SIZE, "[%s] %zu/%zu %s", bar, p->done, p->total, p->what);
    if (isfinite(p->best_us) && p->best_us > 0) {
        tern_str_format(text, sizeof text, "%.*f us", p->best_us < 10 ? 2 : p->best_us < 1000 ? 1 : 0, p->best_us);
        add(out, text);
    }
    add_left(out, left_s(p));
    add_outcomes(out, p->outcomes);
    if (p->sm_mhz > 0) {
        tern_str_format(text, sizeof text, "%d MHz", p->sm_mhz);
        add(out, text);
    }
}
