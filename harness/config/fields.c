/* Checked reading of a Lua table. Raw access only: no metamethod of a config file ever runs here. */
#include "config/fields.h"

#include "core/str.h"

#include <inttypes.h>
#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void tern_fields_begin(struct tern_fields *f, struct lua_State *lua, const char *path, const char *where,
                       struct tern_error *err) {
    *f = (struct tern_fields){.lua = lua, .path = path, .table = lua_gettop(lua), .status = TERN_OK, .err = err};
    tern_str_copy(f->where, sizeof(f->where), where);
    luaL_checkstack(lua, 16, "config");
}

void tern_fields_fail(struct tern_fields *f, const char *key, const char *format, ...) {
    if (f->status != TERN_OK)
        return;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    f->status = tern_error_set(f->err, TERN_USAGE, "%s: key '%s%s' %s", f->path, f->where, key, text);
}

/* What the value on the stack top is, for "not ..." in messages. */
static void fields_describe(lua_State *lua, char *out, size_t size) {
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        tern_str_format(out, size, "'%.60s'", lua_tostring(lua, -1));
        break;
    case LUA_TNUMBER:
        if (lua_isinteger(lua, -1))
            tern_str_format(out, size, "%" PRId64, (int64_t)lua_tointeger(lua, -1));
        else
            tern_str_format(out, size, "%g", lua_tonumber(lua, -1));
        break;
    case LUA_TBOOLEAN:
        tern_str_copy(out, size, lua_toboolean(lua, -1) ? "true" : "false");
        break;
    default:
        tern_str_format(out, size, "a %s", luaL_typename(lua, -1));
    }
}

/* Fails with "must be WHAT, not VALUE" about the value on the stack top. */
static void fields_wrong(struct tern_fields *f, const char *key, const char *what) {
    char found[96];
    fields_describe(f->lua, found, sizeof(found));
    tern_fields_fail(f, key, "must be %s, not %s", what, found);
}

/* Pushes the value of `key`; false, with nothing pushed, when there is none or something failed before. */
static bool fields_get(struct tern_fields *f, const char *key, enum tern_need need) {
    if (f->status != TERN_OK)
        return false;
    lua_pushstring(f->lua, key);
    lua_rawget(f->lua, f->table);
    if (!lua_isnil(f->lua, -1))
        return true;
    lua_pop(f->lua, 1);
    if (need == TERN_REQUIRED)
        tern_fields_fail(f, key, "is missing");
    return false;
}

static void fields_fail_unknown(struct tern_fields *f, const char *key, const char *const *keys, size_t count) {
    struct tern_strs names = {0};
    for (size_t i = 0; i < count; i++)
        tern_strs_add(&names, keys[i]);
    const char *near = tern_str_suggest(key, &names);
    tern_fields_fail(f, key, "is unknown");
    if (near != NULL)
        tern_error_hint(f->err, "did you mean '%s'?", near);
    tern_strs_free(&names);
}

void tern_fields_known(struct tern_fields *f, const char *const *keys, size_t count) {
    if (f->status != TERN_OK)
        return;
    for (lua_pushnil(f->lua); lua_next(f->lua, f->table); lua_pop(f->lua, 1)) {
        bool known = false;
        bool text = lua_type(f->lua, -2) == LUA_TSTRING;
        for (size_t i = 0; i < count && text && !known; i++)
            known = strcmp(lua_tostring(f->lua, -2), keys[i]) == 0;
        if (known)
            continue;
        if (text)
            fields_fail_unknown(f, lua_tostring(f->lua, -2), keys, count);
        else if (lua_isinteger(f->lua, -2))
            tern_fields_fail(f, "", "has an entry without a name, [%" PRId64 "]", (int64_t)lua_tointeger(f->lua, -2));
        else
            tern_fields_fail(f, "", "has a key that is not a name but a %s", luaL_typename(f->lua, -2));
        lua_pop(f->lua, 2);
        return;
    }
}

void tern_fields_text(struct tern_fields *f, const char *key, char *out, size_t size, enum tern_need need) {
    if (!fields_get(f, key, need))
        return;
    size_t length = 0;
    const char *text = lua_type(f->lua, -1) == LUA_TSTRING ? lua_tolstring(f->lua, -1, &length) : NULL;
    if (text == NULL)
        fields_wrong(f, key, "a text");
    else if (length == 0 || strlen(text) != length)
        tern_fields_fail(f, key, "must not be empty or hold zero bytes");
    else if (length >= size)
        tern_fields_fail(f, key, "is too long: %zu characters, at most %zu", length, size - 1);
    else
        memcpy(out, text, length + 1);
    lua_pop(f->lua, 1);
}

