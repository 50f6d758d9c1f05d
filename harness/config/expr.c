/* Launch arithmetic: parser, checked evaluator and C printer of the integer language in space.lua.
 * Owns its parse trees. Must not know Lua, templates or devices: names get their values from the caller. */
#include "config/expr_tree.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TEXT  800
#define MAX_DEPTH 200 /* of the tree: bounds recursion in parser, evaluator and printer */

/* Longer spellings first, so that "<=" is not read as "<". */
const struct tern_expr_operator tern_expr_operators[TERN_EXPR_OPERATORS] = {
    {"<=", KIND_LE, PREC_COMPARE}, {">=", KIND_GE, PREC_COMPARE}, {"==", KIND_EQ, PREC_COMPARE},
    {"!=", KIND_NE, PREC_COMPARE}, {"<", KIND_LT, PREC_COMPARE},  {">", KIND_GT, PREC_COMPARE},
    {"+", KIND_ADD, PREC_ADD},     {"-", KIND_SUB, PREC_ADD},     {"*", KIND_MUL, PREC_MUL},
    {"/", KIND_DIV, PREC_MUL},     {"%", KIND_MOD, PREC_MUL},
};

const struct tern_expr_function tern_expr_functions[TERN_EXPR_FUNCTIONS] = {
    {"min", "tern_min_", KIND_MIN},
    {"max", "tern_max_", KIND_MAX},
    {"ceil_div", "tern_ceil_div_", KIND_CEIL_DIV},
};

/* ---- parser: precedence climbing over one pass of the text ---- */

struct parser {
    struct tern_expr *expr;
    const char *at;
    int nesting;
    struct tern_error *err;
};

/* 1-based, as editors count. */
static size_t column_of(const struct parser *p) {
    return (size_t)(p->at - p->expr->text) + 1;
}

/* Every refusal quotes the expression and says where in it. */
static enum tern_status syntax(const struct parser *p, const char *what) {
    return tern_error_set(p->err, TERN_USAGE, "\"%s\": column %zu: %s", p->expr->text, column_of(p), what);
}

static void skip_blanks(struct parser *p) {
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')
        p->at++;
}

static bool is_name_char(char c, bool first) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Appends a node whose children are already there; its depth bounds all later recursion. */
static enum tern_status add_node(struct parser *p, struct tern_expr_node node, size_t children, size_t *index) {
    struct tern_expr *e = p->expr;
    node.depth = 1;
    for (size_t i = 0; i < children; i++)
        if (e->nodes[node.child[i]].depth >= node.depth)
            node.depth = e->nodes[node.child[i]].depth + 1;
    if (node.depth > MAX_DEPTH)
        return syntax(p, "expression is nested too deeply");
    if (e->count == e->capacity) {
        e->capacity = e->capacity ? 2 * e->capacity : 16;
        e->nodes = tern_realloc(e->nodes, e->capacity * sizeof *e->nodes);
    }
    *index = e->count;
    e->nodes[e->count++] = node;
    return TERN_OK;
}

/* The whole language: parentheses, arguments and both sides of ?: come back to it. */
static enum tern_status parse_cond(struct parser *p, size_t *index);

/* Decimal, without sign: a leading minus is an operator. */
static enum tern_status parse_number(struct parser *p, size_t *index) {
    struct tern_expr_node node = {.kind = KIND_CONST, .column = column_of(p)};
    for (; is_digit(*p->at); p->at++)
        if (__builtin_mul_overflow(node.value, 10, &node.value) ||
            __builtin_add_overflow(node.value, *p->at - '0', &node.value))
            return syntax(p, "number does not fit in 64 bits");
    if (is_name_char(*p->at, false) || *p->at == '.')
        return syntax(p, "malformed number (decimal integers only)");
    return add_node(p, node, 0, index);
}

/* Skips blanks and takes the one character that must follow. */
static enum tern_status expect(struct parser *p, char c) {
    skip_blanks(p);
    if (*p->at != c) {
        char what[32];
        tern_str_format(what, sizeof what, "expected '%c'", c);
        return syntax(p, what);
    }
    p->at++;
    return TERN_OK;
}

/* f(a, b), the name already read. */
static enum tern_status parse_call(struct parser *p, struct tern_expr_node node, size_t *index) {
    for (size_t i = 0; i < TERN_EXPR_FUNCTIONS; i++) {
        if (strcmp(node.name, tern_expr_functions[i].name) != 0)
            continue;
        node.kind = tern_expr_functions[i].kind;
        enum tern_status status = expect(p, '(');
        if (!status)
            status = parse_cond(p, &node.child[0]);
        if (!status)
            status = expect(p, ',');
        if (!status)
            status = parse_cond(p, &node.child[1]);
        if (!status)
            status = expect(p, ')');
        return status ? status : add_node(p, node, 2, index);
    }
    return tern_error_set(p->err, TERN_USAGE, "\"%s\": column %zu: unknown function \"%s\" (there are min, max, ceil_div)",
                          p->expr->text, node.column, node.name);
}

