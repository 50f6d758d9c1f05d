/* cuBLASLt GEMM in FP16, BF16 or FP8, y[M,N] = x[M,K] * W[N,K]^T with FP32 accumulation: the baselines every winner is compared with.
 *
 * cuBLASLt is column major. A row-major [R][C] array with stride C is a column-major C x R matrix with leading dimension C:
 *     W [N][K] is K x N, ld K;   x [M][K] is K x M, ld K;   y [M][N] is N x M, ld N.
 * y^T = W * x^T, so D (N x M) = op(A) * op(B) with A = W transposed (K x N -> N x K), B = x as it lies (K x M); m = N, n =
 * M, k = K. */
#include "device/cuda_context.h"
#include "device/cuda_timing.h"

#include "core/str.h"

#include <inttypes.h>
#include <stdlib.h>

#define MAX_ALGORITHMS 16

/* cublasLtMatmulDescAttributes_t and cublasLtMatmulMatrixScale_t of 12.9, which headers before do not name. */
enum { A_SCALE_MODE = 31, B_SCALE_MODE = 32, SCALE_OUTER_VEC_32F = 3, SCALE_VEC128_32F = 4 };

struct tern_gemm {
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d; /* W, x, y */
    cublasLtMatmulHeuristicResult_t algorithms[MAX_ALGORITHMS];
    int count;
    enum tern_activation type; /* TERN_E4M3: x and W are e4m3 with scales, y is binary16 */
    const void *w_scales, *x_scales;
    bool per_row; /* one scale a row of both; else one for 128 k */
    int64_t m, n, k;
};

/* What a capture enqueues: item i is `before` (if any), then the GEMM with w[i], or with w[0] when `before` refills it. */
struct gemm_work {
    const struct tern_gemm *gemm;
    int index;
    const void *x, *const *w;
    const struct tern_launch *before;
    void *y;
};

/* Lack of memory or of a working driver is missing; the rest is a failure, which for one algorithm may just mean "not here".
 */
static enum tern_status check(const struct tern_cuda *cuda, cublasStatus_t result, const char *doing,
                              struct tern_error *err) {
    if (result == CUBLAS_STATUS_SUCCESS)
        return TERN_OK;
    const char *name = cuda->cublas.status_name(result);
    enum tern_status status =
        result == CUBLAS_STATUS_ALLOC_FAILED || result == CUBLAS_STATUS_NOT_INITIALIZED ? TERN_MISSING : TERN_FAILED;
    return tern_error_set(err, status, "cuBLASLt, %s: %s (%d)", doing, name ? name : "unknown status", (int)result);
}

enum tern_status tern_cuda_cublas_open(struct tern_cuda *cuda, struct tern_error *err) {
    if (cuda->cublas_handle)
        return TERN_OK;
    enum tern_status status = tern_cublas_api_load(&cuda->cublas, NULL, 0, err);
    if (status == TERN_OK && !cuda->cublas_workspace)
        status = tern_backend_cuda.alloc(cuda, TERN_GEMM_WORKSPACE_BYTES, &cuda->cublas_workspace, err);
    if (status == TERN_OK)
        status = check(cuda, cuda->cublas.create(&cuda->cublas_handle), "starting", err);
    return status;
}

void tern_cuda_cublas_close(struct tern_cuda *cuda) {
    if (cuda->cublas_handle)
        (void)cuda->cublas.destroy(cuda->cublas_handle);
    if (cuda->cublas_workspace)
        tern_backend_cuda.release(cuda, cuda->cublas_workspace);
    cuda->cublas_handle = NULL;
    cuda->cublas_workspace = NULL;
}

/* Scales of both, with which cuBLASLt multiplies sums: over 128 k, or over all of K. */
static cublasStatus_t describe_scales(const struct tern_cublas_api *api, struct tern_gemm *g) {
    const int32_t mode = g->per_row ? SCALE_OUTER_VEC_32F : SCALE_VEC128_32F;
    const struct {
        int attribute;
        const void *value;
        size_t size;
    } list[] = {{A_SCALE_MODE, &mode, sizeof mode},
                {B_SCALE_MODE, &mode, sizeof mode},
                {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &g->w_scales, sizeof g->w_scales},
                {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &g->x_scales, sizeof g->x_scales}};
    cublasStatus_t result = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof list / sizeof list[0] && result == CUBLAS_STATUS_SUCCESS; i++)
        result = api->desc_set(g->operation, (cublasLtMatmulDescAttributes_t)list[i].attribute, list[i].value, list[i].size);
    return result;
}

