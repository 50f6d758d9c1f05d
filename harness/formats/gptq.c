/* GPTQ layers: qweight I32 [K*bits/32, N], qzeros I32 [G, N*bits/32], scales [G, N], g_idx I32 [K]. Codes are packed along K,
 * zero points along N. Version 1 stores zero points minus 1, lane by lane modulo 2^bits; version 2 and planar store them as they
 * are. What the configuration declares is checked against the bits. */
#include "formats/linear_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { QWEIGHT, QZEROS, SCALES };

static const struct {
    const char *declared, *name;
    int zero_offset;
    bool planar;
} variants[] = {
    {"", "gptq", 1, false}, {"gptq", "gptq", 1, false}, {"gptq_v2", "gptq_v2", 0, false}, {"gptq_p", "gptq_p", 0, true}};

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static bool legal_bits(int64_t bits) {
    return bits == 2 || bits == 3 || bits == 4 || bits == 8;
}

static enum tern_status choose_variant(struct tern_linear *layer, const struct tern_quant_settings *s,
                                       struct tern_error *err) {
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (strcmp(variants[i].declared, s->format) == 0) {
            layer->checkpoint_format = variants[i].name;
            layer->zero_offset = variants[i].zero_offset;
            layer->planar = variants[i].planar;
            tern_str_format(layer->why, sizeof layer->why, "qweight, qzeros, scales; %s",
                            s->format[0] ? "declared" : "no version declared, which means 1");
            return TERN_OK;
        }
    return tern_tensor_error(layer->parts[QWEIGHT], err, "checkpoint format '%s' is not read", s->format);
}

/* Bits and K: declared, else from the length of g_idx, else from the width of qzeros. All that is there must agree. */
static enum tern_status find_bits(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    const struct tern_tensor *qweight = layer->parts[QWEIGHT], *qzeros = layer->parts[QZEROS];
    const int64_t rows = qweight->shape[0];
    const int64_t k = layer->g_idx && layer->g_idx->dims == 1 ? layer->g_idx->shape[0] : 0;
    int64_t bits = s->bits;
    if (!bits && k > 0)
        bits = rows * 32 / k;
    else if (!bits && qzeros && qzeros->dims == 2 && qzeros->shape[1] <= INT32_MAX)
        bits = qzeros->shape[1] * 32 / layer->n;
    if (!legal_bits(bits))
        return tern_tensor_error(qweight, err, "%" PRId64 " bits, expected 2, 3, 4 or 8", bits);
    if (k <= 0 && rows * 32 % bits)
        return tern_tensor_error(qweight, err, "%" PRId64 " rows of words hold no whole number of codes of %" PRId64 " bits",
                                 rows, bits);
    layer->bits = (int)bits;
    layer->k = k > 0 ? k : rows * 32 / bits;
    if (layer->k > INT32_MAX)
        return tern_tensor_error(qweight, err, "K = %" PRId64 ", at most 2^31 - 1", layer->k);
    if (rows != ceil_div(layer->k * bits, 32))
        return tern_tensor_error(qweight, err,
                                 "%" PRId64 " rows of words; K = %" PRId64 " of %" PRId64 " bits takes %" PRId64, rows,
                                 layer->k, bits, ceil_div(layer->k * bits, 32));
    return TERN_OK;
}

/* Group size: declared, else K for one group, else the run of the first group in an index that only rises. */
static enum tern_status find_group(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    const struct tern_tensor *scales = layer->parts[SCALES];
    if (!scales || scales->dims != 2 || scales->shape[0] < 1)
        return tern_linear_expect(scales, layer->parts[QWEIGHT], ".scales", NULL, 1, layer->n, err);
    layer->groups = scales->shape[0];
    layer->group = s->group == -1 || (!s->group && layer->groups == 1) ? layer->k : s->group;
    if (!layer->group && layer->k % layer->groups == 0)
        layer->group = layer->k / layer->groups;
    if (layer->group < 1)
        return tern_tensor_error(scales, err, "no group size is declared, and %" PRId64 " groups do not divide K = %" PRId64,
                                 layer->groups, layer->k);
    if (layer->groups != ceil_div(layer->k, layer->group))
        return tern_tensor_error(
            scales, err, "%" PRId64 " groups; K = %" PRId64 " in groups of %" PRId64 " takes ceil(K/group) = %" PRId64,
            layer->groups, layer->k, layer->group, ceil_div(layer->k, layer->group));
    return TERN_OK;
}

