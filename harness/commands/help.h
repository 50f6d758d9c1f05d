/* `tune help`: the overview of the program. Help of a single command is in that command's own file. */
#ifndef TERN_COMMANDS_HELP_H
#define TERN_COMMANDS_HELP_H

#include "commands/commands.h"

#include <stddef.h>

/* Usage, commands, exit codes, on stdout. */
void tern_help_overview(const struct tern_command *const *commands, size_t count);

#endif
