/* C printer of the launch arithmetic, for exported headers.
 * Works on a folded copy of the tree: whatever the bindings decide becomes a number, so no int arithmetic on constants is
 * left that could overflow in C, and a ?: that they decide keeps its chosen side only. */
#include "config/expr_tree.h"

#include <stdlib.h>
#include <string.h>

/* Names of a problem as variables of the exported header. */
static const struct {
    const char *name, *variable;
} VARIABLES[] = {
    {"M", "m"}, {"N", "n"}, {"K", "k"}, {"G", "groups"}, {"GROUP", "group_size"}, {"BITS", "bits"}, {"SMS", "sms"},
};
#define VARIABLE_COUNT (sizeof VARIABLES / sizeof VARIABLES[0])

/* Carried through folding and printing. */
struct printer {
    struct tern_expr_scope scope;
    struct tern_expr_node *nodes; /* the folded copy */
    struct tern_str *out;
};

static bool is_constant(const struct printer *p, size_t index) {
    return p->nodes[index].kind == KIND_CONST;
}

static void make_constant(struct tern_expr_node *n, int64_t value) {
    n->kind = KIND_CONST;
    n->value = value;
    n->wide = false;
}

/* A comparison has type int in C, and so has a ?: of two small constants; everything else that is no constant is int64_t. */
static bool is_wide(const struct printer *p, const struct tern_expr_node *n) {
    if (n->kind >= KIND_LT && n->kind <= KIND_NE)
        return false;
    return n->kind != KIND_COND || p->nodes[n->child[1]].wide || p->nodes[n->child[2]].wide;
}

/* Folds one subtree in place; the side of a ?: that is not taken is left alone, it may be senseless for these parameters. */
static enum tern_status fold(struct printer *p, size_t index) {
    struct tern_expr_node *n = &p->nodes[index];
    size_t children = tern_expr_children(n);
    if (n->kind == KIND_NAME) {
        const struct tern_binding *binding = tern_expr_lookup(&p->scope, n->name);
        n->wide = true;
        if (binding)
            make_constant(n, binding->value);
        return TERN_OK;
    }
    bool all = children > 0;
    for (size_t i = 0; i < children; i++) {
        enum tern_status status = fold(p, n->child[i]);
        if (status)
            return status;
        if (n->kind == KIND_COND && i == 0 && is_constant(p, n->child[0])) {
            size_t chosen = n->child[p->nodes[n->child[0]].value ? 1 : 2];
            status = fold(p, chosen);
            *n = p->nodes[chosen];
            return status;
        }
        all = all && is_constant(p, n->child[i]);
    }
    n->wide = children > 0 && is_wide(p, n);
    if (!all || n->kind == KIND_COND)
        return TERN_OK;
    int64_t value = 0, b = children > 1 ? p->nodes[n->child[1]].value : 0;
    enum tern_status status = tern_expr_apply(&p->scope, n, p->nodes[n->child[0]].value, b, &value);
    make_constant(n, value);
    return status;
}

/* Calls, names and numbers need no parentheses anywhere. */
static int precedence(const struct tern_expr_node *n) {
    if (n->kind == KIND_COND)
        return PREC_COND;
    if (n->kind == KIND_NEG)
        return PREC_UNARY;
    for (size_t i = 0; i < TERN_EXPR_OPERATORS; i++)
        if (tern_expr_operators[i].kind == n->kind)
            return tern_expr_operators[i].prec;
    return PREC_PRIMARY;
}

static void print_constant(struct printer *p, int64_t value, int least) {
    if (value == INT64_MIN) /* C has no negative literals */
        tern_str_append(p->out, "(-9223372036854775807 - 1)");
    else if (value < 0 && least > PREC_UNARY)
        tern_str_printf(p->out, "(%lld)", (long long)value);
    else
        tern_str_printf(p->out, "%lld", (long long)value);
}

static enum tern_status print_variable(struct printer *p, const struct tern_expr_node *n) {
    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        if (strcmp(n->name, VARIABLES[i].name) == 0) {
            tern_str_append(p->out, VARIABLES[i].variable);
            return TERN_OK;
        }
    }
    return tern_expr_unknown_name(&p->scope, n);
}

static enum tern_status print_node(struct printer *p, size_t index, int least);

/* before, child 0, between, child 1, ... : the child gets parentheses if it binds less than its `least`. */
static enum tern_status print_list(struct printer *p, const struct tern_expr_node *n, const char *const *before,
                                   const int *least) {
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < tern_expr_children(n) && !status; i++) {
        tern_str_append(p->out, before[i]);
        status = print_node(p, n->child[i], least[i]);
    }
    return status;
}

/* min, max and ceil_div become calls of the helpers that the exported header defines. */
static enum tern_status print_call(struct printer *p, const struct tern_expr_node *n) {
    size_t f = 0;
    while (tern_expr_functions[f].kind != n->kind)
        f++;
    tern_str_printf(p->out, "%s(", tern_expr_functions[f].helper);
    enum tern_status status = print_list(p, n, (const char *const[]){"", ", "}, (const int[]){PREC_COND, PREC_COND});
    tern_str_append(p->out, ")");
    return status;
}

/* The left operand is cast where C would compute in int: (int64_t)(m > 4) * 100000. */
static enum tern_status print_operator(struct printer *p, const struct tern_expr_node *n) {
    char between[8];
    size_t o = 0;
    int prec = precedence(n);
    bool compare = prec == PREC_COMPARE;
    bool cast = !compare && !p->nodes[n->child[0]].wide && !p->nodes[n->child[1]].wide;
    while (tern_expr_operators[o].kind != n->kind)
        o++;
    tern_str_format(between, sizeof between, " %s ", tern_expr_operators[o].text);
    const char *const before[] = {cast ? "(int64_t)" : "", between};
    const int least[] = {cast ? PREC_UNARY : prec + compare, prec + 1};
    return print_list(p, n, before, least);
}

static enum tern_status print_parts(struct printer *p, const struct tern_expr_node *n) {
    switch (precedence(n)) {
    case PREC_COND:
        return print_list(p, n, (const char *const[]){"", " ? ", " : "}, (const int[]){PREC_COMPARE, PREC_COND, PREC_COND});
    case PREC_UNARY: {
        const char *const before[] = {p->nodes[n->child[0]].wide ? "-" : "-(int64_t)"};
        return print_list(p, n, before, (const int[]){PREC_PRIMARY});
    }
    case PREC_PRIMARY:
        return print_call(p, n);
    default:
        return print_operator(p, n);
    }
}

static enum tern_status print_node(struct printer *p, size_t index, int least) {
    const struct tern_expr_node *n = &p->nodes[index];
    if (n->kind == KIND_NAME)
        return print_variable(p, n);
    if (n->kind == KIND_CONST) {
        print_constant(p, n->value, least);
        return TERN_OK;
    }
    bool wrap = precedence(n) < least;
    tern_str_append(p->out, wrap ? "(" : "");
    enum tern_status status = print_parts(p, n);
    tern_str_append(p->out, wrap ? ")" : "");
    return status;
}

enum tern_status tern_expr_print_c(const struct tern_expr *expr, const struct tern_binding *bindings, size_t count,
                                   struct tern_str *out, struct tern_error *err) {
    struct printer p = {.scope = {expr, bindings, count, err}, .out = out};
    p.nodes = tern_alloc(expr->count * sizeof *p.nodes);
    memcpy(p.nodes, expr->nodes, expr->count * sizeof *p.nodes);
    enum tern_status status = fold(&p, expr->root);
    if (!status)
        status = print_node(&p, expr->root, PREC_COND);
    free(p.nodes);
    return status;
}
