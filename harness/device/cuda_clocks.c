/* Clocks of the device: NVML by UUID, and a load that lets the clocks settle. Never changes clocks, power or modes of a
 * card. */
#include "device/cuda_context.h"
#include "device/cuda_timing.h"

#include "core/clock.h"
#include "core/half.h"
#include "core/random.h"
#include "core/str.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define SETTLE_SIDE       4096 /* of the square product that heats the device */
#define SETTLE_BATCH      8    /* products between two looks at the clock: under 10 ms on a data-centre GPU */
#define SETTLE_SEED       1
#define SETTLE_BLOCK      (1 << 16) /* random halves, repeated over the operands */
#define MAX_NVML_PROCESS  64
#define MIG_PREFIX_LENGTH 4
#define WATCH_PERIOD_NS   20000000

/* nvmlClocksEventReason: hardware slowdown, software thermal, hardware thermal, hardware power brake. */
#define DISTURBING_REASONS (0x8u | 0x20u | 0x40u | 0x80u)

/* By UUID: the ordinals of NVML and of CUDA need not agree. */
void tern_cuda_nvml_open(struct tern_cuda *cuda) {
    cuda->nvml_device = NULL;
    if (!*cuda->uuid || tern_nvml_api_load(&cuda->nvml, NULL, 0, NULL) != TERN_OK || cuda->nvml.init() != 0)
        return;
    char mig[sizeof cuda->uuid];
    if (cuda->nvml.device_by_uuid(cuda->uuid, &cuda->nvml_device) == 0)
        return;
    /* A MIG slice has a UUID of its own, which NVML knows by another prefix. */
    tern_str_format(mig, sizeof mig, "MIG-%s", cuda->uuid + MIG_PREFIX_LENGTH);
    if (cuda->nvml.device_by_uuid(mig, &cuda->nvml_device) == 0)
        return;
    cuda->nvml_device = NULL;
    (void)cuda->nvml.shutdown();
}

/* Readings of a thread, merged until somebody takes them. */
struct tern_watch {
    struct tern_cuda *cuda;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool end, fresh; /* fresh: `seen` holds a reading that nobody took */
    struct tern_clocks seen;
};

static void watch_close(struct tern_watch *w) {
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->end = true;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
    (void)pthread_cond_destroy(&w->ended);
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
}

void tern_cuda_nvml_close(struct tern_cuda *cuda) {
    watch_close(cuda->watch);
    cuda->watch = NULL;
    if (cuda->nvml_device)
        (void)cuda->nvml.shutdown();
    cuda->nvml_device = NULL;
}

void tern_cuda_nvml_info(const struct tern_cuda *cuda, struct tern_device_info *info) {
    unsigned int value = 0;
    const struct tern_nvml_api *nvml = &cuda->nvml;
    if (!cuda->nvml_device)
        return;
    if (nvml->driver_name(info->driver_name, sizeof info->driver_name) != 0)
        info->driver_name[0] = '\0';
    if (nvml->max_clock(cuda->nvml_device, TERN_NVML_CLOCK_SM, &value) == 0)
        info->sm_clock_mhz = (int)value;
    if (nvml->max_clock(cuda->nvml_device, TERN_NVML_CLOCK_MEMORY, &value) == 0)
        info->memory_clock_mhz = (int)value;
    if (nvml->power_limit_mw(cuda->nvml_device, &value) == 0)
        info->power_limit_w = (int)(value / 1000);
}

void tern_cuda_clocks(void *context, struct tern_clocks *out) {
    struct tern_cuda *cuda = context;
    const struct tern_nvml_api *nvml = &cuda->nvml;
    void *device = cuda->nvml_device;
    unsigned int value = 0, count = MAX_NVML_PROCESS;
    unsigned long long reasons = 0;
    struct tern_nvml_process processes[MAX_NVML_PROCESS];
    *out = (struct tern_clocks){-1, -1, -1, -1, 0, -1};
    if (!device)
        return;
    if (nvml->clock(device, TERN_NVML_CLOCK_SM, &value) == 0)
        out->sm_mhz = (int)value;
    if (nvml->clock(device, TERN_NVML_CLOCK_MEMORY, &value) == 0)
        out->memory_mhz = (int)value;
    if (nvml->temperature(device, TERN_NVML_TEMPERATURE_GPU, &value) == 0)
        out->temperature_c = (int)value;
    if (nvml->power_mw(device, &value) == 0)
        out->power_w = (int)(value / 1000);
    if (nvml->throttle(device, &reasons) == 0)
        out->throttle_reasons = reasons;
    /* One of the processes is this one: in a container its number differs from ours, so it is not looked for. */
    int result = nvml->processes(device, &count, processes);
    if (result == 0 || result == TERN_NVML_INSUFFICIENT_SIZE)
        out->other_processes = count > 0 ? (int)count - 1 : 0;
}

static int greater(int a, int b) {
    return a > b ? a : b;
}

void tern_clocks_merge(struct tern_clocks *seen, const struct tern_clocks *more) {
    seen->sm_mhz = more->sm_mhz < seen->sm_mhz ? more->sm_mhz : seen->sm_mhz;
    seen->memory_mhz = more->memory_mhz < seen->memory_mhz ? more->memory_mhz : seen->memory_mhz;
    seen->temperature_c = greater(seen->temperature_c, more->temperature_c);
    seen->power_w = greater(seen->power_w, more->power_w);
    seen->throttle_reasons |= more->throttle_reasons;
    seen->other_processes = greater(seen->other_processes, more->other_processes);
}

