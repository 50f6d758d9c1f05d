/* AWQ layers of version GEMM, 4 bits: qweight I32 [K, N/8], qzeros I32 [K/group, N/8], scales [K/group, N]. A word holds eight
 * columns, not eight k as in GPTQ, and in the order 0 2 4 6 1 3 5 7; zero points are stored as they are. */
#include "formats/linear_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { QWEIGHT, QZEROS, SCALES };
enum { BITS = 4, IN_WORD = 8, MIDDLE = 8 };

static const int nibble_of_column[IN_WORD] = {0, 4, 1, 5, 2, 6, 3, 7};

/* Code of column n in row `row` of words. */
static uint8_t lane(const struct tern_tensor *tensor, int64_t row, int64_t n) {
    uint32_t word = tern_tensor_word(tensor, row * tensor->shape[1] + n / IN_WORD);
    return word >> (BITS * nibble_of_column[n % IN_WORD]) & 0xF;
}

/* Declared, or, where the method tells nothing of the packing, a scale for each of the eight columns of a word. */
static bool is_awq(const struct tern_quant_settings *s, const struct tern_linear *layer) {
    const struct tern_tensor *qweight = layer->parts[QWEIGHT], *scales = layer->parts[SCALES];
    if (strcmp(s->method, "awq") == 0 || strcmp(s->method, "gptq") == 0)
        return s->method[0] == 'a';
    return scales && scales->dims == 2 && qweight->dims == 2 && scales->shape[1] / IN_WORD == qweight->shape[1];
}

static enum tern_status find_group(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    const struct tern_tensor *scales = layer->parts[SCALES];
    if (s->group)
        layer->group = s->group == -1 ? layer->k : s->group;
    else if (scales && scales->dims == 2 && scales->shape[0] > 0)
        layer->group = layer->k / scales->shape[0];
    if (layer->group < 1 || layer->k % layer->group)
        return tern_tensor_error(layer->parts[QWEIGHT], err, "K = %" PRId64 " is no multiple of the group, %" PRId64,
                                 layer->k, layer->group);
    layer->groups = layer->k / layer->group;
    return TERN_OK;
}

static enum tern_status find_zeros(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    layer->sym = true;
    layer->zero = MIDDLE;
    for (int64_t g = 0; g < layer->groups; g++)
        for (int64_t n = 0; n < layer->n && layer->sym; n++)
            layer->sym = lane(layer->parts[QZEROS], g, n) == MIDDLE;
    if (!layer->sym && s->sym == TERN_DECLARED_YES)
        return tern_tensor_error(layer->parts[QZEROS], err, "zero_point=false is declared, but zero points are not all 8");
    return TERN_OK;
}

static enum tern_status check(struct tern_linear *layer, const struct tern_quant_settings *s, struct tern_error *err) {
    const struct tern_tensor *qweight = layer->parts[QWEIGHT];
    enum tern_status status = tern_linear_expect_matrix(qweight, "I32", err);
    if (!status && s->bits && s->bits != BITS)
        status = tern_tensor_error(qweight, err, "%" PRId64 " bits are declared, AWQ has 4", s->bits);
    if (!status && s->format[0] && strcmp(s->format, "gemm") != 0)
        status = tern_tensor_error(qweight, err, "AWQ version '%s' is not read, only gemm", s->format);
    if (!status && qweight->shape[1] > INT32_MAX / IN_WORD)
        status = tern_tensor_error(qweight, err, "N is at most 2^31 - 1");
    if (status)
        return status;
    layer->bits = BITS;
    layer->k = qweight->shape[0];
    layer->n = qweight->shape[1] * IN_WORD;
    status = find_group(layer, s, err);
    if (!status)
        status = tern_linear_expect(layer->parts[SCALES], qweight, ".scales", NULL, layer->groups, layer->n, err);
    if (!status)
        status = tern_linear_expect(layer->parts[QZEROS], qweight, ".qzeros", "I32", layer->groups, qweight->shape[1], err);
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
    layer->parts[QWEIGHT] = tensor;
    layer->parts[QZEROS] = tern_linear_sibling(checkpoint, layer->name, ".qzeros");
    layer->parts[SCALES] = tern_linear_sibling(checkpoint, layer->name, ".scales");
    /* A declaration that cannot be read is reported by the family that takes what is left. */
    if (tern_quant_config_module(checkpoint->config, layer->name, &settings, err) || !is_awq(&settings, layer)) {
        free(layer->name);
        return false;
    }
    layer->checkpoint_format = "awq";
    tern_str_format(layer->why, sizeof layer->why, "qweight, qzeros, scales; %s",
                    strcmp(settings.method, "awq") == 0 ? "declared" : "eight scales a word of qweight");
    *status = check(layer, &settings, err);
    return true;
}

