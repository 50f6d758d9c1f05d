/* Proof of a conversion: the written folder is opened like any other, and every weight, every scale and every carried byte is
 * compared with the input. Shares nothing with the writer but the list of what must be there. */
#include "formats/convert_plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b) {
    return strcmp((*(const struct tern_linear *const *)a)->name, (*(const struct tern_linear *const *)b)->name);
}

static bool same_bits(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

struct pair {
    const struct tern_linear *want, *got;
    struct tern_linear_rows a, b;
    int32_t *ia, *ib; /* group of each k */
};

/* The first k at which row i differs, K if there is none. Weights are compared as q - z: codes may have moved with their zero point. */
static int64_t first_difference(const struct pair *p, int64_t i) {
    const int64_t k_all = p->want->k;
    const uint8_t *ca = p->a.codes + i * k_all, *cb = p->b.codes + i * k_all;
    const uint8_t *za = p->a.zeros + i * p->want->groups, *zb = p->b.zeros + i * p->got->groups;
    const float *sa = p->a.scales + i * p->want->groups, *sb = p->b.scales + i * p->got->groups;
    int32_t ga = -1, gb = -1;
    for (int64_t k = 0; k < k_all; k++) {
        if ((p->ia[k] != ga || p->ib[k] != gb) && !same_bits(sa[p->ia[k]], sb[p->ib[k]]))
            return k;
        ga = p->ia[k];
        gb = p->ib[k];
        if (ca[k] - za[ga] != cb[k] - zb[gb])
            return k;
    }
    return k_all;
}

static enum tern_status compare_rows(const struct pair *p, struct tern_error *err) {
    for (int64_t i = 0; i < p->a.count; i++) {
        const int64_t k = first_difference(p, i), n = p->a.first + i;
        if (k == p->want->k)
            continue;
        const int64_t ga = i * p->want->groups + p->ia[k], gb = i * p->got->groups + p->ib[k], at = i * p->want->k + k;
        return tern_error_set(err, TERN_INTERNAL,
                              "layer '%s' read back differs at n = %" PRId64 ", k = %" PRId64
                              ": %d times %.9g, was %d times %.9g",
                              p->want->name, n, k, p->b.codes[at] - p->b.zeros[gb], (double)p->b.scales[gb],
                              p->a.codes[at] - p->a.zeros[ga], (double)p->a.scales[ga]);
    }
    return TERN_OK;
}

static enum tern_status compare_layer(const struct tern_linear *want, const struct tern_linear *got, bool (*stopped)(void),
                                      struct tern_error *err) {
    if (got->error[0])
        return tern_error_set(err, TERN_INTERNAL, "read back: %s", got->error);
    if (got->n != want->n || got->k != want->k)
        return tern_error_set(err, TERN_INTERNAL, "layer '%s' read back has N = %" PRId64 ", K = %" PRId64, want->name,
                              got->n, got->k);
    struct pair p = {.want = want, .got = got};
    const int64_t block = tern_linear_block_rows(want);
    p.ia = tern_alloc((size_t)want->k * sizeof *p.ia);
    p.ib = tern_alloc((size_t)want->k * sizeof *p.ib);
    tern_linear_group_index(want, p.ia);
    tern_linear_group_index(got, p.ib);
    tern_linear_rows_alloc(want, block, &p.a);
    tern_linear_rows_alloc(got, block, &p.b);
    enum tern_status status = TERN_OK;
    for (int64_t n = 0; n < want->n && !status; n += block) {
        const int64_t end = n + block < want->n ? n + block : want->n;
        tern_linear_decode(want, n, end, &p.a);
        tern_linear_decode(got, n, end, &p.b);
        status = compare_rows(&p, err);
        if (!status && stopped && stopped())
            status = tern_error_set(err, TERN_FAILED, "interrupted: nothing is left of the output");
    }
    tern_linear_rows_free(&p.a);
    tern_linear_rows_free(&p.b);
    free(p.ia);
    free(p.ib);
    return status;
}

static enum tern_status compare_layers(const struct tern_convert_plan *plan, const struct tern_linears *back,
                                       struct tern_error *err) {
    const struct tern_linear **sorted = tern_alloc((back->count + 1) * sizeof(const struct tern_linear *));
    enum tern_status status = TERN_OK;
    for (size_t i = 0; i < back->count; i++)
        sorted[i] = &back->items[i];
    qsort(sorted, back->count, sizeof *sorted, by_name);
    for (size_t i = 0; i < plan->found.count && !status; i++) {
        const struct tern_linear *want = &plan->found.items[i];
        const struct tern_linear *const *got = bsearch(&want, sorted, back->count, sizeof *sorted, by_name);
        status = got ? compare_layer(want, *got, plan->request->stopped, err)
                     : tern_error_set(err, TERN_INTERNAL, "layer '%s' is not in what was written", want->name);
    }
    free(sorted);
    return status;
}

static enum tern_status compare_carried(const struct tern_convert_plan *plan, const struct tern_checkpoint *back,
                                        struct tern_error *err) {
    for (size_t i = 0; i < plan->in.tensor_count; i++) {
        const struct tern_tensor *want = &plan->in.tensors[i];
        if (plan->belongs[i])
            continue;
        const struct tern_tensor *got = tern_checkpoint_find(back, want->name);
        if (!got || strcmp(got->dtype, want->dtype) != 0 || got->dims != want->dims || got->bytes != want->bytes ||
            memcmp(got->shape, want->shape, sizeof want->shape) != 0 ||
            (want->bytes > 0 && memcmp(tern_tensor_data(got), tern_tensor_data(want), (size_t)want->bytes) != 0))
            return tern_error_set(err, TERN_INTERNAL, "tensor '%s' read back differs", want->name);
    }
    return TERN_OK;
}

/* Zero points of 0 in version 1: exact here and in every reader that masks, 2^bits in those that do not. */
static void note_zeros(const struct tern_convert_plan *plan, const struct tern_linears *back, struct tern_strs *notes) {
    int64_t zeros = 0;
    for (size_t i = 0; i < back->count && plan->target->zero_offset; i++) {
        const struct tern_linear *layer = &back->items[i];
        struct tern_linear_rows rows;
        if (layer->sym || layer->zero_offset == 0)
            continue;
        tern_linear_rows_alloc(layer, 32 < layer->n ? 32 : layer->n, &rows);
        for (int64_t n = 0; n < layer->n; n += 32) {
            tern_linear_decode(layer, n, n + 32 < layer->n ? n + 32 : layer->n, &rows);
            for (int64_t j = 0; j < rows.count * layer->groups; j++)
                zeros += rows.zeros[j] == 0;
        }
        tern_linear_rows_free(&rows);
    }
    struct tern_str note = {0};
    tern_str_printf(&note,
                    "%" PRId64 " zero points are 0, which version 1 stores as all ones: exllama and older vLLM read them as "
                    "2^bits; gptq_v2 has one reading",
                    zeros);
    if (zeros)
        tern_strs_add(notes, note.data);
    tern_str_free(&note);
}

enum tern_status tern_convert_prove(const struct tern_convert_plan *plan, struct tern_convert_summary *s,
                                    struct tern_error *err) {
    struct tern_checkpoint back;
    struct tern_linears layers = {0};
    enum tern_status status = tern_checkpoint_open(plan->temp, &back, err);
    if (!status) {
        tern_linears_find(&back, &layers);
        status = compare_layers(plan, &layers, err);
    }
    if (!status)
        status = compare_carried(plan, &back, err);
    if (!status)
        note_zeros(plan, &layers, &s->notes);
    for (size_t i = 0; i < back.file_count; i++)
        s->out_bytes += back.files[i]->bytes;
    tern_linears_free(&layers);
    tern_checkpoint_close(&back);
    return status;
}
