/* Identity of a source: its text and that of every quoted include, each once, in the order of first inclusion. */
#include "device/compiler.h"

#include "core/file.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct closure {
    const char *include_dir;
    struct tern_strs seen; /* paths below include_dir */
    struct tern_str *out;
};

/* The name in `#include "NAME"` at the start of a line, or false. */
static bool quoted_include(const char *line, char *name, size_t size) {
    while (*line == ' ' || *line == '\t')
        line++;
    if (*line++ != '#')
        return false;
    while (*line == ' ' || *line == '\t')
        line++;
    if (strncmp(line, "include", 7) != 0)
        return false;
    line += 7;
    while (*line == ' ' || *line == '\t')
        line++;
    size_t length = *line == '"' ? strcspn(line + 1, "\"\n") : 0;
    if (length == 0 || length >= size || line[1 + length] != '"')
        return false;
    memcpy(name, line + 1, length);
    name[length] = '\0';
    return true;
}

static bool add_once(struct tern_strs *seen, const char *path) {
    for (size_t i = 0; i < seen->count; i++)
        if (strcmp(seen->items[i], path) == 0)
            return false;
    tern_strs_add(seen, path);
    return true;
}

/* As a compiler does: first beside the including file, then below include_dir. The path is relative to include_dir. */
static bool resolve(const struct closure *c, const char *from, const char *name, char *path, size_t size) {
    char full[PATH_MAX];
    const char *slash = strrchr(from, '/');
    if (slash) {
        tern_str_format(path, size, "%.*s/%s", (int)(slash - from), from, name);
        tern_str_format(full, sizeof full, "%s/%s", c->include_dir, path);
        if (tern_file_exists(full))
            return true;
    }
    tern_str_copy(path, size, name);
    tern_str_format(full, sizeof full, "%s/%s", c->include_dir, name);
    return tern_file_exists(full);
}

static enum tern_status walk(struct closure *c, const char *text, const char *from, struct tern_error *err);

static enum tern_status add_file(struct closure *c, const char *path, struct tern_error *err) {
    char full[PATH_MAX], *text = NULL;
    size_t length = 0;
    tern_str_format(full, sizeof full, "%s/%s", c->include_dir, path);
    enum tern_status status = tern_file_read(full, &text, &length, err);
    if (status != TERN_OK)
        return status;
    tern_str_printf(c->out, "\n#file \"%s\"\n", path);
    tern_str_append_bytes(c->out, text, length);
    status = walk(c, text, path, err);
    free(text);
    return status;
}

/* Follows the includes of a text. One that is not there stays in the identity by name; the compiler says what is wrong with
 * it. */
static enum tern_status walk(struct closure *c, const char *text, const char *from, struct tern_error *err) {
    char name[512], path[PATH_MAX];
    enum tern_status status = TERN_OK;
    for (const char *line = text; line && *line && status == TERN_OK;) {
        if (quoted_include(line, name, sizeof name)) {
            bool found = resolve(c, from, name, path, sizeof path);
            if (add_once(&c->seen, path)) {
                if (found)
                    status = add_file(c, path, err);
                else
                    tern_str_printf(c->out, "\n#absent \"%s\"\n", path);
            }
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return status;
}

enum tern_status tern_source_closure(const char *source, const char *include_dir, struct tern_str *out,
                                     struct tern_error *err) {
    struct closure c = {.include_dir = include_dir, .out = out};
    tern_str_append(out, source);
    enum tern_status status = walk(&c, source, "", err);
    tern_strs_free(&c.seen);
    return status;
}
