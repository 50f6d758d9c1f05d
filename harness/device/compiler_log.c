/* Parser of ptxas -v lines. An entry's section runs from "Compiling entry function 'NAME'" to the next such line:
 *     Function properties for NAME
 *     256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
 *     Used 32 registers, used 1 barriers, 256 bytes cumulative stack size, 1024 bytes smem
 * Device functions that were not inlined have property lines of their own in it; their spills are the entry's too. */
#include "device/compiler_log.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_LINE "Compiling entry function '"

/* The section of `entry`, or NULL; *end is set behind it. */
static const char *find_section(const char *log, const char *entry, const char **end) {
    size_t length = strlen(entry);
    for (const char *p = strstr(log, ENTRY_LINE); p; p = strstr(p, ENTRY_LINE)) {
        p += sizeof ENTRY_LINE - 1;
        if (strncmp(p, entry, length) != 0 || p[length] != '\'')
            continue;
        const char *next = strstr(p, ENTRY_LINE);
        *end = next ? next : p + strlen(p);
        return p;
    }
    return NULL;
}

/* The number that stands before `unit`, the first from `p` on and before `end`; -1 if there is none. *after is set behind
 * it. */
static int64_t number_before(const char *p, const char *end, const char *unit, const char **after) {
    const char *found = memmem(p, (size_t)(end - p), unit, strlen(unit));
    if (!found)
        return -1;
    const char *digits = found;
    while (digits > p && isdigit((unsigned char)digits[-1]))
        digits--;
    *after = found + strlen(unit);
    return digits == found ? -1 : (int64_t)strtoll(digits, NULL, 10);
}

bool tern_compiler_log_read(const char *log, const char *entry, struct tern_compiled *out) {
    const char *end = NULL, *after = NULL, *p = find_section(log, entry, &end);
    if (!p)
        return false;
    int64_t registers = number_before(p, end, " registers", &after);
    int64_t smem = number_before(p, end, " bytes smem", &after);
    int64_t frame = number_before(p, end, " bytes stack frame", &after);
    if (registers < 0 || frame < 0)
        return false;
    int64_t spills = 0;
    const char *const units[] = {" bytes spill stores", " bytes spill loads"};
    for (int u = 0; u < 2; u++) {
        after = p;
        for (int64_t value = 0; value >= 0;) {
            value = number_before(after, end, units[u], &after);
            spills += value > 0 ? value : 0;
        }
    }
    out->registers = registers;
    out->static_smem_bytes = smem >= 0 ? smem : 0; /* ptxas leaves the figure out when it is 0 */
    out->spill_bytes = spills;
    out->local_bytes = frame;
    return true;
}
