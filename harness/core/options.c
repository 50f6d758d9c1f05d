/* Command-line options: one table row gives parsing, help and value. */
#include "core/options.h"

#include "core/str.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MOST = 64 };

struct parser {
    const struct tern_option *options;
    size_t count;
    bool seen[OPTIONS_MOST];
    int argc, next; /* next: argument to be read */
    char **argv;
    struct tern_error *err;
};

static const char *options_command(const struct parser *p) {
    return p->argc > 0 ? p->argv[0] : "tune";
}

static enum tern_status options_fail_unknown(struct parser *p, const char *argument, const char *name) {
    struct tern_strs names = {0};
    for (size_t i = 0; i < p->count; i++)
        tern_strs_add(&names, p->options[i].name);
    const char *near = tern_str_suggest(name, &names);
    tern_error_set(p->err, TERN_USAGE, "unknown option '%s'", argument);
    if (near != NULL)
        tern_error_hint(p->err, "did you mean --%s?", near);
    else
        tern_error_hint(p->err, "'tune help %s' lists the options", options_command(p));
    tern_strs_free(&names);
    return TERN_USAGE;
}

/* "90", "90s", "3m", "1h" -> seconds > 0. */
static bool options_parse_seconds(const char *text, double *seconds) {
    char number[32];
    size_t length = strlen(text);
    double unit = 1;
    if (length == 0 || length >= sizeof(number))
        return false;
    switch (text[length - 1]) {
    case 's':
        unit = 1, length--;
        break;
    case 'm':
        unit = 60, length--;
        break;
    case 'h':
        unit = 3600, length--;
        break;
    }
    tern_str_format(number, sizeof(number), "%.*s", (int)length, text);
    double value;
    if (!tern_str_parse_double(number, &value) || !(value > 0) || !(value * unit <= 1e9))
        return false;
    *seconds = value * unit;
    return true;
}

static enum tern_status options_store(struct parser *p, const struct tern_option *option, const char *text) {
    switch (option->type) {
    case TERN_OPTION_FLAG:
        *(bool *)option->value = true;
        return TERN_OK;
    case TERN_OPTION_TEXT:
        *(const char **)option->value = text;
        return TERN_OK;
    case TERN_OPTION_INT:
        if (tern_str_parse_int(text, option->min, option->max, option->value))
            return TERN_OK;
        return tern_error_set(p->err, TERN_USAGE, "--%s takes a whole number from %lld to %lld, not '%s'", option->name,
                              (long long)option->min, (long long)option->max, text);
    case TERN_OPTION_SECONDS:
        if (options_parse_seconds(text, option->value))
            return TERN_OK;
        return tern_error_set(p->err, TERN_USAGE, "--%s takes a duration such as 90, 90s, 3m or 1h, not '%s'", option->name,
                              text);
    }
    return tern_error_set(p->err, TERN_INTERNAL, "option --%s has an unknown type", option->name);
}

/* Value of option `index`: `attached` ("--name=value", "-xvalue") or the next argument. */
static enum tern_status options_take(struct parser *p, size_t index, const char *attached) {
    const struct tern_option *option = &p->options[index];
    if (p->seen[index])
        return tern_error_set(p->err, TERN_USAGE, "option --%s is given twice", option->name);
    p->seen[index] = true;
    if (option->type == TERN_OPTION_FLAG) {
        if (attached != NULL)
            return tern_error_set(p->err, TERN_USAGE, "option --%s takes no value, but got '%s'", option->name, attached);
        return options_store(p, option, NULL);
    }
    if (attached == NULL && p->next < p->argc)
        attached = p->argv[p->next++];
    /* An empty value is a slip too, e.g. an unset shell variable. */
    if (attached == NULL || attached[0] == '\0')
        return tern_error_set(p->err, TERN_USAGE, "option --%s needs a value: --%s %s", option->name, option->name,
                              option->argument ? option->argument : "VALUE");
    return options_store(p, option, attached);
}

static enum tern_status options_long(struct parser *p, const char *argument) {
    const char *name = argument + 2;
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    for (size_t i = 0; i < p->count; i++)
        if (strlen(p->options[i].name) == length && strncmp(p->options[i].name, name, length) == 0)
            return options_take(p, i, equals ? equals + 1 : NULL);
    char bare[64];
    tern_str_format(bare, sizeof(bare), "%.*s", (int)(length < 63 ? length : 63), name);
    return options_fail_unknown(p, argument, bare);
}

static enum tern_status options_short(struct parser *p, const char *argument) {
    for (size_t i = 0; i < p->count; i++)
        if (p->options[i].letter != 0 && p->options[i].letter == argument[1])
            return options_take(p, i, argument[2] ? argument + 2 : NULL);
    return options_fail_unknown(p, argument, argument + 1);
}

enum tern_status tern_options_parse(const struct tern_option *options, size_t count, int argc, char **argv,
                                    const char **positional, size_t max_positional, size_t *positional_count,
                                    struct tern_error *err) {
    struct parser p = {.options = options, .count = count, .argc = argc, .next = 1, .argv = argv, .err = err};
    size_t found = 0;
    bool options_ended = false;
    enum tern_status status = TERN_OK;
    if (count > OPTIONS_MOST)
        return tern_error_set(err, TERN_INTERNAL, "too many options in a table: %zu", count);
    while (status == TERN_OK && p.next < argc) {
        const char *argument = argv[p.next++];
        if (!options_ended && strcmp(argument, "--") == 0)
            options_ended = true;
        else if (!options_ended && argument[0] == '-' && argument[1] == '-')
            status = options_long(&p, argument);
        else if (!options_ended && argument[0] == '-' && argument[1] != '\0')
            status = options_short(&p, argument);
        else if (found < max_positional)
            positional[found++] = argument;
        else {
            status = tern_error_set(err, TERN_USAGE, "unexpected argument '%s'", argument);
            tern_error_hint(err, "'tune help %s' shows the usage", options_command(&p));
        }
    }
    if (positional_count != NULL)
        *positional_count = found;
    return status;
}

/* ---- help ---- */

enum { HELP_COLUMN = 26, HELP_WIDTH = 80 };

/* Prints `text` from HELP_COLUMN on, broken at blanks before HELP_WIDTH. */
static void options_print_wrapped(const char *text) {
    int column = HELP_COLUMN;
    for (const char *word = text; *word != '\0';) {
        int length = (int)strcspn(word, " ");
        if (column > HELP_COLUMN && column + 1 + length >= HELP_WIDTH) {
            printf("\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        }
        if (column > HELP_COLUMN)
            column += printf(" ");
        column += printf("%.*s", length, word);
        word += length;
        word += strspn(word, " ");
    }
    printf("\n");
}

void tern_options_help(const struct tern_option *options, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct tern_option *option = &options[i];
        char left[96];
        char letter[5] = "";
        if (option->letter != 0)
            tern_str_format(letter, sizeof(letter), "-%c, ", option->letter);
        tern_str_format(left, sizeof(left), "  %s--%s%s%s", letter, option->name, option->argument ? " " : "",
                        option->argument ? option->argument : "");
        if (strlen(left) + 2 > HELP_COLUMN)
            printf("%s\n%*s", left, HELP_COLUMN, "");
        else
            printf("%-*s", HELP_COLUMN, left);
        options_print_wrapped(option->help);
    }
}