static enum tern_status find_order(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    if (!layer->g_idx && s->act_order == TERN_DECLARED_YES && layer->groups > 1)
        return tern_tensor_error(layer->parts[QWEIGHT], err, "desc_act is declared, and there is no g_idx beside it");
    if (!layer->g_idx)
        return TERN_OK;
    enum tern_status status = tern_linear_check_g_idx(layer, err);
    if (status)
        return status;
    int64_t *members = tern_alloc_zero((size_t)layer->groups, sizeof *members);
    for (int64_t k = 0; k < layer->k; k++) {
        int64_t group = tern_tensor_word(layer->g_idx, k);
        layer->act_order = layer->act_order || group != k / layer->group;
        members[group]++;
    }
    for (int64_t g = 0; g < layer->groups; g++) {
        int64_t expected = g + 1 < layer->groups ? layer->group : layer->k - g * layer->group;
        if (members[g] != expected) {
            tern_linear_warn(layer, "g_idx gives group %" PRId64 " %" PRId64 " k, expected %" PRId64, g, members[g],
                             expected);
            break;
        }
    }
    free(members);
    if (layer->act_order && s->act_order == TERN_DECLARED_NO)
        tern_linear_warn(layer, "desc_act=false is declared, but g_idx is not k / group");
    return TERN_OK;
}

/* Words of the zero points of rows 32 * block .. + 31 in group g; those past the end are 0. */
static void load_zeros(const struct tern_linear *layer, int64_t g, int64_t block, uint32_t words[8]) {
    const struct tern_tensor *qzeros = layer->parts[QZEROS];
    for (int i = 0; i < layer->bits; i++) {
        const int64_t col = block * layer->bits + i;
        words[i] = col < qzeros->shape[1] ? tern_tensor_word(qzeros, g * qzeros->shape[1] + col) : 0;
    }
}

static void unpack_zeros(const struct tern_linear *layer, int64_t g, int64_t block, uint8_t lanes[32]) {
    uint32_t words[8];
    load_zeros(layer, g, block, words);
    tern_unpack32(words, layer->bits, layer->planar, lanes);
}

struct zero_scan {
    int64_t counts[256]; /* stored lanes by value */
    int64_t flooded;     /* words whose top lanes, two or more, are all ones */
    bool masked;         /* some word has an all-ones lane below another: a writer that masks */
    int distinct, value; /* how many values occur, and the last of them */
};

/* A writer that subtracts 1 without a mask turns zero point 0 into ones in its lane and all lanes above: no all-ones lane of a
 * word then lies below one that is not. Lanes begin at bit `at`; the low bits of one that goes on in the next word count as one. */
static void scan_floods(uint32_t word, int at, int bits, struct zero_scan *scan) {
    const int count = (32 - at + bits - 1) / bits;
    const uint32_t ones = (1U << bits) - 1;
    int top = 0;
    bool flood = true;
    for (int i = count - 1; i >= 0; i--) {
        const int shift = at + bits * i;
        const uint32_t inside = ones & UINT32_MAX >> shift;
        const bool full = (word >> shift & inside) == inside;
        flood = flood && full;
        top += flood;
        scan->masked = scan->masked || (full && !flood);
    }
    scan->flooded += top >= 2;
}

static void scan_block(const struct tern_linear *layer, int64_t g, int64_t block, struct zero_scan *scan) {
    const int count = layer->n - block * 32 < 32 ? (int)(layer->n - block * 32) : 32;
    uint32_t words[8];
    uint8_t lanes[32];
    load_zeros(layer, g, block, words);
    tern_unpack32(words, layer->bits, layer->planar, lanes);
    for (int i = 0; i < count; i++)
        scan->counts[lanes[i]]++;
    /* Only words full of lanes; the three words of 3-bit lanes begin with 0, 1 and 2 bits of the lane before. */
    for (int i = 0; i < layer->bits && 32 * (i + 1) <= count * layer->bits; i++)
        scan_floods(words[i], layer->bits == 3 ? i : 0, layer->bits, scan);
}

static void scan_zeros(const struct tern_linear *layer, struct zero_scan *scan) {
    for (int64_t g = 0; g < layer->groups; g++)
        for (int64_t block = 0; block * 32 < layer->n; block++)
            scan_block(layer, g, block, scan);
    for (int i = 0; i < 256; i++)
        if (scan->counts[i]) {
            scan->distinct++;
            scan->value = i;
        }
}

