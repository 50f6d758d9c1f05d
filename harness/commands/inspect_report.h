/* How `tune inspect` shows layers: text of 80 columns, and JSON. */
#ifndef TERN_COMMANDS_INSPECT_REPORT_H
#define TERN_COMMANDS_INSPECT_REPORT_H

#include "formats/census.h"

void tern_inspect_print_text(const struct tern_checkpoint *checkpoint, const struct tern_linears *layers,
                             const struct tern_census *census);
void tern_inspect_print_json(const struct tern_checkpoint *checkpoint, const struct tern_linears *layers,
                             const struct tern_census *census);

#endif
