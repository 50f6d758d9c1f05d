/* GPU descriptions: loading configs/gpus/NAME.lua, and what follows from one. */
#include "config/gpu.h"

#include "config/fields.h"
#include "config/find.h"
#include "config/sandbox.h"

#include <limits.h>
#include <lua.h>
#include <math.h>
#include <string.h>

/* Shortest kernel as a graph node, where a description has none: no vendor publishes it. Measured on an H200 SXM. */
#define GPU_LAUNCH_US 0.51

static const char *const gpu_keys[] = {
    "title",         "arch",       "cc",         "sms",       "l2_bytes",     "memory_bytes", "smem_block_bytes",
    "smem_sm_bytes", "regs_sm",    "threads_sm", "blocks_sm", "memory_gbs",   "clock_mhz",    "f16_tflops",
    "s8_tops",       "f32_tflops", "launch_us",  "cold_read", "device_names", "source",
};

/* cold_read = { {MB, us}, ... }: both strictly ascending, MB = 1e6 bytes. */
static void gpu_read_points(struct tern_fields *f, struct tern_gpu *gpu) {
    int64_t length = tern_fields_push_table(f, "cold_read", TERN_OPTIONAL);
    if (length < 0)
        return;
    if (length == 0 || length > TERN_MAX_COLD_POINTS)
        tern_fields_fail(f, "cold_read", "must be a list of 1 to %d points {MB, us}", TERN_MAX_COLD_POINTS);
    for (int64_t i = 0; i < length && tern_fields_push_entry(f, "cold_read", i + 1); i++) {
        lua_rawgeti(f->lua, -1, 1);
        lua_rawgeti(f->lua, -2, 2);
        double bytes = lua_type(f->lua, -2) == LUA_TNUMBER ? lua_tonumber(f->lua, -2) * 1e6 : NAN;
        double us = lua_type(f->lua, -1) == LUA_TNUMBER ? lua_tonumber(f->lua, -1) : NAN;
        bool ascending = i == 0 ? bytes > 0 && us > 0 : bytes > gpu->cold_read[i - 1].bytes && us > gpu->cold_read[i - 1].us;
        if (!ascending || !isfinite(bytes) || !isfinite(us) || lua_rawlen(f->lua, -3) != 2)
            tern_fields_fail(f, "cold_read", "must hold points {MB, us}, both > 0 and ascending; point %d does not fit",
                             (int)i + 1);
        gpu->cold_read[i].bytes = bytes;
        gpu->cold_read[i].us = us;
        gpu->cold_points = (int)i + 1;
        tern_fields_pop(f, 3);
    }
    tern_fields_pop(f, 1);
}

static void gpu_read_names(struct tern_fields *f, struct tern_gpu *gpu) {
    int64_t length = tern_fields_push_table(f, "device_names", TERN_REQUIRED);
    if (length < 0)
        return;
    if (length == 0)
        tern_fields_fail(f, "device_names", "must list at least one name that the driver reports");
    char name[128];
    for (int64_t i = 0; i < length && tern_fields_entry_text(f, "device_names", i + 1, name, sizeof(name)); i++)
        tern_strs_add(&gpu->device_names, name);
    tern_fields_pop(f, 1);
}

/* "sm_90a" must belong to cc = 90, or every build would be for another GPU. */
static void gpu_check_arch(struct tern_fields *f, const struct tern_gpu *gpu) {
    char expected[16];
    tern_str_format(expected, sizeof(expected), "sm_%d", gpu->cc);
    size_t length = strlen(expected);
    const char *suffix = gpu->arch + (strlen(gpu->arch) < length ? strlen(gpu->arch) : length);
    if (strncmp(gpu->arch, expected, length) != 0 ||
        (strcmp(suffix, "") != 0 && strcmp(suffix, "a") != 0 && strcmp(suffix, "f") != 0))
        tern_fields_fail(f, "arch", "must be %s, with or without 'a' or 'f' at its end, as cc is %d; not '%s'", expected,
                         gpu->cc, gpu->arch);
}