/* Whole number on the stack top, 3.0 counting as 3, in [min,max]. */
static bool fields_whole(struct tern_fields *f, const char *key, int64_t min, int64_t max, int64_t *out) {
    int whole = 0;
    lua_Integer value = lua_type(f->lua, -1) == LUA_TNUMBER ? lua_tointegerx(f->lua, -1, &whole) : 0;
    if (whole && value >= min && value <= max) {
        *out = value;
        return true;
    }
    char what[96];
    if (max == INT64_MAX)
        tern_str_format(what, sizeof(what), "a whole number >= %" PRId64, min);
    else
        tern_str_format(what, sizeof(what), "a whole number from %" PRId64 " to %" PRId64, min, max);
    fields_wrong(f, key, what);
    return false;
}

void tern_fields_int(struct tern_fields *f, const char *key, int64_t min, int64_t max, int64_t *out, enum tern_need need) {
    if (!fields_get(f, key, need))
        return;
    fields_whole(f, key, min, max, out);
    lua_pop(f->lua, 1);
}

void tern_fields_positive(struct tern_fields *f, const char *key, double *out, enum tern_need need) {
    if (!fields_get(f, key, need))
        return;
    double value = lua_type(f->lua, -1) == LUA_TNUMBER ? lua_tonumber(f->lua, -1) : NAN;
    if (value > 0 && isfinite(value))
        *out = value;
    else
        fields_wrong(f, key, "a number > 0");
    lua_pop(f->lua, 1);
}

void tern_fields_bool(struct tern_fields *f, const char *key, bool *out, enum tern_need need) {
    if (!fields_get(f, key, need))
        return;
    if (lua_isboolean(f->lua, -1))
        *out = lua_toboolean(f->lua, -1);
    else
        fields_wrong(f, key, "true or false");
    lua_pop(f->lua, 1);
}

int64_t tern_fields_push_table(struct tern_fields *f, const char *key, enum tern_need need) {
    if (!fields_get(f, key, need))
        return -1;
    if (lua_istable(f->lua, -1))
        return (int64_t)lua_rawlen(f->lua, -1);
    fields_wrong(f, key, "a table");
    lua_pop(f->lua, 1);
    return -1;
}

void tern_fields_ints(struct tern_fields *f, const char *key, int64_t min, int64_t max, int64_t *out, size_t most,
                      size_t *count, enum tern_need need) {
    int64_t length = tern_fields_push_table(f, key, need);
    if (length < 0)
        return;
    if (length == 0 || (size_t)length > most)
        tern_fields_fail(f, key, "must be a list of 1 to %zu numbers, not %" PRId64, most, length);
    for (int64_t i = 0; i < length && f->status == TERN_OK; i++) {
        char entry[64];
        tern_str_format(entry, sizeof(entry), "%s[%" PRId64 "]", key, i + 1);
        lua_rawgeti(f->lua, -1, i + 1);
        fields_whole(f, entry, min, max, &out[i]);
        lua_pop(f->lua, 1);
    }
    *count = f->status == TERN_OK ? (size_t)length : 0;
    lua_pop(f->lua, 1);
}

bool tern_fields_push_entry(struct tern_fields *f, const char *key, int64_t index) {
    if (f->status != TERN_OK)
        return false;
    lua_rawgeti(f->lua, -1, index);
    if (lua_istable(f->lua, -1))
        return true;
    char entry[64];
    tern_str_format(entry, sizeof(entry), "%s[%" PRId64 "]", key, index);
    fields_wrong(f, entry, "a table");
    lua_pop(f->lua, 1);
    return false;
}

bool tern_fields_entry_text(struct tern_fields *f, const char *key, int64_t index, char *out, size_t size) {
    if (f->status != TERN_OK)
        return false;
    char entry[64];
    tern_str_format(entry, sizeof(entry), "%s[%" PRId64 "]", key, index);
    lua_rawgeti(f->lua, -1, index);
    if (lua_type(f->lua, -1) != LUA_TSTRING)
        fields_wrong(f, entry, "a text");
    else if (lua_rawlen(f->lua, -1) >= size || lua_rawlen(f->lua, -1) == 0)
        tern_fields_fail(f, entry, "must have 1 to %zu characters", size - 1);
    else
        tern_str_copy(out, size, lua_tostring(f->lua, -1));
    lua_pop(f->lua, 1);
    return f->status == TERN_OK;
}

void tern_fields_pop(struct tern_fields *f, int count) {
    lua_pop(f->lua, count);
}
