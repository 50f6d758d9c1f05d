/* TP_SHARD: windows of rows are cut for each rank, decoded, and compared with the same rows of the whole layer.
 * Keeps two windows and the tensors of one cut a thread, never a layer. */
#include "formats/shard_proof.h"

#include "formats/parallel.h"

#include <stdlib.h>
#include <string.h>

/* A run of neighbours along k in one group. */
struct run {
    int64_t begin, end;
    int32_t group;
};

/* Which groups the columns of a layer, or of a rank's cut, lie in. */
struct order {
    int32_t *index; /* group of each k */
    struct run *runs;
    size_t run_count;
    int32_t *of_whole; /* of a cut: its own group for each group of the whole layer; -1: none */
};

struct split {
    const struct tern_linear *layer;
    const struct tern_fusion *fusion;
    enum tern_shard_axis axis;
    int64_t ranks;
    struct tern_shard *shards; /* by rank */
    struct order whole, *own;  /* own: by rank, once a window of it was cut */
    int8_t *x;                 /* [K] */
    struct tern_linear_rows rows;
    int64_t *sums; /* [window][groups] */
    int64_t window;
    struct tern_split_proof *proof;
};

// ---- sums -----------------------------------------------------------------------------------------------------------------

/* Any integers in [-127, 127] that differ from neighbour to neighbour. */
static void fill_x(int8_t *x, int64_t k) {
    for (int64_t i = 0; i < k; i++)
        x[i] = (int8_t)((uint32_t)((uint64_t)i * 2654435761U) / 16843010U - 127);
}

/* sum x * (q - z) along a run; 16384 products of 127 * 255 fit 32 bits. */
static int64_t dot(const uint8_t *restrict codes, const int8_t *restrict x, int64_t count, int zero) {
    int64_t sum = 0;
    for (int64_t begin = 0; begin < count; begin += 16384) {
        const int64_t end = count < begin + 16384 ? count : begin + 16384;
        int32_t part = 0;
        for (int64_t i = begin; i < end; i++)
            part += x[i] * (codes[i] - zero);
        sum += part;
    }
    return sum;
}

/* Adds the sums of row i of the whole window by group. */
static void add_sums(struct split *s, int64_t i) {
    const uint8_t *codes = s->rows.codes + i * s->layer->k, *zeros = s->rows.zeros + i * s->layer->groups;
    for (size_t r = 0; r < s->whole.run_count; r++) {
        const struct run *run = &s->whole.runs[r];
        s->sums[i * s->layer->groups + run->group] +=
            dot(codes + run->begin, s->x + run->begin, run->end - run->begin, zeros[run->group]);
    }
}

static void order_open(const struct tern_linear *layer, struct order *order) {
    order->index = tern_alloc((size_t)layer->k * sizeof *order->index);
    order->run_count = 0;
    tern_linear_group_index(layer, order->index);
    for (int64_t k = 0; k < layer->k; k++) {
        const size_t count = order->run_count;
        if (k > 0 && order->index[k] == order->index[k - 1]) {
            order->runs[count - 1].end = k + 1;
            continue;
        }
        if ((count & (count - 1)) == 0) /* full at every power of two */
            order->runs = tern_realloc(order->runs, (count ? 2 * count : 1) * sizeof *order->runs);
        order->runs[order->run_count++] = (struct run){k, k + 1, order->index[k]};
    }
}

static void order_free(struct order *order) {
    free(order->index);
    free(order->runs);
    free(order->of_whole);
}

// ---- comparison -----------------------------------------------------------------------------------------------------------

static void note(struct split *s, int64_t rank, const char *what, int64_t row, int64_t k, double expected, double got) {
    if (s->proof->difference.count == 0)
        s->proof->rank = rank;
    tern_difference_note(&s->proof->difference, s->layer->parts[0], what, row, k, expected, got);
}