static enum tern_status gpu_read(struct tern_fields *f, struct tern_gpu *gpu) {
    int64_t cc = 0;
    tern_fields_known(f, gpu_keys, sizeof(gpu_keys) / sizeof(*gpu_keys));
    tern_fields_text(f, "title", gpu->title, sizeof(gpu->title), TERN_REQUIRED);
    tern_fields_text(f, "arch", gpu->arch, sizeof(gpu->arch), TERN_REQUIRED);
    tern_fields_int(f, "cc", 75, 999, &cc, TERN_REQUIRED);
    tern_fields_int(f, "sms", 1, 4096, &gpu->sms, TERN_REQUIRED);
    tern_fields_int(f, "l2_bytes", 1, INT64_MAX, &gpu->l2_bytes, TERN_REQUIRED);
    tern_fields_int(f, "memory_bytes", 1, INT64_MAX, &gpu->memory_bytes, TERN_REQUIRED);
    tern_fields_int(f, "smem_block_bytes", 16384, 1 << 20, &gpu->smem_block_bytes, TERN_REQUIRED);
    tern_fields_int(f, "smem_sm_bytes", 16384, 1 << 20, &gpu->smem_sm_bytes, TERN_REQUIRED);
    tern_fields_int(f, "regs_sm", 1024, 1 << 20, &gpu->regs_sm, TERN_REQUIRED);
    tern_fields_int(f, "threads_sm", 32, 65536, &gpu->threads_sm, TERN_REQUIRED);
    tern_fields_int(f, "blocks_sm", 1, 1024, &gpu->blocks_sm, TERN_REQUIRED);
    tern_fields_positive(f, "memory_gbs", &gpu->memory_gbs, TERN_REQUIRED);
    tern_fields_positive(f, "clock_mhz", &gpu->clock_mhz, TERN_REQUIRED);
    tern_fields_positive(f, "f16_tflops", &gpu->f16_tflops, TERN_REQUIRED);
    tern_fields_positive(f, "s8_tops", &gpu->s8_tops, TERN_REQUIRED);
    tern_fields_positive(f, "f32_tflops", &gpu->f32_tflops, TERN_REQUIRED);
    gpu->launch_us = GPU_LAUNCH_US;
    tern_fields_positive(f, "launch_us", &gpu->launch_us, TERN_OPTIONAL);
    tern_fields_text(f, "source", gpu->source, sizeof(gpu->source), TERN_REQUIRED);
    gpu_read_points(f, gpu);
    gpu_read_names(f, gpu);
    gpu->cc = (int)cc;
    if (f->status == TERN_OK)
        gpu_check_arch(f, gpu);
    return f->status;
}

enum tern_status tern_gpu_load(const char *name, struct tern_gpu *gpu, struct tern_error *err) {
    *gpu = (struct tern_gpu){0};
    char path[PATH_MAX];
    struct tern_sandbox *sandbox = NULL;
    enum tern_status status = tern_config_find("gpus", name, path, sizeof(path), err);
    if (status == TERN_OK)
        status = tern_sandbox_load(path, &sandbox, err);
    if (status != TERN_OK)
        return status;
    tern_config_base_name(path, gpu->name, sizeof(gpu->name));
    struct tern_fields fields;
    tern_fields_begin(&fields, tern_sandbox_state(sandbox), path, "", err);
    status = gpu_read(&fields, gpu);
    tern_sandbox_free(sandbox);
    if (status != TERN_OK)
        tern_gpu_free(gpu);
    return status;
}

enum tern_status tern_gpu_names(struct tern_strs *names, struct tern_error *err) {
    return tern_config_names("gpus", names, err);
}

/* Cards of one name come with different memories, so that must agree too. Drivers report up to 8 % less than the data sheet
 * (ECC on GDDR cards, reserved pages), never more. */
bool tern_gpu_matches(const struct tern_gpu *gpu, const char *device_name, int cc, int64_t memory_bytes) {
    bool named = false;
    for (size_t i = 0; i < gpu->device_names.count && !named; i++)
        named = strcmp(gpu->device_names.items[i], device_name) == 0;
    double ratio = (double)memory_bytes / (double)gpu->memory_bytes;
    return named && cc == gpu->cc && ratio > 0.85 && ratio < 1.05;
}

double tern_gpu_read_us(const struct tern_gpu *gpu, double bytes) {
    double bytes_per_us = gpu->memory_gbs * 1e3;
    int count = gpu->cold_points;
    if (count == 0)
        return bytes / bytes_per_us + gpu->launch_us;
    if (bytes >= gpu->cold_read[count - 1].bytes) /* goes on from the last point, so that the curve has no step */
        return gpu->cold_read[count - 1].us + (bytes - gpu->cold_read[count - 1].bytes) / bytes_per_us;
    /* Below the first point towards an empty kernel: a limit must not be above what is possible. */
    double left_bytes = 0, left_us = gpu->launch_us;
    int i = 0;
    for (; bytes >= gpu->cold_read[i].bytes; i++) {
        left_bytes = gpu->cold_read[i].bytes;
        left_us = gpu->cold_read[i].us;
    }
    double share = (bytes - left_bytes) / (gpu->cold_read[i].bytes - left_bytes);
    return left_us + share * (gpu->cold_read[i].us - left_us);
}

void tern_gpu_free(struct tern_gpu *gpu) {
    tern_strs_free(&gpu->device_names);
}
