/* Compilers: NVRTC to cubin (no GPU needed), g++ to a shared object for the emulator. Run in compile workers: NVRTC 13
 * itself opens libcuda and starts the driver inside its compile call, where there is one. Asking its version does not. */
#ifndef TERN_DEVICE_COMPILER_H
#define TERN_DEVICE_COMPILER_H

#include "core/error.h"
#include "core/str.h"

#include <stddef.h>
#include <stdint.h>

struct tern_compiled {
    int ok;      /* 0: refused, see log */
    void *image; /* cubin; malloc'ed */
    size_t image_bytes;
    struct tern_str log; /* whole compiler log, also on success (ptxas -v lines) */
    /* Of the entry, from the log or else the cubin; -1 where unknown. Spills: stores + loads, device functions included. */
    int64_t registers, static_smem_bytes, spill_bytes, local_bytes;
    double seconds;
};

/* True if NVRTC can be loaded; fills version ("13.0") and path; else err has the remedy. */
enum tern_status tern_nvrtc_version(int *major, int *minor, char *path, size_t path_size, struct tern_error *err);
/* Folder with cuda_fp16.h: $CUDA_HOME, the toolkit of nvcc on PATH, /usr/local/cuda, the local wheels; TERN_MISSING with a
 * remedy. */
enum tern_status tern_cuda_include_dir(char *out, size_t size, struct tern_error *err);

/* Compiles `source` (preamble already in front) for `arch` ("sm_90a") to a cubin. include_dirs are searched for "tern/...".
 * An arch that this NVRTC does not know is TERN_MISSING with both versions in the text. */
enum tern_status tern_nvrtc_compile(const char *source, const char *name, const char *arch, const char *const *include_dirs,
                                    size_t include_count, const char *entry, struct tern_compiled *out,
                                    struct tern_error *err);
/* Compiles the same source for the CPU: g++ -O2 -shared with the emulator's shim in front; writes the shared object to
 * `path`. `sanitize` adds ASan and UBSan. TERN_MISSING if no C++ compiler is found. */
enum tern_status tern_emu_compile(const char *source, const char *name, const char *path, int sanitize, struct tern_str *log,
                                  int *ok, struct tern_error *err);
void tern_compiled_free(struct tern_compiled *compiled);

/* Preprocessed identity of a source: the text of every quoted include below `include_dir` appended in order of first
 * inclusion. */
enum tern_status tern_source_closure(const char *source, const char *include_dir, struct tern_str *out,
                                     struct tern_error *err);

#endif
