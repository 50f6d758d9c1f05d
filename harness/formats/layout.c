/* Packs weights into the order kernels want and back; one descriptor-driven packer for all layouts.
 * Owns the layout table. A layout is data: no function here names a layout. */
#include "formats/layout.h"

#include "core/half.h"
#include "core/str.h"
#include "formats/parallel.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { TERN_LAYOUT_LANES = 32, TERN_LAYOUT_PAIRS = 32, TERN_LAYOUT_TILE = 2048, TERN_LAYOUT_MAX_ROWS = 64 };

/* A run of `bits` bits of every code, starting at bit `shift`, stored as one array of 32-bit words per tile. A pair's index
 * in the plane, Q = word * (16 / bits) + slot, is wired too: bit b of Q is bit pair_from[b] of P. */
struct tern_plane {
    int bits, shift;
    int pair_from[5];
};

struct tern_plane_set {
    int code_bits, count;
    struct tern_plane planes[2];
};

/* A tile holds 2048 weights; a weight's place is an 11-bit number
 *     place = e + 2 * P + 64 * lane,   e: half of a pair, P: pair of the lane (0..31), lane of the warp (0..31),
 * and bit b of its row (or k) inside the tile is bit row_from[b] (k_from[b]) of place: the permutation is a wiring of bits.
 * scale_from wires the row of a scale's place (0..tile_rows-1) in the same way. */
struct tern_layout {
    const char *name;
    int row_bits, k_bits; /* log2 of tile rows and tile k; they add up to 11 */
    int row_from[6], k_from[8], scale_from[6];
    int chunk_words; /* words of a lane that lie together: 4 makes 16-byte chunks */
    struct tern_plane_set planes[4];
};

#define PLACE_E         0
#define PLACE_P(bit)    (1 + (bit))
#define PLACE_LANE(bit) (6 + (bit))

static const struct tern_layout layouts[] = {
    {.name = "frag16x128",
     .row_bits = 4,
     .k_bits = 7,
     /* row = g + 8 * (p & 1), g = lane / 4 */
     .row_from = {PLACE_LANE(2), PLACE_LANE(3), PLACE_LANE(4), PLACE_P(0)},
     /* k = e + 2 * (p / 2) + 4 * (step % 2) + 8 * t + 32 * (step / 2), t = lane % 4, P = 4 * step + p */
     .k_from = {PLACE_E, PLACE_P(1), PLACE_P(2), PLACE_LANE(0), PLACE_LANE(1), PLACE_P(3), PLACE_P(4)},
     /* place = 2 * g + h belongs to row g + 8 * h */
     .scale_from = {1, 2, 3, 0},
     .chunk_words = 4,
     /* P = p + 4 * (step % 2) + 8 * (step / 2): the slot comes from the step, the word from p, where words have the slots */
     .planes = {{2, 1, {{2, 0, {3, 4, 2, 0, 1}}}},
                {3, 2, {{2, 0, {3, 4, 2, 0, 1}}, {1, 2, {0, 3, 4, 2, 1}}}},
                {4, 1, {{4, 0, {3, 2, 0, 1, 4}}}},
                {8, 1, {{8, 0, {0, 1, 2, 3, 4}}}}}},
};
static const size_t layout_count = sizeof layouts / sizeof layouts[0];

/* The wiring spelled out as offsets into a row-major tile; place bits add, so three small tables do. */
struct tern_layout_plan {
    const struct tern_layout *layout;
    const struct tern_plane_set *planes;
    struct tern_format format;
    int64_t n, k, groups, group_size;
    int64_t row_tiles, k_tiles, tile_bytes;
    int tile_rows, tile_k;
    int lane_offset[TERN_LAYOUT_LANES], element_offset;
    int pair_offset[2][TERN_LAYOUT_PAIRS]; /* [plane][Q] */
    int scale_row[TERN_LAYOUT_MAX_ROWS];
};

const struct tern_layout *tern_layout_find(const char *name) {
    for (size_t i = 0; i < layout_count; i++)
        if (strcmp(layouts[i].name, name) == 0)
            return &layouts[i];
    return NULL;
}

const char *tern_layout_name(const struct tern_layout *layout) {
    return layout->name;
}

/* Offset of a place in a row-major tile of codes. */
static int place_offset(const struct tern_layout *layout, int place) {
    int row = 0, k = 0;
    for (int b = 0; b < layout->row_bits; b++)
        row |= ((place >> layout->row_from[b]) & 1) << b;
    for (int b = 0; b < layout->k_bits; b++)
        k |= ((place >> layout->k_from[b]) & 1) << b;
    return (row << layout->k_bits) + k;
}