/* A name is resolved when evaluated, not here: parameters and problem sizes come from the caller. */
static enum tern_status parse_name(struct parser *p, size_t *index) {
    struct tern_expr_node node = {.kind = KIND_NAME, .column = column_of(p)};
    const char *start = p->at;
    while (is_name_char(*p->at, false))
        p->at++;
    size_t length = (size_t)(p->at - start);
    if (length >= sizeof node.name) {
        p->at = start;
        return syntax(p, "name is too long");
    }
    memcpy(node.name, start, length);
    skip_blanks(p);
    return *p->at == '(' ? parse_call(p, node, index) : add_node(p, node, 0, index);
}

static enum tern_status parse_primary(struct parser *p, size_t *index) {
    skip_blanks(p);
    if (is_digit(*p->at))
        return parse_number(p, index);
    if (is_name_char(*p->at, true))
        return parse_name(p, index);
    if (*p->at == '(') {
        p->at++;
        enum tern_status status = parse_cond(p, index);
        return status ? status : expect(p, ')');
    }
    return syntax(p, *p->at ? "expected a number, a name or '('" : "ends where a number, a name or '(' is expected");
}

/* Minus signs nest to the right: --5 is -(-5). */
static enum tern_status parse_unary(struct parser *p, size_t *index) {
    skip_blanks(p);
    if (*p->at != '-')
        return parse_primary(p, index);
    if (++p->nesting > MAX_DEPTH)
        return syntax(p, "expression is nested too deeply");
    struct tern_expr_node node = {.kind = KIND_NEG, .column = column_of(p)};
    p->at++;
    enum tern_status status = parse_unary(p, &node.child[0]);
    p->nesting--;
    return status ? status : add_node(p, node, 1, index);
}

/* Reads a binary operator of precedence >= `least`; -1 if there is none. */
static int match_operator(struct parser *p, int least) {
    skip_blanks(p);
    for (size_t i = 0; i < TERN_EXPR_OPERATORS; i++)
        if (strncmp(p->at, tern_expr_operators[i].text, strlen(tern_expr_operators[i].text)) == 0)
            return tern_expr_operators[i].prec >= least ? (int)i : -1;
    return -1;
}

/* Left-associative chains; comparisons do not chain: a < b < c is refused rather than misread. */
static enum tern_status parse_binary(struct parser *p, int least, size_t *index) {
    enum tern_status status = parse_unary(p, index);
    int op, compared = 0;
    while (!status && (op = match_operator(p, least)) >= 0) {
        struct tern_expr_node node = {.kind = tern_expr_operators[op].kind, .column = column_of(p), .child = {*index}};
        if (tern_expr_operators[op].prec == PREC_COMPARE && compared++)
            return syntax(p, "comparisons do not chain; use parentheses");
        p->at += strlen(tern_expr_operators[op].text);
        status = parse_binary(p, tern_expr_operators[op].prec + 1, &node.child[1]);
        if (!status)
            status = add_node(p, node, 2, index);
    }
    return status;
}

static enum tern_status parse_cond(struct parser *p, size_t *index) {
    if (++p->nesting > MAX_DEPTH)
        return syntax(p, "expression is nested too deeply");
    enum tern_status status = parse_binary(p, PREC_COMPARE, index);
    skip_blanks(p);
    if (!status && *p->at == '?') {
        struct tern_expr_node node = {.kind = KIND_COND, .column = column_of(p), .child = {*index}};
        p->at++;
        status = parse_cond(p, &node.child[1]);
        if (!status)
            status = expect(p, ':');
        if (!status)
            status = parse_cond(p, &node.child[2]);
        if (!status)
            status = add_node(p, node, 3, index);
    }
    p->nesting--;
    return status;
}

enum tern_status tern_expr_parse(const char *text, struct tern_expr **expr, struct tern_error *err) {
    *expr = NULL;
    if (strlen(text) > MAX_TEXT) /* the messages quote the whole text */
        return tern_error_set(err, TERN_USAGE, "expression of %zu characters is too long (at most %d), from column 1 on",
                              strlen(text), MAX_TEXT);
    struct tern_expr *e = tern_alloc_zero(1, sizeof *e);
    e->text = tern_strdup(text);
    struct parser p = {.expr = e, .at = e->text, .err = err};
    enum tern_status status = parse_cond(&p, &e->root);
    if (!status && *p.at)
        status = syntax(&p, "unexpected text after the expression");
    if (status) {
        tern_expr_free(e);
        e = NULL;
    }
    *expr = e;
    return status;
}

void tern_expr_free(struct tern_expr *expr) {
    if (!expr)
        return;
    free(expr->text);
    free(expr->nodes);
    free(expr);
}

/* ---- evaluator ---- */

