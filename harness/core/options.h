/* Command-line options: one row gives parsing, help and value. */
#ifndef TERN_CORE_OPTIONS_H
#define TERN_CORE_OPTIONS_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

enum tern_option_type {
    TERN_OPTION_FLAG,   /* bool */
    TERN_OPTION_TEXT,   /* const char *: points into argv */
    TERN_OPTION_INT,    /* int64_t, in [min,max] */
    TERN_OPTION_SECONDS /* double > 0: "90", "90s", "3m", "1h" */
};

struct tern_option {
    const char *name; /* long name without "--" */
    char letter;      /* short name or 0 */
    enum tern_option_type type;
    void *value;          /* where to store; its content beforehand is the default */
    const char *argument; /* name of the argument in help, NULL for flags */
    const char *help;     /* one sentence, with the default */
    int64_t min, max;     /* for TERN_OPTION_INT */
};

/* Parses argv[1..]; accepts --name value, --name=value, -x value, and "--". Positional arguments are moved to
 * positional[0..*positional_count); at most max_positional are accepted. Unknown names get a "did you mean".
 * An option given twice is an error. Returns TERN_USAGE with the offending argument in err. */
enum tern_status tern_options_parse(const struct tern_option *options, size_t count, int argc, char **argv,
                                    const char **positional, size_t max_positional, size_t *positional_count,
                                    struct tern_error *err);

/* Prints the option table on stdout, wrapped to 80 columns. */
void tern_options_help(const struct tern_option *options, size_t count);

#endif
