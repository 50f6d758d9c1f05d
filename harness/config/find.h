/* Names of config files; the finding itself is declared in sandbox.h. For the loaders of this folder. */
#ifndef TERN_CONFIG_FIND_H
#define TERN_CONFIG_FIND_H

#include "core/error.h"
#include "core/str.h"

#include <stddef.h>

/* "a/b/h200.lua" -> "h200". */
void tern_config_base_name(const char *path, char *out, size_t size);
/* Names of all files configs/KIND/NAME.lua, without ".lua", sorted. */
enum tern_status tern_config_names(const char *kind, struct tern_strs *names, struct tern_error *err);

#endif