/* A symmetric file holds one value everywhere, which also proves its version. */
static enum tern_status find_zeros(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    struct zero_scan scan = {0};
    const int middle = 1 << (layer->bits - 1), stored = middle - layer->zero_offset;
    scan_zeros(layer, &scan);
    layer->zero = middle;
    layer->sym = scan.distinct == 1 && scan.value == stored;
    if (!layer->sym && s->sym == TERN_DECLARED_YES) {
        if (scan.distinct > 1)
            return tern_tensor_error(layer->parts[QZEROS], err, "sym=true is declared, but zero points vary: %d values",
                                     scan.distinct);
        if (layer->planar || (scan.value != middle && scan.value != middle - 1))
            return tern_tensor_error(layer->parts[QZEROS], err, "sym=true is declared, but every lane holds %d, not %d",
                                     scan.value, stored);
        layer->sym = true;
        layer->zero_offset = middle - scan.value;
        tern_linear_warn(layer, "%s is declared, but symmetric zero points hold %d, which is %s", layer->checkpoint_format,
                         scan.value, layer->zero_offset ? "gptq" : "gptq_v2");
        layer->checkpoint_format = layer->zero_offset ? "gptq" : "gptq_v2";
        tern_str_copy(layer->why, sizeof layer->why, "qweight, qzeros, scales; zero points of a symmetric layer");
    }
    if (!layer->sym && s->method[0] && strcmp(s->method, "gptq") != 0 && !s->format[0])
        return tern_tensor_error(
            layer->parts[QZEROS], err,
            "asymmetric zero points, and method '%s' declares no checkpoint_format that says how they are "
            "stored",
            s->method);
    if (layer->zero_offset && !scan.masked && scan.flooded)
        tern_linear_warn(layer, "suspect qzeros: %" PRId64 " words saturated from a lane upwards, zero points are lost",
                         scan.flooded);
    if (!layer->sym && s->sym == TERN_UNDECLARED && scan.distinct == 1 && scan.value == middle && layer->zero_offset)
        tern_linear_warn(layer, "every zero point is %d: gptq_v2 if the layer is symmetric, which is not declared",
                         middle + 1);
    return TERN_OK;
}

static enum tern_status check(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    const struct tern_tensor *qweight = layer->parts[QWEIGHT];
    enum tern_status status = tern_linear_expect_matrix(qweight, "I32", err);
    if (!status)
        status = choose_variant(layer, s, err);
    if (status)
        return status;
    layer->n = qweight->shape[1];
    status = find_bits(layer, s, err);
    if (!status && layer->planar && layer->bits == 3 && (layer->n % 32 || layer->k % 32))
        status = tern_tensor_error(qweight, err,
                                   "planes hold 32 codes; N = %" PRId64 " and K = %" PRId64 " must be multiples of it",
                                   layer->n, layer->k);
    if (!status)
        status = find_group(layer, s, err);
    if (!status)
        status = tern_linear_expect(layer->parts[SCALES], qweight, ".scales", NULL, layer->groups, layer->n, err);
    if (!status)
        status = tern_linear_expect(layer->parts[QZEROS], qweight, ".qzeros", "I32", layer->groups,
                                    ceil_div(layer->n * layer->bits, 32), err);
    if (!status)
        status = find_order(layer, s, err);
    if (!status)
        status = find_zeros(layer, s, err);
    if (!status)
        tern_linear_checked(layer, layer->parts[SCALES], s);
    return status;
}

static bool find(const struct tern_checkpoint *checkpoint, const struct tern_tensor *tensor, struct tern_linear *layer,
                 enum tern_status *status, struct tern_error *err) {
    struct tern_quant_settings settings;
    if (!tern_linear_module(tensor, ".qweight", &layer->name))
        return false;
    layer->checkpoint_format = "gptq";
    layer->parts[QWEIGHT] = tensor;
    layer->parts[QZEROS] = tern_linear_sibling(checkpoint, layer->name, ".qzeros");
    layer->parts[SCALES] = tern_linear_sibling(checkpoint, layer->name, ".scales");
    layer->g_idx = tern_linear_sibling(checkpoint, layer->name, ".g_idx");
    *status = tern_quant_config_module(checkpoint->config, layer->name, &settings, err);
    if (!*status)
        *status = check(layer, &settings, err);
    return true;
}