/* A cut's groups are told by its columns: all columns of one group of the whole layer must share one group of the cut. */
static void match_groups(struct split *s, int64_t rank, const struct tern_linear *cut, struct order *own) {
    const int64_t k0 = s->shards[rank].k.begin;
    own->of_whole = tern_alloc((size_t)s->layer->groups * sizeof *own->of_whole);
    for (int64_t g = 0; g < s->layer->groups; g++)
        own->of_whole[g] = -1;
    for (int64_t k = 0; k < cut->k; k++) {
        int32_t *of = &own->of_whole[s->whole.index[k0 + k]];
        if (*of < 0)
            *of = own->index[k];
        if (*of != own->index[k])
            note(s, rank, "group", 0, k0 + k, *of, own->index[k]);
    }
}

/* Row i of the whole window against row j of the cut. */
static void compare_row(struct split *s, int64_t rank, int64_t i, const struct tern_linear *cut,
                        const struct tern_linear_rows *got, int64_t j) {
    const struct order *own = &s->own[rank];
    const int64_t k0 = s->shards[rank].k.begin, n = s->rows.first + i;
    const uint8_t *a = s->rows.codes + i * s->layer->k + k0, *b = got->codes + j * cut->k;
    for (int64_t k = 0; memcmp(a, b, (size_t)cut->k) != 0 && k < cut->k; k++)
        if (a[k] != b[k])
            note(s, rank, "code", n, k0 + k, a[k], b[k]);
    for (int64_t g = 0; g < s->layer->groups; g++) {
        if (own->of_whole[g] < 0)
            continue;
        const int64_t want = i * s->layer->groups + g, have = j * cut->groups + own->of_whole[g];
        if (s->rows.zeros[want] != got->zeros[have])
            note(s, rank, "zero point", n, g * s->layer->group, s->rows.zeros[want], got->zeros[have]);
        if (!tern_scales_equal(s->rows.scales[want], got->scales[have]))
            note(s, rank, "scale", n, g * s->layer->group, (double)s->rows.scales[want], (double)got->scales[have]);
    }
    s->proof->weights += cut->k;
}

/* Takes the sums of the cut's row j from those of row i. */
static void subtract_sums(struct split *s, int64_t rank, int64_t i, const struct tern_linear *cut,
                          const struct tern_linear_rows *got, int64_t j) {
    const struct order *own = &s->own[rank];
    const int64_t k0 = s->shards[rank].k.begin;
    int64_t *sums = s->sums + i * s->layer->groups;
    for (size_t r = 0; r < own->run_count; r++) {
        const struct run *run = &own->runs[r];
        sums[s->whole.index[k0 + run->begin]] -= dot(got->codes + j * cut->k + run->begin, s->x + k0 + run->begin,
                                                     run->end - run->begin, got->zeros[j * cut->groups + run->group]);
    }
}

/* What is left of the sums of the whole window must be 0. */
static void check_sums(struct split *s) {
    for (int64_t i = 0; i < s->rows.count; i++)
        for (int64_t g = 0; g < s->layer->groups; g++) {
            const int64_t left = s->sums[i * s->layer->groups + g];
            if (left != 0)
                note(s, s->ranks - 1, "sum left over", s->rows.first + i, g * s->layer->group, 0, (double)left);
        }
}

/* Rows [n0, n1) of the whole layer, and their sums. */
static void load_whole(struct split *s, int64_t n0, int64_t n1) {
    tern_linear_decode(s->layer, n0, n1, &s->rows);
    memset(s->sums, 0, (size_t)((n1 - n0) * s->layer->groups) * sizeof *s->sums);
    for (int64_t i = 0; i < s->rows.count; i++)
        add_sums(s, i);
}

/* Cuts rows out for a rank and decodes them all; the caller frees both. */
static void load_cut(struct split *s, int64_t rank, const struct tern_range *rows, int parts, struct tern_cut *cut,
                     struct tern_linear_rows *got) {
    tern_shard_cut(s->layer, rows, parts, s->shards[rank].k, cut);
    tern_linear_rows_alloc(&cut->layer, cut->layer.n, got);
    tern_linear_decode(&cut->layer, 0, cut->layer.n, got);
    if (!s->own[rank].index) {
        order_open(&cut->layer, &s->own[rank]);
        match_groups(s, rank, &cut->layer, &s->own[rank]);
    }
}

// ---- walks ----------------------------------------------------------------------------------------------------------------

