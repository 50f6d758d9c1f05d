/* Translates the part of Python's expressions that matches the same names in POSIX, and refuses the rest. */
#include "formats/name_rule.h"

#include "core/str.h"

#include <ctype.h>
#include <regex.h>
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

/* Appends the translation of the rule; false if it has none. A lazy quantifier matches the same names as a greedy one. */
static bool translate(const char *rule, struct tern_str *out) {
    bool in_set = false, quantified = false;
    for (const char *p = rule; *p; p++) {
        bool was = quantified;
        char plain[3];
        quantified = false;
        if (*p == '\\') {
            const char *text = escape(*++p, in_set, plain);
            if (!text)
                return false;
            tern_str_append(out, text);
            continue;
        }
        if (!in_set && *p == '(' && p[1] == '?') {
            if (p[2] != ':')
                return false;
            p += 2;
            tern_str_append(out, "(");
            continue;
        }
        if (!in_set && was && *p == '?')
            continue;
        if (!in_set && was && *p == '+')
            return false;
        if (!in_set)
            quantified = strchr("*+?}", *p) != NULL;
        in_set = in_set ? *p != ']' : *p == '[';
        tern_str_append_bytes(out, p, 1);
    }
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