/* The pair P that has index `index` in the plane. */
static int pair_at(const struct tern_plane *plane, int index) {
    int pair = 0;
    for (int b = 0; b < 5; b++)
        pair |= ((index >> b) & 1) << plane->pair_from[b];
    return pair;
}

/* Planes of codes that are `code_bits` wide; NULL where the layout has none. */
static const struct tern_plane_set *find_planes(const struct tern_layout *layout, int code_bits) {
    for (size_t i = 0; i < sizeof layout->planes / sizeof layout->planes[0]; i++)
        if (layout->planes[i].code_bits == code_bits)
            return &layout->planes[i];
    return NULL;
}

/* Fills *plan for a shape; allocates nothing. plan->planes is NULL when the layout cannot hold the format. */
static void make_plan(struct tern_layout_plan *plan, const struct tern_layout *layout, const struct tern_format *format,
                      int64_t n, int64_t k) {
    memset(plan, 0, sizeof *plan);
    plan->layout = layout;
    plan->planes = find_planes(layout, format->bits);
    plan->format = *format;
    plan->n = n;
    plan->k = k;
    plan->groups = tern_format_groups(format, k);
    plan->group_size = tern_format_group_size(format, k);
    plan->tile_rows = 1 << layout->row_bits;
    plan->tile_k = 1 << layout->k_bits;
    plan->row_tiles = (n + plan->tile_rows - 1) / plan->tile_rows;
    plan->k_tiles = (k + plan->tile_k - 1) / plan->tile_k;
    plan->tile_bytes = (int64_t)format->bits * TERN_LAYOUT_TILE / 8;
    for (int i = 0; i < TERN_LAYOUT_LANES; i++)
        plan->lane_offset[i] = place_offset(layout, i << PLACE_LANE(0));
    for (int plane = 0; plan->planes && plane < plan->planes->count; plane++)
        for (int i = 0; i < TERN_LAYOUT_PAIRS; i++)
            plan->pair_offset[plane][i] = place_offset(layout, pair_at(&plan->planes->planes[plane], i) << PLACE_P(0));
    plan->element_offset = place_offset(layout, 1 << PLACE_E);
    for (int i = 0; i < plan->tile_rows; i++)
        for (int b = 0; b < layout->row_bits; b++)
            plan->scale_row[i] |= ((i >> layout->scale_from[b]) & 1) << b;
}

void tern_layout_sizes(const struct tern_layout *layout, const struct tern_format *format, int64_t n, int64_t k,
                       int64_t *code_bytes, int64_t *scale_bytes, int64_t *zero_bytes) {
    struct tern_layout_plan plan;
    make_plan(&plan, layout, format, n, k);
    int64_t entries = plan.row_tiles * plan.groups * plan.tile_rows;
    *code_bytes = plan.row_tiles * plan.k_tiles * plan.tile_bytes;
    *scale_bytes = entries * (int64_t)sizeof(uint16_t);
    *zero_bytes = format->sym ? 0 : entries;
}

bool tern_layout_wire(const struct tern_layout *layout, const struct tern_format *format, int64_t n, int64_t k,
                      struct tern_pack_args *args) {
    struct tern_layout_plan plan;
    make_plan(&plan, layout, format, n, k);
    *args = (struct tern_pack_args){.n = n, .k = k, .groups = plan.groups, .bits = format->bits, .zero = format->zero};
    args->row_tiles = plan.row_tiles, args->k_tiles = plan.k_tiles, args->tile_words = plan.tile_bytes / 4;
    args->code_end = format->family == TERN_FAMILY_TERNARY ? 3 : 1 << format->bits;
    args->one_scale = format->group == TERN_GROUP_TENSOR;
    args->row_bits = (short)layout->row_bits, args->k_bits = (short)layout->k_bits;
    args->chunk_words = (short)layout->chunk_words, args->element_offset = (short)plan.element_offset;
    for (int i = 0; i < TERN_LAYOUT_LANES; i++)
        args->lane_offset[i] = (short)plan.lane_offset[i];
    for (int i = 0; i < TERN_LAYOUT_MAX_ROWS; i++)
        args->scale_row[i] = (short)plan.scale_row[i];
    args->plane_count = (short)(plan.planes ? plan.planes->count : 0);
    for (int p = 0; p < args->plane_count; p++) {
        args->planes[p].bits = (short)plan.planes->planes[p].bits;
        args->planes[p].shift = (short)plan.planes->planes[p].shift;
        for (int i = 0; i < TERN_LAYOUT_PAIRS; i++)
            args->planes[p].pair_offset[i] = (short)plan.pair_offset[p][i];
    }
    return plan.planes != NULL;
}

