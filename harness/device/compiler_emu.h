/* What the emulator's compiler needs of the machine: a C++ compiler, and ASan's library for checked kernels. */
#ifndef TERN_DEVICE_COMPILER_EMU_H
#define TERN_DEVICE_COMPILER_EMU_H

#include "core/error.h"

#include <stddef.h>

/* Path of the C++ compiler: $CXX if it names one program, else g++, clang++ or c++ on PATH. TERN_MISSING with a remedy. */
enum tern_status tern_emu_compiler(char *out, size_t size, struct tern_error *err);
/* Path of libasan.so, which a program that loads checked kernels must have preloaded unless it was built with ASan itself
 * (then "" is returned). */
enum tern_status tern_emu_sanitizer_library(char *out, size_t size, struct tern_error *err);
/* Identity of everything but the kernel's source: the shim's files, the compiler and its flags. For cache keys. */
enum tern_status tern_emu_identity(int sanitize, char *hash, struct tern_error *err);

#endif
