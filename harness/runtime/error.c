/* tern_rt: names of statuses, and texts of errors. */
#include "runtime/driver.h"

#include <stdarg.h>
#include <stdio.h>

#define ROW(name, meaning) #name,
static const char *const names[] = {TERN_RT_STATUSES(ROW)};
#undef ROW
#define STATUS_COUNT (sizeof names / sizeof names[0])

const char *tern_rt_status_name(enum tern_rt_status status) {
    return (size_t)status < STATUS_COUNT ? names[status] : "UNKNOWN";
}

enum tern_rt_status tern_rt_fail(struct tern_rt_error *err, enum tern_rt_status status, const char *format, ...) {
    va_list arguments;
    if (!err)
        return status;
    err->status = status;
    va_start(arguments, format);
    (void)vsnprintf(err->text, sizeof err->text, format, arguments);
    va_end(arguments);
    return status;
}
