/* NVRTC: compiles CUDA source to a cubin in this process; needs no GPU. Owns the compile flags and the search for headers.
 * A source that does not compile is a result (ok = 0 and a log), not an error. */
#include "device/compiler.h"

#include "core/clock.h"
#include "core/file.h"
#include "device/compiler_log.h"
#include "device/cubin.h"
#include "device/cuda_api.h"
#include "device/library.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS       32
#define RESERVED_SMEM     1024 /* from sm_90 on the cubin's section holds this much for the system */
#define FIRST_RESERVED_SM 90

enum tern_status tern_nvrtc_version(int *major, int *minor, char *path, size_t path_size, struct tern_error *err) {
    struct tern_nvrtc_api api;
    *major = *minor = 0;
    enum tern_status status = tern_nvrtc_api_load(&api, path, path_size, err);
    if (status == TERN_OK && api.version(major, minor) != NVRTC_SUCCESS)
        status = tern_error_set(err, TERN_MISSING, "NVRTC does not tell its version");
    return status;
}

enum tern_status tern_cuda_include_dir(char *out, size_t size, struct tern_error *err) {
    char root[PATH_MAX], header[PATH_MAX + 32];
    for (int index = 0; tern_cuda_root(index, root, sizeof root); index++) {
        if (!*root)
            continue;
        tern_str_format(header, sizeof header, "%s/include/cuda_fp16.h", root);
        if (tern_file_exists(header)) {
            tern_str_format(out, size, "%s/include", root);
            return TERN_OK;
        }
    }
    tern_error_set(err, TERN_MISSING, "cuda_fp16.h not found: kernels cannot be compiled without the CUDA headers");
    tern_error_hint(err,
                    "set CUDA_HOME to a CUDA toolkit (12.4 or newer), or run scripts/setup.sh, which installs the headers");
    return TERN_MISSING;
}

/* An architecture this NVRTC does not know: names the version and what it knows. */
static enum tern_status unknown_arch(const struct tern_nvrtc_api *api, const char *arch, struct tern_error *err) {
    int major = 0, minor = 0, count = 0;
    struct tern_str list = {0};
    (void)api->version(&major, &minor);
    (void)api->arch_count(&count);
    int *known = tern_alloc_zero((size_t)(count > 0 ? count : 1), sizeof *known);
    if (count > 0 && api->arch_list(known) == NVRTC_SUCCESS)
        for (int i = 0; i < count; i++)
            tern_str_printf(&list, "%ssm_%d", i ? ", " : "", known[i]);
    tern_error_set(err, TERN_MISSING, "NVRTC %d.%d cannot compile for %s: it knows %s", major, minor, arch,
                   tern_str_text(&list));
    bool older = count > 0 && strncmp(arch, "sm_", 3) == 0 && strtol(arch + 3, NULL, 10) < known[0];
    tern_error_hint(err, "set CUDA_HOME to %s CUDA toolkit that knows %s", older ? "an older" : "a newer", arch);
    tern_str_free(&list);
    free(known);
    return TERN_MISSING;
}

/* Appends the program's log; NVRTC counts the final NUL in its size. */
static void read_log(const struct tern_nvrtc_api *api, nvrtcProgram program, struct tern_str *log) {
    size_t size = 0;
    if (api->log_size(program, &size) != NVRTC_SUCCESS || size <= 1)
        return;
    char *text = tern_alloc_zero(size + 1, 1);
    if (api->log(program, text) == NVRTC_SUCCESS)
        tern_str_append(log, text);
    free(text);
}

/* What a failed compilation means: a bad source is data; a missing part of NVRTC or a lack of memory is not the source's
 * fault. */
static enum tern_status judge(const struct tern_nvrtc_api *api, nvrtcResult result, const char *arch,
                              struct tern_compiled *out, struct tern_error *err) {
    const char *log = tern_str_text(&out->log);
    if (result == NVRTC_ERROR_INVALID_OPTION && strstr(log, "gpu-architecture"))
        return unknown_arch(api, arch, err);
    if (result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE || result == NVRTC_ERROR_OUT_OF_MEMORY ||
        result == NVRTC_ERROR_INVALID_OPTION) {
        tern_error_set(err, TERN_MISSING, "NVRTC: %s: %.600s", api->error_string(result), log);
        tern_error_hint(err, "libnvrtc-builtins must lie beside libnvrtc; `tune doctor` shows which NVRTC is used");
        return TERN_MISSING;
    }
    if (out->log.length == 0)
        tern_str_printf(&out->log, "NVRTC: %s\n", api->error_string(result));
    out->ok = 0;
    return TERN_OK;
}

