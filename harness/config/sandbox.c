/* Lua sandbox: whitelisted functions, an instruction, time and memory limit around every entry into Lua.
 * Owns the Lua state. Nothing a config file can do reaches files, processes, or other Lua states.
 *
 * What is left out, besides the obvious, because a count hook cannot stop it: pcall and coroutines (they could swallow the
 * limit's error), setmetatable (finalizers run with hooks off), string patterns (exponential matching inside C), string.rep
 * and table.move (long loops inside C), math.random (configs are the same on every run). */
#include "config/sandbox.h"

#include "core/clock.h"
#include "core/file.h"
#include "core/str.h"

#include <lauxlib.h>
#include <limits.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SANDBOX_MEMORY_BYTES ((size_t)16 << 20)
#define SANDBOX_FILE_BYTES   ((size_t)1 << 20)
#define SANDBOX_INSTRUCTIONS 10000000
#define SANDBOX_HOOK_PERIOD  1000
#define SANDBOX_TIME_NS      INT64_C(5000000000) /* for slow instructions, such as joining megabytes of text */

struct tern_sandbox {
    lua_State *lua;
    char path[PATH_MAX];
    size_t used_bytes, limit_bytes; /* limit is SIZE_MAX while C code owns the state: an error there would have no handler */
    int64_t instructions_left, deadline_ns;
};

static const char *const sandbox_base[] = {"assert", "error",    "ipairs",   "next", "pairs",
                                           "select", "tonumber", "tostring", "type", NULL};
static const char *const sandbox_string[] = {"byte", "char", "format", "len", "lower", "reverse", "sub", "upper", NULL};
static const char *const sandbox_table[] = {"concat", "insert", "pack", "remove", "sort", "unpack", NULL};
static const char *const sandbox_math[] = {"abs", "ceil", "exp",        "floor", "fmod",       "huge",
                                           "log", "max",  "maxinteger", "min",   "mininteger", "modf",
                                           "pi",  "sqrt", "tointeger",  "type",  "ult",        NULL};

static void *sandbox_allocate(void *user, void *block, size_t old_size, size_t new_size) {
    struct tern_sandbox *sandbox = user;
    size_t held = block != NULL ? old_size : 0; /* for new blocks old_size is a type tag */
    if (new_size == 0) {
        free(block);
        sandbox->used_bytes -= held;
        return NULL;
    }
    if (new_size > held &&
        (new_size - held > sandbox->limit_bytes || sandbox->used_bytes > sandbox->limit_bytes - (new_size - held)))
        return NULL;
    void *moved = realloc(block, new_size);
    if (moved != NULL)
        sandbox->used_bytes += new_size - held;
    return moved;
}

static struct tern_sandbox *sandbox_of(lua_State *lua) {
    void *user = NULL;
    lua_getallocf(lua, &user);
    return user;
}

/* Raises "file:line: more than LIMIT UNIT": in a hook, level 0 is the function that was interrupted. */
static void sandbox_stop(lua_State *lua, int limit, const char *unit) {
    luaL_where(lua, 0);
    lua_pushfstring(lua, "more than %d %s: an endless loop?", limit, unit);
    lua_concat(lua, 2);
    lua_error(lua);
}

static void sandbox_hook(lua_State *lua, lua_Debug *event) {
    (void)event;
    struct tern_sandbox *sandbox = sandbox_of(lua);
    sandbox->instructions_left -= SANDBOX_HOOK_PERIOD;
    if (sandbox->instructions_left < 0)
        sandbox_stop(lua, SANDBOX_INSTRUCTIONS, "instructions");
    if (tern_clock_now_ns() > sandbox->deadline_ns)
        sandbox_stop(lua, (int)(SANDBOX_TIME_NS / 1000000000), "seconds");
}

/* Copies the named functions from the table on the stack top into the table below it; pops the source. */
static void sandbox_copy(lua_State *lua, const char *const *names) {
    for (; *names != NULL; names++) {
        lua_getfield(lua, -1, *names);
        lua_setfield(lua, -3, *names);
    }
    lua_pop(lua, 1);
}

static void sandbox_add_library(lua_State *lua, const char *name, lua_CFunction open, const char *const *names) {
    lua_newtable(lua);
    luaL_requiref(lua, name, open, 0);
    sandbox_copy(lua, names);
    lua_setfield(lua, -2, name);
}

/* Builds the environment of the chunk and leaves it on the stack. Runs protected. */
static int sandbox_environment(lua_State *lua) {
    lua_newtable(lua);
    luaL_requiref(lua, "_G", luaopen_base, 0);
    sandbox_copy(lua, sandbox_base);
    sandbox_add_library(lua, "string", luaopen_string, sandbox_string);
    sandbox_add_library(lua, "table", luaopen_table, sandbox_table);
    sandbox_add_library(lua, "math", luaopen_math, sandbox_math);
    /* ("x"):rep(n) goes through the metatable of strings: it must see the short list too. */
    lua_pushliteral(lua, "");
    lua_getmetatable(lua, -1);
    lua_getfield(lua, -3, "string");
    lua_setfield(lua, -2, "__index");
    lua_pop(lua, 2);
    return 1;
}

