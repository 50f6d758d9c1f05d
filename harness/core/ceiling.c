/* Rows of ceilings. See ceiling.h. */
#include "core/ceiling.h"

#include "core/str.h"

#include <string.h>

struct tern_ceiling *tern_ceilings_add(struct tern_ceilings *c, const char *kind, double argument, const char *unit) {
    if (c->count == TERN_MAX_CEILINGS)
        return NULL;
    struct tern_ceiling *row = &c->rows[c->count++];
    memset(row, 0, sizeof *row);
    tern_str_copy(row->kind, sizeof row->kind, kind);
    tern_str_copy(row->unit, sizeof row->unit, unit);
    row->argument = argument;
    return row;
}

const struct tern_ceiling *tern_ceilings_find(const struct tern_ceilings *c, const char *kind) {
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->rows[i].kind, kind) == 0)
            return &c->rows[i];
    return NULL;
}
