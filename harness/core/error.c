/* Errors: filling, hinting and prefixing. Owns nothing; every function copes with a NULL error. */
#include "core/error.h"

#include "core/str.h"

#include <stdio.h>
#include <string.h>

/* Texts may quote user input: control bytes are shown as '?', so that an error is always readable lines of text. */
static void error_clean(char *text) {
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = '\0';
    for (char *c = text; *c != '\0'; c++)
        if (((unsigned char)*c < 0x20 && *c != '\n' && *c != '\t') || *c == 0x7f)
            *c = '?';
}

enum tern_status tern_error_set(struct tern_error *err, enum tern_status status, const char *format, ...) {
    if (err == NULL)
        return status;
    /* Arguments may point into *err itself (wrapping an older text), so the text is made aside. */
    char text[sizeof(err->text)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    error_clean(text);
    memcpy(err->text, text, sizeof(text));
    err->status = status;
    err->hint[0] = '\0';
    return status;
}

void tern_error_hint(struct tern_error *err, const char *format, ...) {
    if (err == NULL)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->hint, sizeof(err->hint), format, arguments);
    va_end(arguments);
    error_clean(err->hint);
}

void tern_error_prefix(struct tern_error *err, const char *format, ...) {
    if (err == NULL)
        return;
    char text[sizeof(err->text)];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    size_t used = (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1;
    tern_str_format(text + used, sizeof(text) - used, ": %s", err->text);
    error_clean(text);
    memcpy(err->text, text, sizeof(text));
}
