/* Launch arithmetic: a small integer language for grids, blocks, shared memory and workspace in space.lua.
 * expr := integers, names, + - * / %, parentheses, unary minus, min(a,b), max(a,b), ceil_div(a,b), comparison < <= > >= ==
 * != and cond ? a : b. 64-bit integers; overflow, division by zero and unknown names are errors with a column. Tern
 * evaluates it; the exporter prints it as C. */
#ifndef TERN_CONFIG_EXPR_H
#define TERN_CONFIG_EXPR_H

#include "core/error.h"
#include "core/str.h"

#include <stddef.h>
#include <stdint.h>

struct tern_binding {
    const char *name; /* a parameter, or M N K G (groups along K) GROUP (k per group) BITS HAS_ZEROS SMS */
    int64_t value;
};

struct tern_expr; /* parsed; immutable */

enum tern_status tern_expr_parse(const char *text, struct tern_expr **expr, struct tern_error *err);
enum tern_status tern_expr_eval(const struct tern_expr *expr, const struct tern_binding *bindings, size_t count,
                                int64_t *value, struct tern_error *err);
/* Appends C source with names in `bindings` replaced by their values and the rest (m, n, k, groups ... lower case) left as
 * variables of type int64_t; uses helpers tern_min_, tern_max_, tern_ceil_div_ that the exported header defines. */
enum tern_status tern_expr_print_c(const struct tern_expr *expr, const struct tern_binding *bindings, size_t count,
                                   struct tern_str *out, struct tern_error *err);
void tern_expr_free(struct tern_expr *expr);

#endif