/* Zero point of a row at column k. Columns past K take the last group's; rows past N have none, and read 0 when asymmetric.
 */
static uint8_t zero_at(const struct tern_layout_plan *plan, const uint8_t *zeros, int64_t row, int64_t k) {
    if (plan->format.sym)
        return (uint8_t)plan->format.zero;
    if (row >= plan->n)
        return 0;
    int64_t group = k / plan->group_size;
    return zeros[(group < plan->groups ? group : plan->groups - 1) * plan->n + row];
}

/* Where word `word` of a lane lies in its plane: chunks of chunk_words words, lane after lane inside a chunk. */
static int64_t word_offset(const struct tern_layout *layout, int lane, int word, int words) {
    int chunk = words < layout->chunk_words ? words : layout->chunk_words;
    return 4 * ((int64_t)(word / chunk) * TERN_LAYOUT_LANES * chunk + (int64_t)lane * chunk + word % chunk);
}

/* Words are little-endian in memory on every host. */
static void store_word(uint8_t *out, uint32_t word) {
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(word >> (8 * i));
}

static uint32_t load_word(const uint8_t *in) {
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

/* One plane of one tile. tile: row-major codes. In a word, slot i sits at bits b*i (e = 0) and 16 + b*i (e = 1). */
static void pack_plane(const struct tern_layout_plan *plan, int index, const uint8_t *tile, uint8_t *out) {
    const struct tern_plane *plane = &plan->planes->planes[index];
    const int bits = plane->bits, per_word = 16 / bits, words = TERN_LAYOUT_PAIRS / per_word;
    const uint32_t mask = ((1u << bits) - 1u) * 0x10001u;
    for (int lane = 0; lane < TERN_LAYOUT_LANES; lane++) {
        const uint8_t *codes = tile + plan->lane_offset[lane];
        for (int word = 0; word < words; word++) {
            const int *pair_offset = plan->pair_offset[index] + word * per_word;
            uint32_t value = 0;
            for (int i = 0; i < per_word; i++) {
                const uint8_t *pair = codes + pair_offset[i];
                uint32_t both = (uint32_t)pair[0] | (uint32_t)pair[plan->element_offset] << 16;
                value |= ((both >> plane->shift) & mask) << (bits * i);
            }
            store_word(out + word_offset(plan->layout, lane, word, words), value);
        }
    }
}

/* Inverse of pack_plane; ors into a tile that starts as zeros, because planes share bytes. */
static void unpack_plane(const struct tern_layout_plan *plan, int index, const uint8_t *in, uint8_t *tile) {
    const struct tern_plane *plane = &plan->planes->planes[index];
    const int bits = plane->bits, per_word = 16 / bits, words = TERN_LAYOUT_PAIRS / per_word;
    const uint32_t mask = (1u << bits) - 1u;
    for (int lane = 0; lane < TERN_LAYOUT_LANES; lane++) {
        uint8_t *codes = tile + plan->lane_offset[lane];
        for (int word = 0; word < words; word++) {
            const int *pair_offset = plan->pair_offset[index] + word * per_word;
            uint32_t value = load_word(in + word_offset(plan->layout, lane, word, words));
            for (int i = 0; i < per_word; i++) {
                uint8_t *pair = codes + pair_offset[i];
                pair[0] |= (uint8_t)(((value >> (bits * i)) & mask) << plane->shift);
                pair[plan->element_offset] |= (uint8_t)(((value >> (16 + bits * i)) & mask) << plane->shift);
            }
        }
    }
}

/* Copies the part of W under a tile, padded with weights of value 0. Returns false if a code is not legal. */
static bool gather_tile(const struct tern_layout_plan *plan, const uint8_t *codes, const uint8_t *zeros, int64_t row_tile,
                        int64_t k_tile, uint8_t *tile) {
    const uint64_t ones = 0x0101010101010101u;
    const uint64_t outside = ~(ones * ((1u << plan->format.bits) - 1u));
    const bool ternary = plan->format.family == TERN_FAMILY_TERNARY;
    uint64_t bad = 0;
    int64_t k0 = k_tile * plan->tile_k;
    int64_t width = plan->k - k0 < plan->tile_k ? plan->k - k0 : plan->tile_k;
    for (int r = 0; r < plan->tile_rows; r++) {
        int64_t row = row_tile * plan->tile_rows + r;
        uint8_t *out = tile + (int64_t)r * plan->tile_k;
        int64_t used = row < plan->n ? width : 0;
        if (used > 0)
            memcpy(out, codes + row * plan->k + k0, (size_t)used);
        if (used < plan->tile_k)
            memset(out + used, zero_at(plan, zeros, row, plan->k), (size_t)(plan->tile_k - used));
        for (int64_t i = 0; i < used; i += 8) { /* K is a multiple of 32: whole words */
            uint64_t eight;
            memcpy(&eight, out + i, sizeof eight);
            bad |= eight & outside;
            if (ternary) /* code 3 means nothing */
                bad |= eight & (eight >> 1) & ones;
        }
    }
    return bad == 0;
}

/* Shared by the packing threads: each writes its own row tiles; `bad` is the only thing they share. */
struct tern_pack_job {
    const struct tern_layout_plan *plan;
    const struct tern_weights *weights;
    uint8_t *packed;
    atomic_bool bad;
};

static void pack_row_tiles(void *opaque, int64_t begin, int64_t end) {
    struct tern_pack_job *job = opaque;
    const struct tern_layout_plan *plan = job->plan;
    uint8_t tile[TERN_LAYOUT_TILE];
    for (int64_t index = begin * plan->k_tiles; index < end * plan->k_tiles; index++) {
        uint8_t *out = job->packed + index * plan->tile_bytes;
        if (!gather_tile(plan, job->weights->codes, job->weights->zeros, index / plan->k_tiles, index % plan->k_tiles, tile))
            atomic_store(&job->bad, true);
        for (int p = 0; p < plan->planes->count; p++) {
            pack_plane(plan, p, tile, out);
            out += (int64_t)plan->planes->planes[p].bits * TERN_LAYOUT_TILE / 8;
        }
    }
}

/* The same rule as gather_tile's, for one code. */
static bool code_is_legal(const struct tern_format *format, uint8_t code) {
    return code < (1 << format->bits) && !(format->family == TERN_FAMILY_TERNARY && code > 2);
}

/* Finds the first illegal code again, to name it. */
static enum tern_status report_bad_code(const struct tern_format *format, const uint8_t *codes, int64_t n, int64_t k,
                                        struct tern_error *err) {
    for (int64_t i = 0; i < n * k; i++) {
        if (!code_is_legal(format, codes[i]))
            return tern_error_set(err, TERN_USAGE, "%s: code %d at row %" PRId64 ", k %" PRId64 " is not legal",
                                  format->name, codes[i], i / k, i % k);
    }
    return tern_error_set(err, TERN_INTERNAL, "%s: a code changed while it was packed", format->name);
}

/* Scales and zeros: [row tile][group][place]. */
static void pack_scales(const struct tern_layout_plan *plan, const struct tern_weights *weights, uint16_t *scales,
                        uint8_t *zeros) {
    int64_t entry = 0;
    for (int64_t tile = 0; tile < plan->row_tiles; tile++) {
        for (int64_t group = 0; group < plan->groups; group++) {
            for (int place = 0; place < plan->tile_rows; place++, entry++) {
                int64_t row = tile * plan->tile_rows + plan->scale_row[place];
                int64_t from = group * plan->n + row;
                scales[entry] = row < plan->n ? weights->scales[from] : 0;
                if (zeros)
                    zeros[entry] = row < plan->n ? weights->zeros[from] : 0;
            }
        }
    }
}

/* What the caller may have got wrong about scales and zeros. */
static enum tern_status check_weights(const struct tern_weights *weights, struct tern_error *err) {
    const struct tern_format *format = &weights->format;
    enum tern_status status = tern_format_check_shape(format, weights->n, weights->k, true, err);
    if (status != TERN_OK)
        return status;
    if (weights->groups != tern_format_groups(format, weights->k))
        return tern_error_set(err, TERN_INTERNAL, "%s: %" PRId64 " groups where K = %" PRId64 " needs %" PRId64,
                              format->name, weights->groups, weights->k, tern_format_groups(format, weights->k));
    int64_t entries = weights->groups * weights->n;
    for (int64_t i = 0; i < entries && format->group == TERN_GROUP_TENSOR; i++)
        if (weights->scales[i] != weights->scales[0])
            return tern_error_set(err, TERN_USAGE, "%s: the scale of row %" PRId64 " (%g) differs from row 0's (%g)",
                                  format->name, i, (double)tern_half_to_float(weights->scales[i]),
                                  (double)tern_half_to_float(weights->scales[0]));
    for (int64_t i = 0; i < entries && !format->sym; i++)
        if (weights->zeros[i] >= (1 << format->bits))
            return tern_error_set(err, TERN_USAGE,
                                  "%s: zero point %d of row %" PRId64 ", group %" PRId64 " needs more than "
                                  "%d bits",
                                  format->name, weights->zeros[i], i % weights->n, i / weights->n, format->bits);
    return TERN_OK;
}

enum tern_status tern_layout_pack(const struct tern_layout *layout, const struct tern_weights *weights,
                                  struct tern_packed *packed, struct tern_error *err) {
    struct tern_layout_plan plan;
    memset(packed, 0, sizeof *packed);
    enum tern_status status = check_weights(weights, err);
    if (status != TERN_OK)
        return status;
    make_plan(&plan, layout, &weights->format, weights->n, weights->k);
    if (!plan.planes)
        return tern_error_set(err, TERN_USAGE, "layout %s has no %d-bit codes (%s)", layout->name, weights->format.bits,
                              weights->format.name);
    tern_layout_sizes(layout, &weights->format, weights->n, weights->k, &packed->code_bytes, &packed->scale_bytes,
                      &packed->zero_bytes);
    packed->codes = tern_alloc((size_t)packed->code_bytes);
    packed->scales = tern_alloc((size_t)packed->scale_bytes);
    packed->zeros = packed->zero_bytes ? tern_alloc((size_t)packed->zero_bytes) : NULL;

    struct tern_pack_job job = {.plan = &plan, .weights = weights, .packed = packed->codes};
    tern_parallel_for(plan.row_tiles, 1 + 512 / plan.k_tiles, pack_row_tiles, &job);
    pack_scales(&plan, weights, packed->scales, packed->zeros);
    if (atomic_load(&job.bad)) {
        tern_packed_free(packed);
        return report_bad_code(&weights->format, weights->codes, weights->n, weights->k, err);
    }
    return TERN_OK;
}

/* Shared by the unpacking threads; weights->zeros must be filled before they start. */
struct tern_unpack_job {
    const struct tern_layout_plan *plan;
    const uint8_t *packed;
    struct tern_weights *weights;
    atomic_bool bad_code, bad_padding;
};

/* Copies the part of a tile that lies in W back, and checks that the rest is padding. */
static void scatter_tile(struct tern_unpack_job *job, int64_t row_tile, int64_t k_tile, const uint8_t *tile) {
    const struct tern_layout_plan *plan = job->plan;
    int64_t k0 = k_tile * plan->tile_k;
    int64_t width = plan->k - k0 < plan->tile_k ? plan->k - k0 : plan->tile_k;
    for (int r = 0; r < plan->tile_rows; r++) {
        int64_t row = row_tile * plan->tile_rows + r;
        const uint8_t *in = tile + (int64_t)r * plan->tile_k;
        int64_t used = row < plan->n ? width : 0;
        if (used > 0)
            memcpy(job->weights->codes + row * plan->k + k0, in, (size_t)used);
        uint8_t pad = zero_at(plan, job->weights->zeros, row, plan->k);
        for (int64_t i = used; i < plan->tile_k; i++)
            if (in[i] != pad)
                atomic_store(&job->bad_padding, true);
        for (int64_t i = 0; i < used && plan->format.family == TERN_FAMILY_TERNARY; i++)
            if (in[i] > 2)
                atomic_store(&job->bad_code, true);
    }
}

static void unpack_row_tiles(void *opaque, int64_t begin, int64_t end) {
    struct tern_unpack_job *job = opaque;
    const struct tern_layout_plan *plan = job->plan;
    uint8_t tile[TERN_LAYOUT_TILE];
    for (int64_t index = begin * plan->k_tiles; index < end * plan->k_tiles; index++) {
        const uint8_t *in = job->packed + index * plan->tile_bytes;
        memset(tile, 0, sizeof tile);
        for (int p = 0; p < plan->planes->count; p++) {
            unpack_plane(plan, p, in, tile);
            in += (int64_t)plan->planes->planes[p].bits * TERN_LAYOUT_TILE / 8;
        }
        scatter_tile(job, index / plan->k_tiles, index % plan->k_tiles, tile);
    }
}

/* Inverse of pack_scales; false if a padded row's scale or zero is not 0. */
static bool unpack_scales(const struct tern_layout_plan *plan, const struct tern_packed *packed,
                          struct tern_weights *weights) {
    const uint16_t *scales = packed->scales;
    const uint8_t *zeros = packed->zeros;
    bool clean = true;
    int64_t entry = 0;
    for (int64_t tile = 0; tile < plan->row_tiles; tile++) {
        for (int64_t group = 0; group < plan->groups; group++) {
            for (int place = 0; place < plan->tile_rows; place++, entry++) {
                int64_t row = tile * plan->tile_rows + plan->scale_row[place];
                if (row >= plan->n) {
                    clean = clean && scales[entry] == 0 && (plan->format.sym || zeros[entry] == 0);
                    continue;
                }
                weights->scales[group * plan->n + row] = scales[entry];
                if (weights->zeros)
                    weights->zeros[group * plan->n + row] = zeros[entry];
            }
        }
    }
    return clean;
}

/* Sizes first: what follows reads the arrays without another look at their ends. */
static enum tern_status check_packed(const struct tern_layout *layout, const struct tern_format *format, int64_t n,
                                     int64_t k, const struct tern_packed *packed, struct tern_error *err) {
    int64_t code_bytes, scale_bytes, zero_bytes;
    enum tern_status status = tern_format_check_shape(format, n, k, true, err);
    if (status != TERN_OK)
        return status;
    if (!find_planes(layout, format->bits))
        return tern_error_set(err, TERN_USAGE, "layout %s has no %d-bit codes (%s)", layout->name, format->bits,
                              format->name);
    tern_layout_sizes(layout, format, n, k, &code_bytes, &scale_bytes, &zero_bytes);
    if (packed->code_bytes != code_bytes || packed->scale_bytes != scale_bytes || packed->zero_bytes != zero_bytes)
        return tern_error_set(err, TERN_INTERNAL,
                              "packed %s %" PRId64 "x%" PRId64 ": %" PRId64 "+%" PRId64 "+%" PRId64
                              " bytes of codes, scales and zeros where %" PRId64 "+%" PRId64 "+%" PRId64 " belong",
                              format->name, n, k, packed->code_bytes, packed->scale_bytes, packed->zero_bytes, code_bytes,
                              scale_bytes, zero_bytes);
    return TERN_OK;
}

enum tern_status tern_layout_unpack(const struct tern_layout *layout, const struct tern_format *format, int64_t n, int64_t k,
                                    const struct tern_packed *packed, struct tern_weights *weights, struct tern_error *err) {
    struct tern_layout_plan plan;
    memset(weights, 0, sizeof *weights);
    enum tern_status status = check_packed(layout, format, n, k, packed, err);
    if (status != TERN_OK)
        return status;
    make_plan(&plan, layout, format, n, k);
    size_t entries = (size_t)plan.groups * (size_t)n;
    weights->format = *format;
    weights->n = n;
    weights->k = k;
    weights->groups = plan.groups;
    weights->codes = tern_alloc((size_t)n * (size_t)k);
    weights->scales = tern_alloc(entries * sizeof *weights->scales);
    weights->zeros = format->sym ? NULL : tern_alloc(entries);

    struct tern_unpack_job job = {.plan = &plan, .packed = packed->codes, .weights = weights};
    bool clean = unpack_scales(&plan, packed, weights); /* first: padding is checked against the zeros */
    tern_parallel_for(plan.row_tiles, 1 + 512 / plan.k_tiles, unpack_row_tiles, &job);
    if (atomic_load(&job.bad_code))
        status = report_bad_code(format, weights->codes, n, k, err);
    else if (!clean || atomic_load(&job.bad_padding))
        status = tern_error_set(err, TERN_INTERNAL, "packed %s %" PRId64 "x%" PRId64 ": padding holds weights other than 0",
                                format->name, n, k);
    if (status != TERN_OK)
        tern_weights_free(weights);
    return status;
}

void tern_packed_free(struct tern_packed *packed) {
    free(packed->codes);
    free(packed->scales);
    free(packed->zeros);
    memset(packed, 0, sizeof *packed);
}
