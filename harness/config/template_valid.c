/* Asking a template's valid(p, problem, gpu) about one candidate. Called for many grid points, so tables are reused.
 * p is a proxy that notes which parameters the answer depends on: a refusal that looked at a few only holds for every value
 * of the others, and the grid need not ask again. */
#include "config/template.h"

#include "config/sandbox.h"
#include "core/str.h"

#include <lauxlib.h>
#include <lua.h>
#include <string.h>

_Static_assert(TERN_MAX_PARAMS <= 32, "a bit for each parameter");

/* Stack of a loaded template: [1] the file's table, [2] valid, then once made [3] p, [4] problem, [5] gpu. */
enum { SLOT_VALID = 2, SLOT_P, SLOT_PROBLEM, SLOT_GPU };

struct valid_call {
    const struct tern_template *tmpl;
    const int64_t *values;
    uint32_t read; /* a bit for each declared parameter that was read */
};

/* p.NAME: the value of a parameter. Upvalue 1: the struct valid_call in progress. */
static int valid_read(lua_State *lua) {
    struct valid_call *call = lua_touserdata(lua, lua_upvalueindex(1));
    const char *name = lua_type(lua, 2) == LUA_TSTRING ? lua_tostring(lua, 2) : "";
    for (size_t i = 0; i < call->tmpl->param_count; i++)
        if (strcmp(call->tmpl->params[i].name, name) == 0) {
            call->read |= (uint32_t)1 << i;
            lua_pushinteger(lua, call->values[i]);
            return 1;
        }
    return luaL_error(lua, "valid() reads p.%s, which is no parameter", name);
}

/* The proxy and, as its metatable's closure, the call that it answers for; made once and reused. */
static struct valid_call *valid_proxy(lua_State *lua) {
    if (lua_gettop(lua) < SLOT_P) {
        lua_newtable(lua);
        lua_newtable(lua);
        lua_newuserdatauv(lua, sizeof(struct valid_call), 0);
        lua_pushvalue(lua, -1);
        lua_setfield(lua, -3, "call");
        lua_pushcclosure(lua, valid_read, 1);
        lua_setfield(lua, -2, "__index");
        lua_setmetatable(lua, SLOT_P);
    }
    lua_getmetatable(lua, SLOT_P);
    lua_getfield(lua, -1, "call");
    struct valid_call *call = lua_touserdata(lua, -1);
    lua_pop(lua, 2);
    return call;
}

static void valid_set(lua_State *lua, int slot, const char *key, int64_t value) {
    lua_pushinteger(lua, value);
    lua_setfield(lua, slot, key);
}

static void valid_set_problem(lua_State *lua, const struct tern_problem_shape *problem) {
    const struct tern_format *format = problem->format;
    valid_set(lua, SLOT_PROBLEM, "m", problem->m);
    valid_set(lua, SLOT_PROBLEM, "n", problem->n);
    valid_set(lua, SLOT_PROBLEM, "k", problem->k);
    valid_set(lua, SLOT_PROBLEM, "bits", format->bits);
    valid_set(lua, SLOT_PROBLEM, "group", tern_format_group_size(format, problem->k));
    valid_set(lua, SLOT_PROBLEM, "groups", tern_format_groups(format, problem->k));
    lua_pushboolean(lua, format->sym);
    lua_setfield(lua, SLOT_PROBLEM, "sym");
    lua_pushstring(lua, tern_family_name(format->family));
    lua_setfield(lua, SLOT_PROBLEM, "family");
    lua_pushstring(lua, tern_activation_name(problem->type));
    lua_setfield(lua, SLOT_PROBLEM, "activation");
}

static void valid_set_gpu(lua_State *lua, const struct tern_gpu *gpu) {
    lua_pushstring(lua, gpu->name);
    lua_setfield(lua, SLOT_GPU, "name");
    valid_set(lua, SLOT_GPU, "cc", gpu->cc);
    valid_set(lua, SLOT_GPU, "sms", gpu->sms);
    valid_set(lua, SLOT_GPU, "smem_block_bytes", gpu->smem_block_bytes);
    valid_set(lua, SLOT_GPU, "smem_sm_bytes", gpu->smem_sm_bytes);
    valid_set(lua, SLOT_GPU, "l2_bytes", gpu->l2_bytes);
    valid_set(lua, SLOT_GPU, "threads_sm", gpu->threads_sm);
}

enum tern_status tern_template_valid(const struct tern_template *t, const int64_t *values,
                                     const struct tern_problem_shape *problem, const struct tern_gpu *gpu, bool *valid,
                                     uint32_t *read, char *reason, size_t reason_size, struct tern_error *err) {
    lua_State *lua = tern_sandbox_state(t->lua);
    *valid = false;
    tern_str_copy(reason, reason_size, "");
    luaL_checkstack(lua, 16, "valid");
    struct valid_call *call = valid_proxy(lua);
    *call = (struct valid_call){.tmpl = t, .values = values};
    while (lua_gettop(lua) < SLOT_GPU)
        lua_newtable(lua);
    valid_set_problem(lua, problem);
    valid_set_gpu(lua, gpu);
    for (int slot = SLOT_VALID; slot <= SLOT_GPU; slot++)
        lua_pushvalue(lua, slot);
    enum tern_status status = tern_sandbox_call(t->lua, 3, 2, err);
    if (status == TERN_OK) {
        if (!lua_isboolean(lua, -2))
            status =
                tern_error_set(err, TERN_USAGE, "%s/space.lua: valid() must return true, or false and a reason, not a %s",
                               t->dir, luaL_typename(lua, -2));
        else if (!lua_toboolean(lua, -2) && lua_type(lua, -1) != LUA_TSTRING)
            status = tern_error_set(err, TERN_USAGE, "%s/space.lua: valid() returned false without a reason", t->dir);
        else {
            *valid = lua_toboolean(lua, -2);
            if (!*valid)
                tern_str_copy(reason, reason_size, lua_tostring(lua, -1));
        }
    }
    if (read)
        *read = call->read;
    lua_settop(lua, SLOT_GPU);
    return status;
}
