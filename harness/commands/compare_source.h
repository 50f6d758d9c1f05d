/* Where a side of `tune compare` comes from: a release, a database or a CSV file, by whatever name the user has for it. */
#ifndef TERN_COMMANDS_COMPARE_SOURCE_H
#define TERN_COMMANDS_COMPARE_SOURCE_H

#include "core/error.h"
#include "core/result.h"
#include "core/str.h"

/* Reads all winners of `name`, sorted: a database, a winners.csv, a folder with winners.csv (GPU: the folder's name, if an
 * environment.json or the name of a GPU says so) or with such folders, or the name of one of these under results/. gpu and
 * shapes: NULL for all. notes gets sentences on what the source does not tell. TERN_USAGE: there is no such thing, or no row. */
enum tern_status tern_compare_source(const char *name, const char *gpu, const char *shapes, struct tern_results *rows,
                                     struct tern_strs *notes, struct tern_error *err);

#endif