/* Rows [begin, end) of what a rank holds, as rows of W. */
static int clip(const struct tern_shard *shard, int64_t begin, int64_t end, struct tern_range out[TERN_FUSION_PARTS]) {
    int count = 0;
    for (int p = 0; p < shard->parts; p++) {
        const int64_t length = shard->rows[p].end - shard->rows[p].begin;
        const int64_t from = begin > 0 ? begin : 0, to = end < length ? end : length;
        if (from < to)
            out[count++] = (struct tern_range){shard->rows[p].begin + from, shard->rows[p].begin + to};
        begin -= length;
        end -= length;
    }
    return count;
}

/* Columns: each rank's rows one behind the other, window by window, as it would keep them. */
static void walk_columns(struct split *s) {
    for (int64_t rank = 0; rank < s->ranks; rank++)
        for (int64_t begin = 0;; begin += s->window) {
            struct tern_range ranges[TERN_FUSION_PARTS];
            struct tern_cut cut;
            struct tern_linear_rows got;
            const int parts = clip(&s->shards[rank], begin, begin + s->window, ranges);
            if (parts == 0)
                break;
            load_cut(s, rank, ranges, parts, &cut, &got);
            int64_t j = 0;
            for (int p = 0; p < parts; p++) {
                load_whole(s, ranges[p].begin, ranges[p].end);
                for (int64_t i = 0; i < s->rows.count; i++, j++) {
                    compare_row(s, rank, i, &cut.layer, &got, j);
                    subtract_sums(s, rank, i, &cut.layer, &got, j);
                }
                check_sums(s);
            }
            tern_linear_rows_free(&got);
            tern_cut_free(&cut);
            tern_linear_forget_behind(s->layer, begin, s->window);
        }
}

/* Rows: each window of the whole layer, with the columns of every rank. */
static void walk_rows(struct split *s) {
    for (int64_t n = 0; n < s->layer->n; n += s->window) {
        const struct tern_range window = {n, n + s->window < s->layer->n ? n + s->window : s->layer->n};
        load_whole(s, window.begin, window.end);
        for (int64_t rank = 0; rank < s->ranks; rank++) {
            struct tern_cut cut;
            struct tern_linear_rows got;
            load_cut(s, rank, &window, 1, &cut, &got);
            for (int64_t i = 0; i < s->rows.count; i++) {
                compare_row(s, rank, i, &cut.layer, &got, i);
                subtract_sums(s, rank, i, &cut.layer, &got, i);
            }
            tern_linear_rows_free(&got);
            tern_cut_free(&cut);
        }
        check_sums(s);
        tern_linear_forget_behind(s->layer, n, s->window);
    }
}

/* Each rank begins where the last one ended, or holds the very same rows, and the last one ends at the end. */
static void check_cover(struct split *s) {
    const struct tern_shard *first = &s->shards[0], *last = &s->shards[s->ranks - 1];
    int64_t row = 0;
    for (int p = 0; p < first->parts; row = last->rows[p++].end) {
        if (first->rows[p].begin != row)
            note(s, 0, "first row of a part", row, 0, (double)row, (double)first->rows[p].begin);
        for (int64_t rank = 1; s->axis == TERN_SHARD_COLUMNS && rank < s->ranks; rank++) {
            const struct tern_range *a = &s->shards[rank - 1].rows[p], *b = &s->shards[rank].rows[p];
            if (b->begin != a->end && !(b->begin == a->begin && b->end == a->end && s->shards[rank].replicated))
                note(s, rank, "first row of a rank", b->begin, 0, (double)a->end, (double)b->begin);
        }
    }
    if (row != s->layer->n)
        note(s, s->ranks - 1, "rows", row, 0, (double)s->layer->n, (double)row);
    for (int64_t rank = 1; s->axis == TERN_SHARD_ROWS && rank < s->ranks; rank++)
        if (s->shards[rank].k.begin != s->shards[rank - 1].k.end)
            note(s, rank, "first column of a rank", 0, s->shards[rank].k.begin, (double)s->shards[rank - 1].k.end,
                 (double)s->shards[rank].k.begin);
    if (first->k.begin != 0 || last->k.end != s->layer->k)
        note(s, s->ranks - 1, "columns", 0, last->k.end, (double)s->layer->k, (double)last->k.end);
}

