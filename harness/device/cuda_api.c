/* Loaders of the function tables in cuda_api.h: which file holds which table, and what to do when it is missing. */
#include "device/cuda_api.h"

#include "device/library.h"

/* Length of a table. */
#define COUNT(table) (sizeof(table) / sizeof *(table))

/* Each row of an X-macro table becomes {exported name, older name, place in the struct}. */
#define ROW(field, name, older, result, arguments) {name, older, offsetof(struct tern_cuda_api, field)},
static const struct tern_symbol cuda_symbols[] = {TERN_CUDA_SYMBOLS(ROW)};
#undef ROW
#define ROW(field, name, older, result, arguments) {name, older, offsetof(struct tern_nvrtc_api, field)},
static const struct tern_symbol nvrtc_symbols[] = {TERN_NVRTC_SYMBOLS(ROW)};
#undef ROW
#define ROW(field, name, older, result, arguments) {name, older, offsetof(struct tern_cublas_api, field)},
static const struct tern_symbol cublas_symbols[] = {TERN_CUBLAS_SYMBOLS(ROW)};
#undef ROW
#define ROW(field, name, older, result, arguments) {name, older, offsetof(struct tern_nvml_api, field)},
static const struct tern_symbol nvml_symbols[] = {TERN_NVML_SYMBOLS(ROW)};
#undef ROW

/* libcuda.so without a number is the link-time stub of the toolkit: never opened. */
static const struct tern_library cuda_library = {
    .title = "the NVIDIA driver",
    .sonames = {"libcuda.so.1"},
    .driver = true,
    .hint = "install the NVIDIA driver (525 or newer); in a container, start it with --gpus all",
    .symbols = cuda_symbols,
    .symbol_count = COUNT(cuda_symbols),
};
/* Newest first: a newer NVRTC knows every architecture that this program plans for. */
static const struct tern_library nvrtc_library = {
    .title = "NVRTC",
    .sonames = {"libnvrtc.so.13", "libnvrtc.so.12"},
    .hint = "set CUDA_HOME to a CUDA toolkit (12.4 or newer), or run scripts/setup.sh, which installs NVIDIA's wheels into "
            ".deps",
    .symbols = nvrtc_symbols,
    .symbol_count = COUNT(nvrtc_symbols),
};
static const struct tern_library cublas_library = {
    .title = "cuBLASLt",
    .sonames = {"libcublasLt.so.13", "libcublasLt.so.12"},
    .hint = "set CUDA_HOME to a CUDA toolkit (12.4 or newer) with cuBLAS, or run scripts/setup.sh; baselines need it",
    .symbols = cublas_symbols,
    .symbol_count = COUNT(cublas_symbols),
};
/* Part of the driver, like libcuda: a copy from elsewhere would not fit the kernel module. */
static const struct tern_library nvml_library = {
    .title = "NVML",
    .sonames = {"libnvidia-ml.so.1"},
    .driver = true,
    .hint = "it comes with the NVIDIA driver; without it clocks and throttling are unknown",
    .symbols = nvml_symbols,
    .symbol_count = COUNT(nvml_symbols),
};

/* Loading libcuda runs no driver code; the first call of `init` does. */
enum tern_status tern_cuda_api_load(struct tern_cuda_api *api, char *path, size_t size, struct tern_error *err) {
    return tern_library_load(&cuda_library, api, path, size, err);
}

enum tern_status tern_nvrtc_api_load(struct tern_nvrtc_api *api, char *path, size_t size, struct tern_error *err) {
    return tern_library_load(&nvrtc_library, api, path, size, err);
}

enum tern_status tern_cublas_api_load(struct tern_cublas_api *api, char *path, size_t size, struct tern_error *err) {
    return tern_library_load(&cublas_library, api, path, size, err);
}

enum tern_status tern_nvml_api_load(struct tern_nvml_api *api, char *path, size_t size, struct tern_error *err) {
    return tern_library_load(&nvml_library, api, path, size, err);
}