bool tern_clocks_disturbed(const struct tern_clocks *clocks) {
    return (clocks->throttle_reasons & DISTURBING_REASONS) != 0 || clocks->other_processes > 0;
}

static void merge(struct tern_watch *w, const struct tern_clocks *now) {
    if (w->fresh)
        tern_clocks_merge(&w->seen, now);
    else
        w->seen = *now;
    w->fresh = true;
}

static void *watch_main(void *user) {
    struct tern_watch *w = user;
    pthread_mutex_lock(&w->lock);
    while (!w->end) {
        struct tern_clocks now;
        struct timespec until;
        pthread_mutex_unlock(&w->lock);
        tern_cuda_clocks(w->cuda, &now);
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += WATCH_PERIOD_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&w->lock);
        merge(w, &now);
        if (!w->end)
            (void)pthread_cond_timedwait(&w->ended, &w->lock, &until);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Without a thread the clocks are read when they are asked for. */
static void watch_open(struct tern_cuda *cuda) {
    struct tern_watch *w = tern_alloc_zero(1, sizeof *w);
    w->cuda = cuda;
    tern_cuda_clocks(cuda, &w->seen);
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->ended, NULL);
    if (pthread_create(&w->thread, NULL, watch_main, w) != 0) {
        free(w);
        return;
    }
    cuda->watch = w;
}

void tern_cuda_watch(void *context, struct tern_clocks *out) {
    struct tern_cuda *cuda = context;
    if (cuda->nvml_device && !cuda->watch)
        watch_open(cuda);
    struct tern_watch *w = cuda->watch;
    if (!w) {
        tern_cuda_clocks(cuda, out);
        return;
    }
    pthread_mutex_lock(&w->lock);
    *out = w->seen;
    w->fresh = false;
    pthread_mutex_unlock(&w->lock);
}

/* Fills a device array of `count` halves with normal numbers: zeros or constants would draw less power than real work. */
static enum tern_status fill_random(struct tern_cuda *cuda, void *to, size_t count, struct tern_error *err) {
    uint16_t *block = tern_alloc(SETTLE_BLOCK * sizeof *block);
    struct tern_random random;
    enum tern_status status = TERN_OK;
    tern_random_init(&random, SETTLE_SEED, "settle");
    for (size_t i = 0; i < SETTLE_BLOCK; i++)
        block[i] = tern_half_from_double(tern_random_normal(&random));
    for (size_t at = 0; at < count && status == TERN_OK; at += SETTLE_BLOCK) {
        size_t part = count - at < SETTLE_BLOCK ? count - at : SETTLE_BLOCK;
        status = tern_backend_cuda.upload(cuda, (uint16_t *)to + at, block, part * sizeof *block, err);
    }
    free(block);
    return status;
}

/* Products where cuBLASLt is there, else copies, until the time is over. */
static enum tern_status load_until(struct tern_cuda *cuda, int64_t deadline_ns, void *x, void *w, void *y, size_t bytes,
                                   struct tern_error *err) {
    struct tern_gemm *gemm = NULL;
    struct tern_graph *graph = NULL;
    const void *weights[SETTLE_BATCH];
    int algorithms = 0;
    double us = 0;
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < SETTLE_BATCH; i++)
        weights[i] = w;
    if (tern_gemm_open(cuda, TERN_F16, SETTLE_SIDE, SETTLE_SIDE, SETTLE_SIDE, &gemm, &algorithms, NULL) == TERN_OK)
        status = tern_gemm_capture(cuda, gemm, 0, x, weights, y, SETTLE_BATCH, &graph, err);
    while (status == TERN_OK && tern_clock_now_ns() < deadline_ns) {
        for (int i = 0; i < SETTLE_BATCH && status == TERN_OK; i++)
            status = tern_backend_cuda.copy(cuda, y, x, bytes, err);
        if (status == TERN_OK)
            status = graph ? tern_graph_time(cuda, graph, &us, err) : tern_backend_cuda.synchronize(cuda, err);
    }
    tern_graph_free(cuda, graph);
    tern_gemm_close(cuda, gemm);
    return status;
}

enum tern_status tern_cuda_settle(void *context, double seconds, struct tern_error *err) {
    struct tern_cuda *cuda = context;
    const size_t count = (size_t)SETTLE_SIDE * SETTLE_SIDE, bytes = count * sizeof(uint16_t);
    void *buffers[3] = {NULL, NULL, NULL}; /* x, w, y */
    enum tern_status status = TERN_OK;
    for (int i = 0; i < 3 && status == TERN_OK; i++)
        status = tern_backend_cuda.alloc(cuda, bytes, &buffers[i], err);
    for (int i = 0; i < 2 && status == TERN_OK; i++)
        status = fill_random(cuda, buffers[i], count, err);
    int64_t deadline_ns = tern_clock_now_ns() + (int64_t)(seconds * 1e9);
    if (status == TERN_OK)
        status = load_until(cuda, deadline_ns, buffers[0], buffers[1], buffers[2], bytes, err);
    cuda->heated_s = seconds;
    for (int i = 0; i < 3; i++)
        tern_backend_cuda.release(cuda, buffers[i]);
    return status;
}