/* True if Lua put "file:line:" in front itself; long paths it shortens to "...tail". */
static bool sandbox_has_place(const struct tern_sandbox *sandbox, const char *text) {
    return strncmp(text, sandbox->path, strlen(sandbox->path)) == 0 || strncmp(text, "...", 3) == 0;
}

/* Turns the error value on the stack top into *err. */
static enum tern_status sandbox_fail(struct tern_sandbox *sandbox, int code, struct tern_error *err) {
    lua_State *lua = sandbox->lua;
    if (code == LUA_ERRMEM)
        tern_error_set(err, TERN_USAGE, "%s: needs more than %d MiB of memory", sandbox->path,
                       (int)(SANDBOX_MEMORY_BYTES >> 20));
    else if (lua_type(lua, -1) == LUA_TSTRING) {
        const char *text = lua_tostring(lua, -1);
        bool placed = sandbox_has_place(sandbox, text);
        tern_error_set(err, TERN_USAGE, "%s%s%s", placed ? "" : sandbox->path, placed ? "" : ": ", text);
    } else
        tern_error_set(err, TERN_USAGE, "%s: raised an error that is a %s", sandbox->path, luaL_typename(lua, -1));
    lua_pop(lua, 1);
    return TERN_USAGE;
}

enum tern_status tern_sandbox_call(struct tern_sandbox *sandbox, int arguments, int results, struct tern_error *err) {
    sandbox->instructions_left = SANDBOX_INSTRUCTIONS;
    sandbox->deadline_ns = tern_clock_now_ns() + SANDBOX_TIME_NS;
    sandbox->limit_bytes = SANDBOX_MEMORY_BYTES;
    lua_sethook(sandbox->lua, sandbox_hook, LUA_MASKCOUNT, SANDBOX_HOOK_PERIOD);
    int code = lua_pcall(sandbox->lua, arguments, results, 0);
    lua_sethook(sandbox->lua, NULL, 0, 0);
    sandbox->limit_bytes = SIZE_MAX;
    return code == LUA_OK ? TERN_OK : sandbox_fail(sandbox, code, err);
}

/* Compiles `text` into a function on the stack top whose only global table is the environment. */
static enum tern_status sandbox_compile(struct tern_sandbox *sandbox, const char *text, size_t length,
                                        struct tern_error *err) {
    lua_State *lua = sandbox->lua;
    char chunk[PATH_MAX + 1];
    tern_str_format(chunk, sizeof(chunk), "@%s", sandbox->path);
    sandbox->limit_bytes = SANDBOX_MEMORY_BYTES;
    int code = luaL_loadbufferx(lua, text, length, chunk, "t");
    sandbox->limit_bytes = SIZE_MAX;
    if (code != LUA_OK)
        return sandbox_fail(sandbox, code, err);
    lua_pushcfunction(lua, sandbox_environment);
    code = lua_pcall(lua, 0, 1, 0);
    if (code != LUA_OK)
        return sandbox_fail(sandbox, code, err);
    lua_setupvalue(lua, -2, 1); /* the first upvalue of a chunk is _ENV */
    return TERN_OK;
}

enum tern_status tern_sandbox_load(const char *path, struct tern_sandbox **out, struct tern_error *err) {
    *out = NULL;
    char *text = NULL;
    size_t length = 0;
    enum tern_status status = tern_file_read(path, &text, &length, err);
    if (status != TERN_OK)
        return status;
    struct tern_sandbox *sandbox = tern_alloc_zero(1, sizeof(*sandbox));
    sandbox->limit_bytes = SIZE_MAX;
    tern_str_copy(sandbox->path, sizeof(sandbox->path), path);
    if (length > SANDBOX_FILE_BYTES) {
        status = tern_error_set(err, TERN_USAGE, "%s: is larger than %d MiB", path, (int)(SANDBOX_FILE_BYTES >> 20));
        goto out;
    }
    sandbox->lua = lua_newstate(sandbox_allocate, sandbox);
    if (sandbox->lua == NULL) {
        status = tern_error_set(err, TERN_INTERNAL, "cannot make a Lua state for %s", path);
        goto out;
    }
    status = sandbox_compile(sandbox, text, length, err);
    if (status == TERN_OK)
        status = tern_sandbox_call(sandbox, 0, 1, err);
    if (status == TERN_OK && !lua_istable(sandbox->lua, -1)) {
        status = tern_error_set(err, TERN_USAGE, "%s: must return a table, not %s", path, luaL_typename(sandbox->lua, -1));
        tern_error_hint(err, "a config file ends with: return { ... }");
    }
out:
    free(text);
    if (status == TERN_OK)
        *out = sandbox;
    else
        tern_sandbox_free(sandbox);
    return status;
}

struct lua_State *tern_sandbox_state(struct tern_sandbox *sandbox) {
    return sandbox->lua;
}

void tern_sandbox_free(struct tern_sandbox *sandbox) {
    if (sandbox == NULL)
        return;
    if (sandbox->lua != NULL)
        lua_close(sandbox->lua);
    free(sandbox);
}
