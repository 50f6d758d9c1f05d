/* Narrowing of a model to the problems that are named by --formats, --layers and --m, the same for every command that has them. */
#ifndef TERN_COMMANDS_NARROW_H
#define TERN_COMMANDS_NARROW_H

#include "config/shapes.h"

#include <stdbool.h>

struct tern_narrow_lists {
    const char *formats, *layers, *m; /* comma-separated; NULL: all of the shapes file */
};

/* Narrows the shapes to what the lists name. Formats and batch sizes need not stand in the shapes file; the batch sizes then
 * share its weight evenly. TERN_USAGE: a name that there is not, or no name. */
enum tern_status tern_narrow_shapes(const struct tern_narrow_lists *lists, struct tern_shapes *shapes,
                                    struct tern_error *err);

/* TERN_USAGE if a list is given and no model. */
enum tern_status tern_narrow_check(const struct tern_narrow_lists *lists, const char *shapes, struct tern_error *err);

/* True if a problem is among narrowed shapes. A list that was not given selects every format, or every M. */
bool tern_narrow_holds(const struct tern_narrow_lists *lists, const struct tern_shapes *shapes, const char *format,
                       int64_t m, int64_t n, int64_t k);

#endif
