/* Detection of the driver and its libraries in a forked child. The child opens them, writes one struct to a pipe and leaves
 * with _exit; a crash or a hang of the driver ends the child only. */
#include "device/detect.h"

#include "core/clock.h"
#include "core/str.h"
#include "device/cuda_api.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A part that is not there, with the words of the error. */
static void not_found(struct tern_detected *part, const struct tern_error *err) {
    part->found = false;
    tern_str_copy(part->detail, sizeof part->detail, err->text);
    tern_str_copy(part->hint, sizeof part->hint, err->hint);
}

/* Opens the GPU for real: one that is listed but cannot be used is worth knowing. */
static void describe_gpu(int ordinal, struct tern_detected *gpu) {
    struct tern_device_info info;
    struct tern_error err = {0};
    void *context = NULL;
    enum tern_status status = tern_backend_cuda.open(ordinal, &context, &err);
    if (status == TERN_OK)
        status = tern_backend_cuda.info(context, &info, &err);
    if (status == TERN_OK) {
        gpu->found = true;
        tern_str_format(gpu->detail, sizeof gpu->detail, "%d: %s, sm_%d, %lld SMs, %.1f GiB, %s, driver %s", ordinal,
                        info.name, info.cc, (long long)info.sms, (double)info.memory_bytes / (1 << 30), info.uuid,
                        *info.driver_name ? info.driver_name : "(version unknown)");
    } else {
        not_found(gpu, &err);
    }
    tern_backend_cuda.close(context);
}

/* The driver and its GPUs. */
static void detect_driver(struct tern_detection *out) {
    struct tern_cuda_api api;
    struct tern_error err = {0};
    char path[PATH_MAX];
    int version = 0, count = 0;
    if (tern_cuda_api_load(&api, path, sizeof path, &err) != TERN_OK) {
        not_found(&out->driver, &err);
        return;
    }
    CUresult result = api.init(0);
    if (result != CUDA_SUCCESS) {
        const char *name = NULL;
        (void)api.error_name(result, &name);
        tern_str_format(out->driver.detail, sizeof out->driver.detail, "%.200s is there but does not start: %s", path,
                        name ? name : "unknown error");
        tern_str_copy(out->driver.hint, sizeof out->driver.hint,
                      "nvidia-smi must list a GPU; in a container, start it with --gpus all");
        return;
    }
    (void)api.driver_version(&version);
    (void)api.device_count(&count);
    out->driver.found = true;
    tern_str_format(out->driver.detail, sizeof out->driver.detail, "CUDA %d.%d, %.200s", version / 1000, version % 1000 / 10,
                    path);
    out->gpu_count = count < TERN_DETECT_MAX_GPUS ? count : TERN_DETECT_MAX_GPUS;
    for (int i = 0; i < out->gpu_count; i++)
        describe_gpu(i, &out->gpus[i]);
}

/* The libraries beside the driver; cuBLASLt takes a moment to load, which is why the child does it. */
static void detect_libraries(struct tern_detection *out) {
    struct tern_nvml_api nvml;
    struct tern_cublas_api cublas;
    struct tern_error err = {0};
    char path[PATH_MAX];
    if (tern_nvml_api_load(&nvml, path, sizeof path, &err) == TERN_OK) {
        out->nvml.found = true;
        tern_str_copy(out->nvml.detail, sizeof out->nvml.detail, path);
    } else {
        not_found(&out->nvml, &err);
    }
    if (tern_cublas_api_load(&cublas, path, sizeof path, &err) == TERN_OK) {
        out->cublas.found = true;
        tern_str_format(out->cublas.detail, sizeof out->cublas.detail, "%zu, %.200s", cublas.version(), path);
    } else {
        not_found(&out->cublas, &err);
    }
}

static void write_all(int fd, const void *data, size_t length) {
    const char *p = data;
    while (length > 0) {
        ssize_t done = write(fd, p, length);
        if (done <= 0 && errno != EINTR)
            return;
        if (done > 0) {
            p += done;
            length -= (size_t)done;
        }
    }
}

/* Reads until the struct is complete, the child is gone or the time is over. */
static bool read_all(int fd, void *data, size_t length, int64_t deadline_ns) {
    char *p = data;
    while (length > 0) {
        int64_t left_ms = (deadline_ns - tern_clock_now_ns()) / 1000000;
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int polled = left_ms > 0 ? poll(&ready, 1, (int)left_ms) : 0;
        if (polled < 0 && errno == EINTR)
            continue;
        if (polled <= 0)
            return false;
        ssize_t done = read(fd, p, length);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        p += done;
        length -= (size_t)done;
    }
    return true;
}

/* Never returns. The struct goes through the pipe as it is: both ends are the same program. */
static void child(int fd, struct tern_detection *out) {
    memset(out, 0, sizeof *out);
    detect_driver(out);
    detect_libraries(out);
    write_all(fd, out, sizeof *out);
    _exit(0); /* no handlers of the parent, no destructors of the driver */
}

enum tern_status tern_cuda_detect(double seconds, struct tern_detection *out, struct tern_error *err) {
    int ends[2], ended = 0;
    memset(out, 0, sizeof *out);
    if (pipe(ends) != 0)
        return tern_error_set(err, TERN_INTERNAL, "no pipe for the detection: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        child(ends[1], out);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return tern_error_set(err, TERN_INTERNAL, "no process for the detection: %s", strerror(errno));
    }
    bool complete = read_all(ends[0], out, sizeof *out, tern_clock_now_ns() + (int64_t)(seconds * 1e9));
    close(ends[0]);
    /* A driver that hangs cannot be joined, only killed; waitpid then takes its status. */
    if (!complete)
        (void)kill(pid, SIGKILL);
    while (waitpid(pid, &ended, 0) < 0 && errno == EINTR)
        ;
    if (complete)
        return TERN_OK;
    /* What happened to the child is the finding, for every part that it would have looked at. */
    struct tern_error finding = {0};
    if (WIFSIGNALED(ended) && WTERMSIG(ended) != SIGKILL)
        tern_error_set(&finding, TERN_MISSING, "the driver crashed the detection (signal %d)", WTERMSIG(ended));
    else
        tern_error_set(&finding, TERN_MISSING, "the driver did not answer within %.0f s", seconds);
    tern_error_hint(&finding, "see the kernel log (dmesg) for Xid messages; the GPU may need a reset or a reboot");
    memset(out, 0, sizeof *out);
    not_found(&out->driver, &finding);
    not_found(&out->nvml, &finding);
    not_found(&out->cublas, &finding);
    return TERN_OK;
}
