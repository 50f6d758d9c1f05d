/* Growing strings and string lists. Allocation failure aborts the program: nothing here can fail. */
#ifndef TERN_CORE_STR_H
#define TERN_CORE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tern_str {
    char *data; /* always NUL-terminated once something was appended; NULL when empty */
    size_t length, capacity;
};

void tern_str_append(struct tern_str *s, const char *text);
void tern_str_append_bytes(struct tern_str *s, const void *bytes, size_t length);
void tern_str_printf(struct tern_str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The text, "" when empty; stays owned by s. */
const char *tern_str_text(const struct tern_str *s);
void tern_str_free(struct tern_str *s);

/* snprintf that truncates knowingly (bounded copies into fixed name fields). */
void tern_str_copy(char *out, size_t size, const char *text);
void tern_str_format(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A list of owned strings. */
struct tern_strs {
    char **items;
    size_t count, capacity;
};
void tern_strs_add(struct tern_strs *list, const char *text);
/* Splits at `separator`, trims blanks, drops empty parts, appends to list. */
void tern_strs_split(struct tern_strs *list, const char *text, char separator);
void tern_strs_sort(struct tern_strs *list);
void tern_strs_free(struct tern_strs *list);

/* Closest of `names` to `text` by edit distance, or NULL when nothing is near enough for "did you mean". */
const char *tern_str_suggest(const char *text, const struct tern_strs *names);

/* Strict decimal parse of the whole string into [min,max]; false on anything else. */
bool tern_str_parse_int(const char *text, int64_t min, int64_t max, int64_t *value);
bool tern_str_parse_double(const char *text, double *value);

/* malloc family that aborts with a message instead of returning NULL. */
void *tern_alloc(size_t size);
void *tern_alloc_zero(size_t count, size_t size);
void *tern_realloc(void *old, size_t size);
char *tern_strdup(const char *text);

#endif