size_t tern_expr_children(const struct tern_expr_node *n) {
    if (n->kind == KIND_CONST || n->kind == KIND_NAME)
        return 0;
    return n->kind == KIND_NEG ? 1 : n->kind == KIND_COND ? 3 : 2;
}

const struct tern_binding *tern_expr_lookup(const struct tern_expr_scope *s, const char *name) {
    for (size_t i = 0; i < s->count; i++) /* most names differ in the first letter, and an export looks up millions */
        if (s->bindings[i].name[0] == name[0] && strcmp(s->bindings[i].name, name) == 0)
            return &s->bindings[i];
    return NULL;
}

enum tern_status tern_expr_unknown_name(const struct tern_expr_scope *s, const struct tern_expr_node *n) {
    struct tern_strs names = {0};
    for (size_t i = 0; i < s->count; i++)
        tern_strs_add(&names, s->bindings[i].name);
    const char *near = tern_str_suggest(n->name, &names);
    enum tern_status status =
        tern_error_set(s->err, TERN_USAGE, "\"%s\": column %zu: unknown name \"%s\"%s%s%s", s->expr->text, n->column,
                       n->name, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    tern_strs_free(&names);
    return status;
}

static enum tern_status bad_value(const struct tern_expr_scope *s, const struct tern_expr_node *n, const char *what) {
    return tern_error_set(s->err, TERN_USAGE, "\"%s\": column %zu: %s", s->expr->text, n->column, what);
}

/* a / b and a % b truncate as in C; ceil_div rounds up and wants b > 0. The caller has no overflow left to check. */
static enum tern_status divide(const struct tern_expr_scope *s, const struct tern_expr_node *n, int64_t a, int64_t b,
                               int64_t *value) {
    if (n->kind == KIND_CEIL_DIV && b < 0)
        return bad_value(s, n, "ceil_div by a negative number");
    if (b == 0)
        return bad_value(s, n, "division by zero");
    if (a == INT64_MIN && b == -1)
        return bad_value(s, n, "overflow of 64 bits");
    int64_t quotient = a / b, rest = a % b;
    *value = n->kind == KIND_DIV ? quotient : n->kind == KIND_MOD ? rest : quotient + (rest > 0);
    return TERN_OK;
}

enum tern_status tern_expr_apply(const struct tern_expr_scope *s, const struct tern_expr_node *n, int64_t a, int64_t b,
                                 int64_t *value) {
    bool overflow = false;
    switch (n->kind) {
    case KIND_ADD:
        overflow = __builtin_add_overflow(a, b, value);
        break;
    case KIND_SUB:
        overflow = __builtin_sub_overflow(a, b, value);
        break;
    case KIND_NEG:
        overflow = __builtin_sub_overflow((int64_t)0, a, value);
        break;
    case KIND_MUL:
        overflow = __builtin_mul_overflow(a, b, value);
        break;
    case KIND_LT:
        *value = a < b;
        break;
    case KIND_LE:
        *value = a <= b;
        break;
    case KIND_GT:
        *value = a > b;
        break;
    case KIND_GE:
        *value = a >= b;
        break;
    case KIND_EQ:
        *value = a == b;
        break;
    case KIND_NE:
        *value = a != b;
        break;
    case KIND_MIN:
        *value = a < b ? a : b;
        break;
    case KIND_MAX:
        *value = a > b ? a : b;
        break;
    default:
        return divide(s, n, a, b, value);
    }
    return overflow ? bad_value(s, n, "overflow of 64 bits") : TERN_OK;
}

/* Recursion is bounded by the depth that the parser allowed. */
static enum tern_status eval(const struct tern_expr_scope *s, size_t index, int64_t *value) {
    const struct tern_expr_node *n = &s->expr->nodes[index];
    if (n->kind == KIND_CONST) {
        *value = n->value;
        return TERN_OK;
    }
    if (n->kind == KIND_NAME) {
        const struct tern_binding *binding = tern_expr_lookup(s, n->name);
        if (!binding)
            return tern_expr_unknown_name(s, n);
        *value = binding->value;
        return TERN_OK;
    }
    int64_t a = 0, b = 0;
    enum tern_status status = eval(s, n->child[0], &a);
    if (!status && n->kind == KIND_COND) /* only the chosen side, so that it can guard a division */
        return eval(s, n->child[a ? 1 : 2], value);
    if (!status && n->kind != KIND_NEG)
        status = eval(s, n->child[1], &b);
    return status ? status : tern_expr_apply(s, n, a, b, value);
}

enum tern_status tern_expr_eval(const struct tern_expr *expr, const struct tern_binding *bindings, size_t count,
                                int64_t *value, struct tern_error *err) {
    struct tern_expr_scope s = {expr, bindings, count, err};
    int64_t result = 0;
    enum tern_status status = eval(&s, expr->root, &result);
    *value = status ? 0 : result;
    return status;
}
