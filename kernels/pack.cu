// Pack: canonical weights, one byte a code, -> the arrays that kernels read, and back. The layout is data, as on the host: a warp has a tile,
// a lane the words of its pairs, and tables say where in the tile a word's codes lie. Bounded by memory: reads or writes one byte a weight,
// in pieces of 128 bytes of 16 rows that stay in L1 while a tile is gathered. Scales and zero points go entry by entry.
#include "kernels.h"

static __device__ void count_wrong(const tern_pack_args &a, bool wrong) {
    if (wrong && a.wrong)
        atomicAdd(a.wrong, 1ull);
}

// Of a weight outside of W, which counts as 0: columns past K have the zero point of the last group, rows past N none.
static __device__ unsigned int padding(const tern_pack_args &a, long long row) {
    if (!a.zeros)
        return (unsigned int)a.zero;
    return row < a.n ? a.zeros[(a.groups - 1) * a.n + row] : 0u;
}

// Place of a weight: `offset` in a row-major tile whose first weight is `first`.
struct weight {
    long long row, k;
    bool inside;
};
static __device__ weight first_of(const tern_pack_args &a, long long tile) {
    const long long row_tile = tile / a.k_tiles;
    return {row_tile << a.row_bits, (tile - row_tile * a.k_tiles) << a.k_bits, true};
}
static __device__ weight at(const tern_pack_args &a, const weight &first, int offset) {
    weight w;
    w.row = first.row + (offset >> a.k_bits);
    w.k = first.k + (offset & ((1 << a.k_bits) - 1));
    w.inside = w.row < a.n && w.k < a.k;
    return w;
}

// In words, from the start of the plane: chunks of chunk_words words, lane after lane inside a chunk.
static __device__ int word_offset(const tern_pack_args &a, int lane, int word, int words) {
    const int chunk = words < a.chunk_words ? words : a.chunk_words;
    return word / chunk * 32 * chunk + lane * chunk + word % chunk;
}

static __device__ unsigned int read_code(const tern_pack_args &a, const weight &w, bool judge) {
    if (!w.inside)
        return padding(a, w.row);
    const unsigned int code = a.codes[w.row * a.k + w.k];
    count_wrong(a, judge && code >= (unsigned int)a.code_end);
    return code;
}

// The first plane writes the code, the next ones of the same lane add to it.
static __device__ void write_code(const tern_pack_args &a, const weight &w, unsigned int field, int shift, bool first) {
    if (!w.inside)
        return;
    unsigned char *code = &a.codes[w.row * a.k + w.k];
    *code = (unsigned char)(first ? field << shift : *code | field << shift);
}

// Entry of the packed scales -> where it lies in the canonical ones; -1: of a padded row.
static __device__ long long scale_source(const tern_pack_args &a, long long entry) {
    const long long column = entry >> a.row_bits, tile = column / a.groups; // [tile][group] columns of rows
    const long long row = (tile << a.row_bits) + a.scale_row[entry & ((1 << a.row_bits) - 1)];
    return row < a.n ? (column - tile * a.groups) * a.n + row : -1;
}

extern "C" __global__ void __launch_bounds__(32 * TERN_PACK_WARPS) tern_pack(tern_pack_args a) {
    const long long tile = (long long)blockIdx.x * TERN_PACK_WARPS + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const long long entries = (a.row_tiles << a.row_bits) * a.groups, step = (long long)gridDim.x * blockDim.x;
    for (long long entry = (long long)blockIdx.x * blockDim.x + threadIdx.x; entry < entries; entry += step) {
        const long long from = scale_source(a, entry);
        a.packed_scales[entry] = from < 0 ? 0 : a.scales[from];
        count_wrong(a, from >= 0 && a.one_scale && a.scales[from] != a.scales[0]);
        if (!a.zeros)
            continue;
        a.packed_zeros[entry] = from < 0 ? 0 : a.zeros[from];
        count_wrong(a, from >= 0 && a.zeros[from] >> a.bits != 0);
    }
    if (tile >= a.row_tiles * a.k_tiles)
        return;
    const weight first = first_of(a, tile);
    unsigned int *out = a.packed_codes + tile * a.tile_words;
    for (int p = 0; p < a.plane_count; p++) {
        const int bits = a.planes[p].bits, per_word = 16 / bits, words = 32 / per_word;
        for (int word = 0; word < words; word++) {
            unsigned int value = 0;
            for (int i = 0; i < 2 * per_word; i++) { // slot i / 2, element i % 2
                const int offset = a.lane_offset[lane] + a.planes[p].pair_offset[word * per_word + i / 2] + i % 2 * a.element_offset;
                const unsigned int code = read_code(a, at(a, first, offset), p == 0);
                value |= (code >> a.planes[p].shift & ((1u << bits) - 1u)) << (16 * (i % 2) + bits * (i / 2));
            }
            out[word_offset(a, lane, word, words)] = value;
        }
        out += 64 * bits;
    }
}

extern "C" __global__ void __launch_bounds__(32 * TERN_PACK_WARPS) tern_unpack_scales(tern_pack_args a) {
    const long long entries = (a.row_tiles << a.row_bits) * a.groups, step = (long long)gridDim.x * blockDim.x;
    for (long long entry = (long long)blockIdx.x * blockDim.x + threadIdx.x; entry < entries; entry += step) {
        const long long to = scale_source(a, entry);
        if (to < 0) {
            count_wrong(a, a.packed_scales[entry] != 0 || (a.zeros && a.packed_zeros[entry] != 0));
            continue;
        }
        a.scales[to] = a.packed_scales[entry];
        if (a.zeros)
            a.zeros[to] = a.packed_zeros[entry];
    }
}

// Behind tern_unpack_scales: padding is judged by the zero points.
extern "C" __global__ void __launch_bounds__(32 * TERN_PACK_WARPS) tern_unpack(tern_pack_args a) {
    const long long tile = (long long)blockIdx.x * TERN_PACK_WARPS + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (tile >= a.row_tiles * a.k_tiles)
        return;
    const weight first = first_of(a, tile);
    const unsigned int *in = a.packed_codes + tile * a.tile_words;
    for (int p = 0; p < a.plane_count; p++) {
        const int bits = a.planes[p].bits, shift = a.planes[p].shift, per_word = 16 / bits, words = 32 / per_word;
        const unsigned int mask = (1u << bits) - 1u;
        for (int word = 0; word < words; word++) {
            const unsigned int value = in[word_offset(a, lane, word, words)];
            for (int i = 0; i < 2 * per_word; i++) {
                const int offset = a.lane_offset[lane] + a.planes[p].pair_offset[word * per_word + i / 2] + i % 2 * a.element_offset;
                const weight w = at(a, first, offset);
                const unsigned int field = value >> (16 * (i % 2) + bits * (i / 2)) & mask;
                write_code(a, w, field, shift, p == 0);
                // A code beyond the end has one plane: only ternary ones do not use all values.
                count_wrong(a, w.inside ? field << shift >= (unsigned int)a.code_end : field != (padding(a, w.row) >> shift & mask));
            }
        }
        in += 64 * bits;
    }
}
