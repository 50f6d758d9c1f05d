/* Parse tree of the launch arithmetic, shared by its parser and evaluator (expr.c) and its C printer (expr_print.c) alone.
 */
#ifndef TERN_CONFIG_EXPR_TREE_H
#define TERN_CONFIG_EXPR_TREE_H

#include "config/expr.h"

#include <stdbool.h>

#define TERN_EXPR_MAX_NAME 32

enum tern_expr_kind {
    KIND_CONST,
    KIND_NAME,
    KIND_NEG,
    KIND_ADD,
    KIND_SUB,
    KIND_MUL,
    KIND_DIV,
    KIND_MOD,
    KIND_LT,
    KIND_LE,
    KIND_GT,
    KIND_GE,
    KIND_EQ,
    KIND_NE,
    KIND_MIN,
    KIND_MAX,
    KIND_CEIL_DIV,
    KIND_COND,
};

/* Binding strength, the same as in C. */
enum { PREC_COND = 1, PREC_COMPARE, PREC_ADD, PREC_MUL, PREC_UNARY, PREC_PRIMARY };

struct tern_expr_node {
    enum tern_expr_kind kind;
    bool wide;     /* printer: the C of this subtree has type int64_t */
    int depth;     /* levels below and including this one */
    size_t column; /* 1-based, of the operator or operand, for messages */
    int64_t value; /* KIND_CONST */
    char name[TERN_EXPR_MAX_NAME];
    size_t child[3]; /* indices into tern_expr.nodes */
};

struct tern_expr {
    char *text;
    struct tern_expr_node *nodes;
    size_t count, capacity, root;
};

struct tern_expr_operator {
    const char *text;
    enum tern_expr_kind kind;
    int prec;
};
struct tern_expr_function {
    const char *name, *helper; /* in space.lua; in the exported header */
    enum tern_expr_kind kind;
};
#define TERN_EXPR_OPERATORS 11
#define TERN_EXPR_FUNCTIONS 3
extern const struct tern_expr_operator tern_expr_operators[TERN_EXPR_OPERATORS];
extern const struct tern_expr_function tern_expr_functions[TERN_EXPR_FUNCTIONS];

/* What evaluation and printing carry along: the names that have values. */
struct tern_expr_scope {
    const struct tern_expr *expr;
    const struct tern_binding *bindings;
    size_t count;
    struct tern_error *err;
};
size_t tern_expr_children(const struct tern_expr_node *n);
const struct tern_binding *tern_expr_lookup(const struct tern_expr_scope *s, const char *name);
enum tern_status tern_expr_unknown_name(const struct tern_expr_scope *s, const struct tern_expr_node *n);
/* One operator or function on values; NEG takes a only. Overflow and division by zero are TERN_USAGE with the column. */
enum tern_status tern_expr_apply(const struct tern_expr_scope *s, const struct tern_expr_node *n, int64_t a, int64_t b,
                                 int64_t *value);

#endif
