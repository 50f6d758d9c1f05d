/* Translates the part of Python's expressions that matches the same names in POSIX, and refuses the rest. */
#include "formats/name_rule.h"

#include "core/str.h"

#include <ctype.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

/* What stands behind a backslash; NULL for what has no translation. `c` is filled for a plain character. */
static const char *escape(char letter, bool in_set, char c[3]) {
    switch (letter) {
    case 'd':
        return in_set ? "0-9" : "[0-9]";
    case 'w':
        return in_set ? "[:alnum:]_" : "[[:alnum:]_]";
    case 's':
        return in_set ? "[:space:]" : "[[:space:]]";
    default:
        break;
    }
    if (letter == '\0' || isalnum((unsigned char)letter) || (in_set && strchr("\\]^-", letter)))
        return NULL;
    c[0] = in_set ? letter : '\\';
    c[1] = in_set ? '\0' : letter;
    c[2] = '\0';
    return c;
}

/* Compiling takes time and memory that grow with the power of nested repeats, and a rule comes from a file: these are far above
 * what rules on names have. */
#define RULE_LENGTH  1000
#define GROUP_QUANTS 4   /* quantifiers behind a group */
#define COUNT_LIMIT  100 /* of {m,n}, all of them multiplied */

struct translation {
    struct tern_str *out;
    bool in_set;
    enum { REPEATABLE, QUANTIFIED, LAZY, NOTHING } before; /* what stands before: decides what a quantifier means */
    bool group;                                            /* before: a group has ended */
    int group_quants;
    long counts;
};

/* A quantifier at *p, up to its last character. A lazy one matches the same names as a greedy one; a second one and one of nothing
 * are errors in Python, and exponential in POSIX. */
static bool quantifier(struct translation *t, const char **p) {
    if (**p == '?' && t->before == QUANTIFIED) {
        t->before = LAZY;
        return true;
    }
    if (t->before != REPEATABLE)
        return false;
    t->group_quants += t->group;
    const char *end = **p == '{' ? strchr(*p, '}') : *p;
    if (!end || t->group_quants > GROUP_QUANTS)
        return false;
    for (const char *c = *p + 1; c < end; c++) {
        char *behind = NULL;
        if (isdigit((unsigned char)*c)) {
            const long count = strtol(c, &behind, 10);
            if (count > COUNT_LIMIT)
                return false;
            t->counts *= count < 1 ? 1 : count;
            c = behind - 1;
        } else if (*c != ',') {
            return false;
        }
        if (t->counts > COUNT_LIMIT)
            return false;
    }
    tern_str_append_bytes(t->out, *p, (size_t)(end - *p) + 1);
    *p = end;
    t->before = QUANTIFIED;
    return true;
}

/* One item of a rule at *p, up to its last character. */
static bool translate_item(struct translation *t, const char **p) {
    char plain[3];
    const bool escaped = **p == '\\';
    if (escaped) {
        const char *text = escape(*++*p, t->in_set, plain);
        if (!text)
            return false;
        tern_str_append(t->out, text);
    } else if (!t->in_set && strchr("*+?{", **p)) {
        return quantifier(t, p);
    } else if (!t->in_set && **p == '(' && (*p)[1] == '?') {
        if ((*p)[2] != ':')
            return false;
        *p += 2;
        tern_str_append(t->out, "(");
        t->before = NOTHING;
        return true;
    } else {
        tern_str_append_bytes(t->out, *p, 1);
    }
    const char c = escaped ? 'x' : **p; /* what is escaped stands for itself */
    t->group = !t->in_set && c == ')';
    t->before = !t->in_set && (c == '(' || c == '|' || c == '^') ? NOTHING : REPEATABLE;
    t->in_set = t->in_set ? c != ']' : c == '[';
    return true;
}

/* Appends the translation of the rule; false if it has none. */
static bool translate(const char *rule, struct tern_str *out) {
    struct translation t = {.out = out, .before = NOTHING, .counts = 1};
    if (strlen(rule) > RULE_LENGTH)
        return false;
    for (const char *p = rule; *p; p++)
        if (!translate_item(&t, &p))
            return false;
    return true;
}

enum tern_status tern_name_rule_match(const char *rule, const char *name, bool *matches, struct tern_error *err) {
    struct tern_str text = {0};
    regex_t compiled;
    tern_str_append(&text, "^(");
    bool known = translate(rule, &text);
    tern_str_append(&text, ")");
    known = known && regcomp(&compiled, text.data, REG_EXTENDED | REG_NOSUB) == 0;
    tern_str_free(&text);
    if (!known)
        return tern_error_set(err, TERN_FAILED, "cannot read the name rule '%.200s'", rule);
    *matches = regexec(&compiled, name, 0, NULL, 0) == 0;
    regfree(&compiled);
    return TERN_OK;
}
