/* Reads the resources of a kernel from the lines that ptxas -v leaves in a compiler log. */
#ifndef TERN_DEVICE_COMPILER_LOG_H
#define TERN_DEVICE_COMPILER_LOG_H

#include "device/compiler.h"

#include <stdbool.h>

/* Fills registers, static_smem_bytes, spill_bytes and local_bytes of `entry`. False, nothing changed, if the log lacks it.
 */
bool tern_compiler_log_read(const char *log, const char *entry, struct tern_compiled *out);

#endif