/* Takes the cubin, and the resources from the log. */
static enum tern_status read_cubin(const struct tern_nvrtc_api *api, nvrtcProgram program, const char *entry,
                                   struct tern_compiled *out, struct tern_error *err) {
    size_t size = 0;
    nvrtcResult result = api->cubin_size(program, &size);
    if (result != NVRTC_SUCCESS || size == 0)
        return tern_error_set(err, TERN_MISSING, "NVRTC gave no cubin: %s", api->error_string(result));
    out->image = tern_alloc(size);
    out->image_bytes = size;
    result = api->cubin(program, out->image);
    if (result != NVRTC_SUCCESS)
        return tern_error_set(err, TERN_MISSING, "NVRTC gave no cubin: %s", api->error_string(result));
    out->ok = 1;
    struct tern_cubin cubin;
    if (tern_compiler_log_read(tern_str_text(&out->log), entry, out) || !tern_cubin_read(out->image, size, entry, &cubin))
        return TERN_OK;
    /* A log without ptxas lines: the cubin knows all but the spills. */
    out->registers = cubin.registers;
    out->local_bytes = cubin.frame_bytes;
    out->static_smem_bytes = cubin.static_smem_bytes;
    if (cubin.sm >= FIRST_RESERVED_SM && out->static_smem_bytes >= RESERVED_SMEM)
        out->static_smem_bytes -= RESERVED_SMEM;
    return TERN_OK;
}

/* Runs the compiler; options[0] is free for the architecture. */
static enum tern_status compile(const struct tern_nvrtc_api *api, const char *source, const char *name, const char *arch,
                                const char **options, int count, const char *entry, struct tern_compiled *out,
                                struct tern_error *err) {
    char arch_option[64];
    nvrtcProgram program = NULL;
    tern_str_format(arch_option, sizeof arch_option, "--gpu-architecture=%s", arch);
    options[0] = arch_option;
    nvrtcResult result = api->create(&program, source, name, 0, NULL, NULL);
    if (result != NVRTC_SUCCESS)
        return tern_error_set(err, TERN_MISSING, "NVRTC cannot make a program: %s", api->error_string(result));
    int64_t start_ns = tern_clock_now_ns();
    result = api->compile(program, count, options);
    out->seconds = (double)(tern_clock_now_ns() - start_ns) * 1e-9;
    read_log(api, program, &out->log);
    enum tern_status status =
        result == NVRTC_SUCCESS ? read_cubin(api, program, entry, out, err) : judge(api, result, arch, out, err);
    (void)api->destroy(&program);
    return status;
}

enum tern_status tern_nvrtc_compile(const char *source, const char *name, const char *arch, const char *const *include_dirs,
                                    size_t include_count, const char *entry, struct tern_compiled *out,
                                    struct tern_error *err) {
    struct tern_nvrtc_api api;
    char toolkit[PATH_MAX];
    /* -default-device: helpers need no __device__. -v: ptxas prints registers, shared memory and spills into the log. */
    const char *options[MAX_OPTIONS] = {NULL, "--std=c++17", "-default-device", "--ptxas-options=-v"};
    struct tern_strs includes = {0};
    int count = 4;
    *out = (struct tern_compiled){.registers = -1, .static_smem_bytes = -1, .spill_bytes = -1, .local_bytes = -1};
    enum tern_status status = tern_nvrtc_api_load(&api, NULL, 0, err);
    if (status == TERN_OK)
        status = tern_cuda_include_dir(toolkit, sizeof toolkit, err);
    if (status != TERN_OK)
        return status;
    if (include_count + (size_t)count + 1 > MAX_OPTIONS)
        return tern_error_set(err, TERN_INTERNAL, "%zu include folders are too many", include_count);
    for (size_t i = 0; i <= include_count; i++) {
        char option[PATH_MAX + 16];
        tern_str_format(option, sizeof option, "--include-path=%s", i < include_count ? include_dirs[i] : toolkit);
        tern_strs_add(&includes, option);
    }
    for (size_t i = 0; i < includes.count; i++)
        options[count++] = includes.items[i];
    status = compile(&api, source, name, arch, options, count, entry, out, err);
    tern_strs_free(&includes);
    if (status != TERN_OK)
        tern_compiled_free(out);
    return status;
}

void tern_compiled_free(struct tern_compiled *compiled) {
    free(compiled->image);
    tern_str_free(&compiled->log);
    *compiled = (struct tern_compiled){0};
}