/* The window fits the cache and comes in units of the rows that the file packs together. */
static void walk(struct split *s) {
    const int64_t unit = tern_shard_row_unit(s->layer), block = tern_linear_block_rows(s->layer);
    s->window = block < unit ? unit : block / unit * unit;
    s->sums = tern_alloc((size_t)(s->window * s->layer->groups) * sizeof *s->sums);
    s->x = tern_alloc((size_t)s->layer->k);
    fill_x(s->x, s->layer->k);
    order_open(s->layer, &s->whole);
    tern_linear_rows_alloc(s->layer, s->window < s->layer->n ? s->window : s->layer->n, &s->rows);
    check_cover(s);
    if (s->axis == TERN_SHARD_COLUMNS)
        walk_columns(s);
    else
        walk_rows(s);
    tern_linear_rows_free(&s->rows);
    order_free(&s->whole);
    free(s->sums);
    free(s->x);
}

static void prove_split(const struct tern_linear *layer, const struct tern_fusion *fusion, int64_t ranks,
                        enum tern_shard_axis axis, struct tern_split_proof *proof) {
    struct split s = {.layer = layer, .fusion = fusion, .axis = axis, .ranks = ranks, .proof = proof};
    struct tern_error err = {0};
    enum tern_status status = TERN_OK;
    s.shards = tern_alloc_zero((size_t)ranks, sizeof *s.shards);
    s.own = tern_alloc_zero((size_t)ranks, sizeof *s.own);
    for (int64_t rank = 0; rank < ranks && !status; rank++) {
        status = tern_shard_plan(layer, fusion, axis, ranks, rank, &s.shards[rank], &err);
        proof->uneven = proof->uneven || s.shards[rank].uneven;
        proof->replicated = proof->replicated || s.shards[rank].replicated;
    }
    if (status) {
        proof->state = TERN_SPLIT_REFUSED;
        tern_str_copy(proof->refusal, sizeof proof->refusal, err.text);
    } else {
        walk(&s);
        proof->state = proof->difference.count == 0 && proof->weights > 0 ? TERN_SPLIT_PROVEN : TERN_SPLIT_FAILED;
    }
    for (int64_t rank = 0; rank < ranks; rank++)
        order_free(&s.own[rank]);
    free(s.own);
    free(s.shards);
}

// ---- all layers -----------------------------------------------------------------------------------------------------------

struct job {
    const struct tern_linears *layers;
    const int64_t *ranks;
    size_t count;
    struct tern_heads heads;
    struct tern_split_proof *proofs;
};

static void prove_layer(void *context, int64_t l) {
    const struct job *job = context;
    const struct tern_linear *layer = &job->layers->items[l];
    struct tern_split_proof *proofs = &job->proofs[(size_t)l * job->count * TERN_SHARD_AXES];
    struct tern_fusion fusion;
    tern_fusion_find(layer, &job->heads, &fusion);
    for (size_t i = 0; i < job->count * TERN_SHARD_AXES; i++) {
        if (layer->error[0]) {
            proofs[i].state = TERN_SPLIT_REFUSED;
            tern_str_copy(proofs[i].refusal, sizeof proofs[i].refusal, layer->error);
            continue;
        }
        prove_split(layer, &fusion, job->ranks[i / TERN_SHARD_AXES], (enum tern_shard_axis)(i % TERN_SHARD_AXES),
                    &proofs[i]);
    }
    if (!layer->error[0])
        tern_linear_forget(layer);
}

void tern_shards_prove(const struct tern_checkpoint *checkpoint, const struct tern_linears *layers, const int64_t *ranks,
                       size_t count, struct tern_split_proof *proofs) {
    struct job job = {.layers = layers, .ranks = ranks, .count = count, .proofs = proofs};
    memset(proofs, 0, layers->count * count * TERN_SHARD_AXES * sizeof *proofs);
    tern_heads_read(checkpoint, &job.heads);
    tern_parallel_each((int64_t)layers->count, "shard", prove_layer, &job);
}

const char *tern_shard_axis_name(enum tern_shard_axis axis) {
    static const char *const names[] = {"columns", "rows"};
    return names[axis];
}
