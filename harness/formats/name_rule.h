/* Rules on module names as Python's re.match takes them, matched with POSIX expressions. */
#ifndef TERN_FORMATS_NAME_RULE_H
#define TERN_FORMATS_NAME_RULE_H

#include "core/error.h"

#include <stdbool.h>

/* Whether `rule` matches `name` from its start. Lazy quantifiers, (?:...), \d \w \s are understood; what POSIX has no word
 * for (look-around, back references) is refused with TERN_FAILED. */
enum tern_status tern_name_rule_match(const char *rule, const char *name, bool *matches, struct tern_error *err);

#endif
