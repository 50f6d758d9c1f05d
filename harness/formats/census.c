/* Counts codes and scales of layers, block by block of rows, so that no layer is ever held whole. */
#include "formats/census.h"

#include "formats/parallel.h"
#include "formats/ternary_codes.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Smallest normal number of the type that the file holds. */
static float least_normal(const char *dtype) {
    return strcmp(dtype, "F16") == 0 ? 0x1p-14F : 0x1p-126F;
}

static void count_scale(const struct tern_linear *layer, float scale, struct tern_census *c) {
    c->scales.count++;
    if (isnan(scale)) {
        c->scales.nan++;
        return;
    }
    c->scales.negative += scale < 0.0F;
    if (isinf(scale)) {
        c->scales.inf++;
        return;
    }
    c->scales.zero += scale == 0.0F;
    c->scales.denormal += scale != 0.0F && fabsf(scale) < least_normal(layer->scale_dtype);
    c->scales.min = fminf(c->scales.min, scale); /* a NaN in the beginning gives way to the number */
    c->scales.max = fmaxf(c->scales.max, scale);
}

/* Whether each q - z is -1, 0 or 1: as unsigned, q - z + 1 is at most 2. */
static bool row_is_ternary(const struct tern_linear *layer, const uint8_t *codes, const uint8_t *zeros,
                           const int32_t *index) {
    for (int64_t k = 0; k < layer->k; k++)
        if ((unsigned)(codes[k] - zeros[index[k]] + 1) > 2U)
            return false;
    return true;
}

/* A row of a ternary format. Its zero points are all 1, so the codes say everything; those above 2 are illegal, and the slow way
 * finds them. */
static void count_ternary_row(const struct tern_linear *layer, const uint8_t *codes, int64_t n, struct tern_census *c) {
    if (tern_codes_count(codes, layer->k, c->codes) == 0)
        return;
    c->ternary = false;
    for (int64_t k = 0; k < layer->k; k++) {
        if (codes[k] <= 2)
            continue;
        c->codes[codes[k]]++;
        if (c->illegal.count++ == 0) {
            c->illegal.n = n;
            c->illegal.k = k;
            c->illegal.code = codes[k];
        }
    }
}

void tern_census_begin(struct tern_census *census) {
    *census = (struct tern_census){.ternary = true};
    census->scales.min = census->scales.max = (float)NAN;
}

void tern_census_rows(const struct tern_linear *layer, const struct tern_linear_rows *rows, const int32_t *index,
                      struct tern_census *c) {
    c->odd += rows->odd;
    for (int64_t i = 0; i < rows->count; i++) {
        const uint8_t *codes = rows->codes + i * layer->k;
        for (int64_t g = 0; g < layer->groups; g++)
            count_scale(layer, rows->scales[i * layer->groups + g], c);
        if (layer->ternary) {
            count_ternary_row(layer, codes, rows->first + i, c);
            continue;
        }
        tern_codes_histogram(codes, layer->k, layer->bits, c->codes);
        c->ternary = c->ternary && row_is_ternary(layer, codes, rows->zeros + i * layer->groups, index);
    }
}

static void take_layer(const struct tern_linear *layer, struct tern_census *c) {
    struct tern_linear_rows rows;
    const int64_t block = tern_linear_block_rows(layer);
    int32_t *index = tern_alloc((size_t)layer->k * sizeof *index);
    tern_census_begin(c);
    tern_linear_group_index(layer, index);
    tern_linear_rows_alloc(layer, block, &rows);
    for (int64_t n = 0; n < layer->n; n += block) {
        tern_linear_decode(layer, n, n + block < layer->n ? n + block : layer->n, &rows);
        tern_census_rows(layer, &rows, index, c);
        tern_linear_forget_behind(layer, n, block);
    }
    tern_linear_forget(layer);
    tern_linear_rows_free(&rows);
    free(index);
}

struct job {
    const struct tern_linears *layers;
    struct tern_census *results;
};

static void take_one(void *context, int64_t i) {
    const struct job *job = context;
    if (!job->layers->items[i].error[0])
        take_layer(&job->layers->items[i], &job->results[i]);
}

void tern_census_take(const struct tern_linears *layers, struct tern_census *results) {
    struct job job = {layers, results};
    memset(results, 0, layers->count * sizeof *results);
    tern_parallel_each((int64_t)layers->count, NULL, take_one, &job);
}

const char *tern_layer_status_name(enum tern_layer_status status) {
    static const char *const names[] = {"ok", "suspect", "error"};
    return names[status];
}

enum tern_layer_status tern_census_judge(const struct tern_linear *layer, const struct tern_census *census,
                                         struct tern_str *detail) {
    if (layer->error[0]) {
        tern_str_append(detail, layer->error);
        return TERN_LAYER_ERROR;
    }
    enum tern_layer_status status = layer->warnings.count || census->odd ? TERN_LAYER_SUSPECT : TERN_LAYER_OK;
    if (census->illegal.count) {
        tern_str_printf(detail,
                        "%" PRId64 " codes that no ternary weight has, the first is %d at n = %" PRId64 ", k = %" PRId64,
                        census->illegal.count, census->illegal.code, census->illegal.n, census->illegal.k);
        status = TERN_LAYER_ERROR;
    }
    if (census->scales.nan || census->scales.inf) {
        tern_str_printf(detail, "%sscales: %" PRId64 " NaN, %" PRId64 " Inf", detail->length ? "; " : "", census->scales.nan,
                        census->scales.inf);
        status = TERN_LAYER_ERROR;
    }
    if (census->odd)
        tern_str_printf(detail, "%s%" PRId64 " %s", detail->length ? "; " : "", census->odd, layer->odd);
    for (size_t i = 0; i < layer->warnings.count; i++)
        tern_str_printf(detail, "%s%s", detail->length ? "; " : "", layer->warnings.items[i]);
    return status;
}
