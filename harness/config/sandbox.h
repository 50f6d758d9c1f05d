/* Lua sandbox: the only door to Lua. Loads a config chunk that returns a table, with no io, os, load, package, debug, require
 * or string.rep bombs; an instruction limit and a memory limit; errors name file:line. Text chunks only, no bytecode. */
#ifndef TERN_CONFIG_SANDBOX_H
#define TERN_CONFIG_SANDBOX_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

struct lua_State;
struct tern_sandbox; /* a Lua state with its limits; owns the state */

/* Runs `path` and leaves the table that it returns on the stack top. TERN_USAGE on syntax errors, run-time errors, limits. */
enum tern_status tern_sandbox_load(const char *path, struct tern_sandbox **sandbox, struct tern_error *err);
struct lua_State *tern_sandbox_state(struct tern_sandbox *sandbox);
/* Calls the function and arguments on the stack with a fresh instruction budget. */
enum tern_status tern_sandbox_call(struct tern_sandbox *sandbox, int arguments, int results, struct tern_error *err);
void tern_sandbox_free(struct tern_sandbox *sandbox);

/* Finds a config: `name` is tried as a path first, then as configs/KIND/NAME and NAME.lua; unknown names get "did you mean". */
enum tern_status tern_config_find(const char *kind, const char *name, char *path, unsigned long size,
                                  struct tern_error *err);

#endif