/* The mapping at the top of this file, in cuBLASLt's words. */
static enum tern_status describe(const struct tern_cuda *cuda, struct tern_gemm *g, struct tern_error *err) {
    const struct tern_cublas_api *api = &cuda->cublas;
    const cublasOperation_t transpose = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    const cudaDataType_t to = g->type == TERN_BF16 ? CUDA_R_16BF : CUDA_R_16F,
                         from = g->type == TERN_E4M3 ? CUDA_R_8F_E4M3 : to;
    uint64_t m = (uint64_t)g->m, n = (uint64_t)g->n, k = (uint64_t)g->k;
    cublasStatus_t result = api->desc_create(&g->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = api->desc_set(g->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = api->desc_set(g->operation, CUBLASLT_MATMUL_DESC_TRANSB, &plain, sizeof plain);
    if (result == CUBLAS_STATUS_SUCCESS && g->type == TERN_E4M3)
        result = describe_scales(api, g);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = api->layout_create(&g->a, from, k, n, g->k);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = api->layout_create(&g->b, from, k, m, g->k);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = api->layout_create(&g->d, to, n, m, g->n);
    return check(cuda, result, "describing the product", err);
}

/* Up to 16 algorithms in cuBLASLt's own order. Alignments keep their default of 256 bytes, which alloc guarantees. */
static enum tern_status find_algorithms(const struct tern_cuda *cuda, struct tern_gemm *g, struct tern_error *err) {
    const struct tern_cublas_api *api = &cuda->cublas;
    const uint64_t workspace = TERN_GEMM_WORKSPACE_BYTES;
    cublasLtMatmulPreference_t preference = NULL;
    int found = 0;
    cublasStatus_t result = api->preference_create(&preference);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = api->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    if (result == CUBLAS_STATUS_SUCCESS)
        result = api->heuristic(cuda->cublas_handle, g->operation, g->a, g->b, g->d, g->d, preference, MAX_ALGORITHMS,
                                g->algorithms, &found);
    if (preference)
        (void)api->preference_destroy(preference);
    enum tern_status status = check(cuda, result, "looking for algorithms", err);
    if (status != TERN_OK)
        return status;
    for (int i = 0; i < found; i++) /* keeps the order: the first is cuBLASLt's own choice */
        if (g->algorithms[i].state == CUBLAS_STATUS_SUCCESS)
            g->algorithms[g->count++] = g->algorithms[i];
    if (g->count == 0)
        return tern_error_set(err, TERN_FAILED, "cuBLASLt has no algorithm for M=%" PRId64 " N=%" PRId64 " K=%" PRId64, g->m,
                              g->n, g->k);
    return TERN_OK;
}

/* Makes *gemm of `like`, which says what is multiplied. */
static enum tern_status open_like(struct tern_cuda *cuda, const struct tern_gemm *like, struct tern_gemm **gemm,
                                  int *algorithms, struct tern_error *err) {
    *gemm = NULL;
    *algorithms = 0;
    if (like->m < 1 || like->n < 1 || like->k < 1)
        return tern_error_set(err, TERN_USAGE, "no product of M=%" PRId64 " N=%" PRId64 " K=%" PRId64, like->m, like->n,
                              like->k);
    enum tern_status status = tern_cuda_cublas_open(cuda, err);
    if (status != TERN_OK)
        return status;
    struct tern_gemm *g = tern_alloc_zero(1, sizeof *g);
    *g = *like;
    status = describe(cuda, g, err);
    if (status == TERN_OK)
        status = find_algorithms(cuda, g, err);
    if (status != TERN_OK) {
        tern_gemm_close(cuda, g);
        return status;
    }
    *gemm = g;
    *algorithms = g->count;
    return TERN_OK;
}

enum tern_status tern_gemm_open(void *context, enum tern_activation type, int64_t m, int64_t n, int64_t k,
                                struct tern_gemm **gemm, int *algorithms, struct tern_error *err) {
    const struct tern_gemm like = {.type = type == TERN_BF16 ? TERN_BF16 : TERN_F16, .m = m, .n = n, .k = k};
    return open_like(context, &like, gemm, algorithms, err);
}

enum tern_status tern_gemm_open_e4m3(void *context, int64_t m, int64_t n, int64_t k, const struct tern_gemm_scales *scales,
                                     struct tern_gemm **gemm, int *algorithms, struct tern_error *err) {
    const struct tern_gemm like = {
        .type = TERN_E4M3, .x_scales = scales->x, .w_scales = scales->w, .per_row = scales->per_row, .m = m, .n = n, .k = k};
    *gemm = NULL;
    if (m % 4 != 0 && !scales->per_row)
        return tern_error_set(err, TERN_FAILED, "cuBLASLt scales 128 k for M that are multiples of 4 only");
    return open_like(context, &like, gemm, algorithms, err);
}

static enum tern_status multiply(struct tern_cuda *cuda, const struct gemm_work *work, const void *w,
                                 struct tern_error *err) {
    const struct tern_gemm *g = work->gemm;
    const float one = 1.0f, zero = 0.0f; /* beta 0: what stands in y is not read */
    cublasStatus_t result = cuda->cublas.matmul(
        cuda->cublas_handle, g->operation, &one, w, g->a, work->x, g->b, &zero, work->y, g->d, work->y, g->d,
        &g->algorithms[work->index].algo, cuda->cublas_workspace, TERN_GEMM_WORKSPACE_BYTES, (cudaStream_t)cuda->stream);
    return check(cuda, result, "multiplying", err);
}

/* Capture body; user is a struct gemm_work. */
static enum tern_status enqueue(struct tern_cuda *cuda, void *user, size_t count, struct tern_error *err) {
    const struct gemm_work *work = user;
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < count && status == TERN_OK; i++) {
        if (work->before)
            status = tern_backend_cuda.launch(cuda, &work->before[i], err);
        if (status == TERN_OK)
            status = multiply(cuda, work, work->before ? work->w[0] : work->w[i], err);
    }
    return status;
}

static enum tern_status capture(struct tern_cuda *cuda, struct gemm_work *work, size_t count, struct tern_graph **graph,
                                struct tern_error *err) {
    *graph = NULL;
    if (work->index < 0 || work->index >= work->gemm->count)
        return tern_error_set(err, TERN_INTERNAL, "cuBLASLt algorithm %d of %d", work->index, work->gemm->count);
    if (count == 0)
        return tern_error_set(err, TERN_INTERNAL, "a graph of no products cannot be timed");
    return tern_cuda_capture(cuda, enqueue, work, count, graph, err);
}

enum tern_status tern_gemm_capture(void *context, struct tern_gemm *gemm, int index, const void *x, const void *const *w,
                                   void *y, size_t count, struct tern_graph **graph, struct tern_error *err) {
    struct gemm_work work = {.gemm = gemm, .index = index, .x = x, .w = w, .y = y};
    return capture(context, &work, count, graph, err);
}

/* `before` is an array of `count` launches, one for each copy of the packed weights. */
enum tern_status tern_gemm_capture_after(void *context, struct tern_gemm *gemm, int index, const struct tern_launch *before,
                                         size_t count, const void *x, const void *w_scratch, void *y,
                                         struct tern_graph **graph, struct tern_error *err) {
    struct gemm_work work = {.gemm = gemm, .index = index, .x = x, .w = &w_scratch, .before = before, .y = y};
    return capture(context, &work, count, graph, err);
}

void tern_gemm_close(void *context, struct tern_gemm *gemm) {
    struct tern_cuda *cuda = context;
    if (!gemm)
        return;
    if (gemm->a)
        (void)cuda->cublas.layout_destroy(gemm->a);
    if (gemm->b)
        (void)cuda->cublas.layout_destroy(gemm->b);
    if (gemm->d)
        (void)cuda->cublas.layout_destroy(gemm->d);
    if (gemm->operation)
        (void)cuda->cublas.desc_destroy(gemm->operation);
    free(gemm);
}