/* The last codes of each row, fewer than 32, where the words may end early. */
static void decode_tail(const struct tern_linear *layer, struct tern_linear_rows *rows, int64_t block) {
    const struct tern_tensor *qweight = layer->parts[QWEIGHT];
    for (int64_t i = 0; i < rows->count; i++) {
        uint32_t words[8] = {0};
        uint8_t codes[32];
        for (int w = 0; w < layer->bits && block * layer->bits + w < qweight->shape[0]; w++)
            words[w] = tern_tensor_word(qweight, (block * layer->bits + w) * layer->n + rows->first + i);
        tern_unpack32(words, layer->bits, layer->planar, codes);
        memcpy(rows->codes + i * layer->k + 32 * block, codes, (size_t)(layer->k - 32 * block));
    }
}

/* A tile of codes: as many rows as a cache line has words. It is put together where no two of its lines share a place in the cache, as
 * rows of a power of two of columns do. */
enum { TILE_ROWS = 16, TILE_BLOCKS = 8, TILE_K = 32 * TILE_BLOCKS };

/* `blocks` times 32 k of `count` rows: for each 32 k `bits` runs of words, one word for each row, that lie N apart. */
static inline void decode_tile(const uint8_t *packed, int64_t n, int bits, bool planar, int blocks, int count,
                               uint8_t tile[TILE_ROWS][TILE_K]) {
    for (int block = 0; block < blocks; block++, packed += 4 * bits * n)
        for (int i = 0; i < count; i++) {
            uint32_t words[8];
            for (int w = 0; w < bits; w++)
                memcpy(&words[w], packed + 4 * (w * n + i), sizeof *words);
            tern_unpack32(words, bits, planar, tile[i] + 32 * block);
        }
}

static void decode_bits(const uint8_t *packed, int64_t n, int bits, bool planar, int blocks, int count,
                        uint8_t tile[TILE_ROWS][TILE_K]) {
    if (bits == 2)
        decode_tile(packed, n, 2, false, blocks, count, tile);
    else if (bits == 4)
        decode_tile(packed, n, 4, false, blocks, count, tile);
    else if (bits == 8)
        decode_tile(packed, n, 8, false, blocks, count, tile);
    else
        decode_tile(packed, n, 3, planar, blocks, count, tile);
}

/* Codes of one block of rows, tile by tile along the rows, so that the runs of words are read in their order. */
static void decode_codes(const struct tern_linear *layer, struct tern_linear_rows *rows) {
    const uint8_t *packed = tern_tensor_data(layer->parts[QWEIGHT]) + 4 * rows->first;
    const int64_t k = layer->k, n = layer->n, whole = k / 32;
    uint8_t tile[TILE_ROWS][TILE_K];
    for (int64_t block = 0; block < whole; block += TILE_BLOCKS) {
        const int blocks = whole - block < TILE_BLOCKS ? (int)(whole - block) : TILE_BLOCKS;
        for (int64_t i = 0; i < rows->count; i += TILE_ROWS) {
            const int count = rows->count - i < TILE_ROWS ? (int)(rows->count - i) : TILE_ROWS;
            decode_bits(packed + 4 * (block * layer->bits * n + i), n, layer->bits, layer->planar, blocks, count, tile);
            for (int row = 0; row < count; row++)
                memcpy(rows->codes + (i + row) * k + 32 * block, tile[row], (size_t)blocks * 32);
        }
    }
    if (k % 32)
        decode_tail(layer, rows, whole);
}

static void decode(const struct tern_linear *layer, struct tern_linear_rows *rows) {
    const uint8_t mask = (uint8_t)((1 << layer->bits) - 1);
    uint8_t lanes[32];
    decode_codes(layer, rows);
    for (int64_t g = 0; g < layer->groups; g++)
        for (int64_t i = 0; i < rows->count; i++) {
            const int64_t n = rows->first + i;
            if (i == 0 || n % 32 == 0)
                unpack_zeros(layer, g, n / 32, lanes);
            rows->zeros[i * layer->groups + g] = (uint8_t)(lanes[n % 32] + layer->zero_offset) & mask;
            rows->scales[i * layer->groups + g] = tern_tensor_scale(layer->parts[SCALES], g * layer->n + n);
        }
}

const struct tern_checkpoint_format tern_checkpoint_gptq = {"gptq", find, decode, true};
