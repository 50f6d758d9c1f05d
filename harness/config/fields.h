/* Checked reading of a Lua table: types, ranges, missing and unknown keys, with messages that name file and key.
 * For the loaders of this folder only. Errors are sticky: after the first one every call does nothing. */
#ifndef TERN_CONFIG_FIELDS_H
#define TERN_CONFIG_FIELDS_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lua_State;

enum tern_need { TERN_REQUIRED, TERN_OPTIONAL };

struct tern_fields {
    struct lua_State *lua;
    const char *path;        /* file, for messages; not owned */
    char where[64];          /* prefix of keys in messages: "layers[2]." */
    int table;               /* absolute stack index of the table */
    enum tern_status status; /* of the first failure */
    struct tern_error *err;
};

/* Reads the table on the stack top, which stays there. `where` is "" for the file's own table. */
void tern_fields_begin(struct tern_fields *f, struct lua_State *lua, const char *path, const char *where,
                       struct tern_error *err);
/* Fails on keys that are not in `keys` ("did you mean") and on list entries. */
void tern_fields_known(struct tern_fields *f, const char *const *keys, size_t count);

/* Each leaves *out alone where an optional key is absent. */
void tern_fields_text(struct tern_fields *f, const char *key, char *out, size_t size, enum tern_need need);
void tern_fields_int(struct tern_fields *f, const char *key, int64_t min, int64_t max, int64_t *out, enum tern_need need);
/* A finite number > 0. */
void tern_fields_positive(struct tern_fields *f, const char *key, double *out, enum tern_need need);
void tern_fields_bool(struct tern_fields *f, const char *key, bool *out, enum tern_need need);
/* A list of whole numbers in [min,max]; at least one, at most `most`. */
void tern_fields_ints(struct tern_fields *f, const char *key, int64_t min, int64_t max, int64_t *out, size_t most,
                      size_t *count, enum tern_need need);

/* Pushes the table under `key` and returns its length as a list; pushes nothing and returns -1 if absent or on failure. */
int64_t tern_fields_push_table(struct tern_fields *f, const char *key, enum tern_need need);
/* Pushes entry `index` (from 1) of the list on the stack top, which must be a table; false on failure, with nothing pushed.
 */
bool tern_fields_push_entry(struct tern_fields *f, const char *key, int64_t index);
/* Entry `index` of the list on the stack top as text, copied. */
bool tern_fields_entry_text(struct tern_fields *f, const char *key, int64_t index, char *out, size_t size);
void tern_fields_pop(struct tern_fields *f, int count);

/* Records a failure about `key`: "FILE: key 'WHERE.KEY' ...". */
void tern_fields_fail(struct tern_fields *f, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
