/* Export: a generated C header with the dispatch table. Deterministic: same rows, same bytes. */
#ifndef TERN_OUTPUT_EXPORT_H
#define TERN_OUTPUT_EXPORT_H

#include "core/error.h"
#include "core/result.h"

#include <stdbool.h>

/* Writes DIR/tern_dispatch.h. Rows must be of one GPU. Planned rows need allow_planned, and then the header says so at its top
 * and in TERN_DISPATCH_PLANNED. No rows is TERN_USAGE. */
enum tern_status tern_export_header(const char *dir, const struct tern_results *results, bool allow_planned, struct tern_error *err);

#endif