/* Swaps rows and columns of 8 x 8 bytes: blocks of 4, 2 and 1 across the diagonal. */
static inline void transpose8(uint64_t m[8]) {
    static const uint64_t masks[3] = {0x00000000FFFFFFFF, 0x0000FFFF0000FFFF, 0x00FF00FF00FF00FF};
    for (int step = 0, apart = 4; step < 3; step++, apart /= 2)
        for (int i = 0; i < 8; i++)
            if (!(i & apart)) {
                const uint64_t swap = (m[i] >> 8 * apart ^ m[i + apart]) & masks[step];
                m[i + apart] ^= swap;
                m[i] ^= swap << 8 * apart;
            }
}

/* Words of a tile: so many k as a cache line holds codes of a row, by so many word columns. It is put together where no two of its
 * lines share a place in the cache, as words that lie a power of two apart do. */
enum { TILE_K = 64, TILE_WORDS = 32 };

/* Eight k of one word column of a tile: 8 x 8 codes, of which columns [from, to) are wanted, to rows of `k` codes. */
static inline void decode_square(const uint32_t tile[TILE_K][TILE_WORDS], int word, int from, int to, uint8_t *codes,
                                 int64_t k) {
    uint64_t square[8];
    for (int i = 0; i < 8; i++)
        square[i] = tern_spread8(tile[i][word], BITS);
    transpose8(square);
    for (int column = from; column < to; column++)
        tern_store8(codes + (column - from) * k, square[nibble_of_column[column]]);
}

/* Rows [n, end) of the block, all in the tile's words, for `count` k (a multiple of 8) from `at`. */
static void decode_tile(const struct tern_linear *layer, int64_t n, int64_t end, int64_t at, int count,
                        struct tern_linear_rows *rows) {
    const struct tern_tensor *qweight = layer->parts[QWEIGHT];
    const int64_t first = n / IN_WORD, words = (end - 1) / IN_WORD + 1 - first;
    uint32_t tile[TILE_K][TILE_WORDS];
    for (int i = 0; i < count; i++)
        memcpy(tile[i], tern_tensor_data(qweight) + 4 * ((at + i) * qweight->shape[1] + first), (size_t)words * 4);
    for (int w = 0; w < words; w++) {
        const int64_t column = (first + w) * IN_WORD;
        const int from = n > column ? (int)(n - column) : 0, to = end - column < IN_WORD ? (int)(end - column) : IN_WORD;
        uint8_t *codes = rows->codes + (column + from - rows->first) * layer->k + at;
        for (int i = 0; i < count; i += 8)
            decode_square((const uint32_t(*)[TILE_WORDS])tile + i, w, from, to, codes + i, layer->k);
    }
}

/* Words of one k lie together, codes of one row do. */
static void decode_codes(const struct tern_linear *layer, struct tern_linear_rows *rows) {
    const int64_t k = layer->k, whole = k / 8 * 8, end = rows->first + rows->count;
    for (int64_t at = 0; at < whole; at += TILE_K)
        for (int64_t n = rows->first, next; n < end; n = next) {
            next = (n / IN_WORD + TILE_WORDS) * IN_WORD < end ? (n / IN_WORD + TILE_WORDS) * IN_WORD : end;
            decode_tile(layer, n, next, at, whole - at < TILE_K ? (int)(whole - at) : TILE_K, rows);
        }
    for (int64_t i = 0; i < rows->count; i++)
        for (int64_t at = whole; at < k; at++)
            rows->codes[i * k + at] = lane(layer->parts[QWEIGHT], at, rows->first + i);
}

static void decode(const struct tern_linear *layer, struct tern_linear_rows *rows) {
    decode_codes(layer, rows);
    for (int64_t g = 0; g < layer->groups; g++)
        for (int64_t i = 0; i < rows->count; i++) {
            const int64_t n = rows->first + i;
            rows->zeros[i * layer->groups + g] = lane(layer->parts[QZEROS], g, n);
            rows->scales[i * layer->groups + g] = tern_tensor_scale(layer->parts[SCALES], g * layer->n + n);
        }
}

const struct tern_checkpoint_format tern_checkpoint_awq = {"awq", find, decode, true};
