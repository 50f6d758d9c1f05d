/* Growing strings, string lists, strict number parsing, and allocation that cannot fail. */
#include "core/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- allocation ---- */

static void *str_checked(void *memory, size_t size) {
    if (memory == NULL) {
        fprintf(stderr, "tune: out of memory asking for %zu bytes\n", size);
        abort();
    }
    return memory;
}

void *tern_alloc(size_t size) {
    return str_checked(malloc(size ? size : 1), size);
}

void *tern_alloc_zero(size_t count, size_t size) {
    return str_checked(calloc(count ? count : 1, size ? size : 1), count * size);
}

void *tern_realloc(void *old, size_t size) {
    return str_checked(realloc(old, size ? size : 1), size);
}

char *tern_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    return memcpy(tern_alloc(bytes), text, bytes);
}

/* ---- growing strings ---- */

static void str_reserve(struct tern_str *s, size_t more) {
    size_t need = s->length + more + 1;
    if (need <= s->capacity)
        return;
    size_t capacity = s->capacity ? s->capacity : 64;
    while (capacity < need)
        capacity *= 2;
    s->data = tern_realloc(s->data, capacity);
    s->capacity = capacity;
}

void tern_str_append_bytes(struct tern_str *s, const void *bytes, size_t length) {
    str_reserve(s, length);
    if (length > 0)
        memcpy(s->data + s->length, bytes, length);
    s->length += length;
    s->data[s->length] = '\0';
}

void tern_str_append(struct tern_str *s, const char *text) {
    tern_str_append_bytes(s, text, strlen(text));
}

void tern_str_printf(struct tern_str *s, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length >= 0) {
        str_reserve(s, (size_t)length);
        vsnprintf(s->data + s->length, (size_t)length + 1, format, again);
        s->length += (size_t)length;
    }
    va_end(again);
}

const char *tern_str_text(const struct tern_str *s) {
    return s->data ? s->data : "";
}

void tern_str_free(struct tern_str *s) {
    free(s->data);
    *s = (struct tern_str){0};
}

void tern_str_copy(char *out, size_t size, const char *text) {
    if (size == 0)
        return;
    size_t length = strnlen(text, size - 1);
    memmove(out, text, length);
    out[length] = '\0';
}

void tern_str_format(char *out, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out, size, format, arguments);
    va_end(arguments);
}

/* ---- string lists ---- */

static void strs_add_bytes(struct tern_strs *list, const char *text, size_t length) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 8;
        list->items = tern_realloc(list->items, list->capacity * sizeof(*list->items));
    }
    char *copy = tern_alloc(length + 1);
    memcpy(copy, text, length);
    copy[length] = '\0';
    list->items[list->count++] = copy;
}

void tern_strs_add(struct tern_strs *list, const char *text) {
    strs_add_bytes(list, text, strlen(text));
}

void tern_strs_split(struct tern_strs *list, const char *text, char separator) {
    for (const char *part = text;;) {
        const char *end = strchr(part, separator);
        if (end == NULL)
            end = part + strlen(part);
        const char *first = part, *last = end;
        while (first < last && isspace((unsigned char)*first))
            first++;
        while (last > first && isspace((unsigned char)last[-1]))
            last--;
        if (last > first)
            strs_add_bytes(list, first, (size_t)(last - first));
        if (*end == '\0')
            return;
        part = end + 1;
    }
}

static int strs_compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void tern_strs_sort(struct tern_strs *list) {
    if (list->count > 1)
        qsort(list->items, list->count, sizeof(*list->items), strs_compare);
}

void tern_strs_free(struct tern_strs *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct tern_strs){0};
}

/* ---- suggestions ---- */

/* Optimal string alignment distance (Levenshtein plus swaps of neighbours), case ignored; three rolling rows. */
static size_t str_distance(const char *a, const char *b) {
    enum { LONGEST = 64 };
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST)
        return SIZE_MAX;
    size_t rows[3][LONGEST + 1];
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            int ca = tolower((unsigned char)a[i - 1]), cb = tolower((unsigned char)b[j - 1]);
            size_t best = above[j - 1] + (ca != cb);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) && tolower((unsigned char)a[i - 2]) == cb &&
                above2[j - 2] + 1 < best)
                best = above2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[n % 3][m];
}

const char *tern_str_suggest(const char *text, const struct tern_strs *names) {
    const char *best = NULL;
    size_t length = strlen(text);
    size_t near = length <= 2 ? 1 : length / 3 + 1; /* largest distance that still looks like a typing slip */
    for (size_t i = 0; i < names->count; i++) {
        size_t distance = str_distance(text, names->items[i]);
        /* A beginning of a longer name ("qwen7" for "qwen7b", "llama3" for "llama3-8b") is near too, behind real slips. */
        if (distance > near && length >= 3 && strncasecmp(text, names->items[i], length) == 0)
            distance = near;
        if (distance <= near && (best == NULL || distance < near)) {
            best = names->items[i];
            near = distance;
        }
    }
    return best;
}

/* ---- numbers ---- */

bool tern_str_parse_int(const char *text, int64_t min, int64_t max, int64_t *value) {
    const char *digits = *text == '-' ? text + 1 : text;
    if (!isdigit((unsigned char)*digits))
        return false;
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || parsed < min || parsed > max)
        return false;
    *value = parsed;
    return true;
}

bool tern_str_parse_double(const char *text, double *value) {
    const char *digits = *text == '-' ? text + 1 : text;
    /* Decimal only: strtod would also take blanks, hexadecimal, "nan" and "inf". */
    if (!isdigit((unsigned char)*digits) && *digits != '.')
        return false;
    if (strpbrk(text, "xXpP") != NULL)
        return false;
    char *end;
    errno = 0;
    double parsed = strtod(text, &end);
    if (end == text || *end != '\0' || (errno != 0 && parsed != 0))
        return false;
    *value = parsed;
    return true;
}
