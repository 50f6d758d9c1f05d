// x of a warp in registers, for kernels past which the rows of W go (templates/mma-resident): loads, the form in which raw codes
// are multiplied, sums over the spans of a scale. Owns nothing.
//
// The including kernel has in front of it what resident.cuh wants, the parameter FRAGMENTS (of 8 rows of x) and tern_width, the
// fields of its codes.
#ifndef TERN_RESIDENT_X_CUH
#define TERN_RESIDENT_X_CUH

#include "tern/dependent.cuh"
#include "tern/mma.cuh"
#include "tern/resident.cuh"

// x of a warp's K tiles, and what goes with it.
struct tern_held {
    uint4 b[K_TILES][FRAGMENTS][4];           // [piece]: two steps, times the complement of the piece's power
    float of_x[K_TILES][FRAGMENTS][SPANS][2]; // zero point (1 where rows have their own) times sum of x
    unsigned down;                            // bit 2 * f + i: column i of the lane's two in fragment f was scaled down
    bool any_down;                            // in one of the warp's lanes
};
// What sums of products count in: codes are subnormal, and the last place's factor is 1. Those of columns that were scaled down count in
// HELD_DOWN times that.
constexpr float HELD_UNIT = 1 << (24 - tern_width::top), HELD_DOWN = 1 << (tern_width::top + 1);

// Chains of products that make a sum over a span: one of even and one of odd steps where too few other sums are made beside it to hide how
// long a product takes.
constexpr int CHAINS = K_TILES * ROW_TILES * FRAGMENTS < 4 ? 2 : 1;

// Joins the chains of a span.
__device__ __forceinline__ void tern_chains_join(float (&products)[CHAINS][FRAGMENTS][4]) {
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++)
#pragma unroll
        for (int i = 0; i < 4 && CHAINS > 1; i++)
            products[0][f][i] += products[CHAINS - 1][f][i];
}

// Adds step h of a piece to all fragments; first: sets them.
__device__ __forceinline__ void tern_step_multiply(float (&products)[FRAGMENTS][4], const unsigned (&a)[4],
                                                   const uint4 (&b)[FRAGMENTS][4], int piece, int h, bool first) {
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++) {
        const unsigned b0 = h ? b[f][piece].z : b[f][piece].x, b1 = h ? b[f][piece].w : b[f][piece].y;
        if (first)
            tern_mma_16_first<0>(products[f], a, b0, b1);
        else
            tern_mma_16<0>(products[f], a, b0, b1);
    }
}

__device__ __forceinline__ void tern_halves_multiply(uint4 &eight, unsigned factor) {
    eight.x = tern_pair_mul<0>(eight.x, factor);
    eight.y = tern_pair_mul<0>(eight.y, factor);
    eight.z = tern_pair_mul<0>(eight.z, factor);
    eight.w = tern_pair_mul<0>(eight.w, factor);
}

// Sums of x over span SPAN; false if one of the lane's is not finite.
template <int SPAN> __device__ __forceinline__ bool tern_held_sums(struct tern_held &x) {
    bool finite = true;
#pragma unroll
    for (int j = 0; j < K_TILES; j++) {
        float chains[CHAINS][FRAGMENTS][4];
#pragma unroll
        for (int step = 0; step < 8 / SPANS; step++) {
            const int h = step / (4 / SPANS), piece = tern_width::piece(SPAN * 4 / SPANS + step % (4 / SPANS), SPANS);
            const unsigned one = (HAS_ZEROS ? 1u : (unsigned)ZERO) * 0x00010001u << tern_width::shift(piece);
            const unsigned a[4] = {one, one, one, one};
            tern_step_multiply(chains[h % CHAINS], a, x.b[j], piece, h, step % (8 / SPANS / CHAINS) == 0);
        }
        tern_chains_join(chains);
#pragma unroll
        for (int f = 0; f < FRAGMENTS; f++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                x.of_x[j][f][SPAN][i] = chains[0][f][i];
                finite &= fabsf(chains[0][f][i]) <= 3.0e38f; // no branch: chains of products stay side by side
            }
    }
    return finite;
}

// Loads x of the lane's columns in the warp's K tiles. Columns behind M read the last row and are not stored; k behind K or the
// block's tiles become zeros.
__device__ __forceinline__ void tern_held_load(struct tern_held &x, const struct tern_tiles &s, const struct tern_args &args,
                                               int warp, int lane) {
    const int begin = (s.first + warp) * 128, end = tern_smaller((int)args.k, (s.first + s.count) * 128);
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++) {
        const int row = tern_smaller(8 * f + lane / 4, (int)args.m - 1); // row * K fits into 31 bits
        const __half *from = tern_global_kept((const __half *)args.x + (row * (int)args.k + begin + lane % 4 * 8));
#pragma unroll
        for (int i = 0; i < K_TILES * 4; i++) {
            const int j = i / 4, at = j * WARPS_K * 128 + i % 4 * 32;
            x.b[j][f][i % 4] = make_uint4(0, 0, 0, 0);
            if (begin + at < end) // uniform
                x.b[j][f][i % 4] = tern_load_ordered_16(from + at);
        }
    }
}

// Multiplies x by the complements of the places and by 2^-1 (shrunk: bit f says so of the lane's column of fragment f) or what
// makes the last place's factor 1.
__device__ __forceinline__ void tern_held_scale(struct tern_held &x, unsigned shrunk) {
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++) {
        const unsigned top = (shrunk >> f & 1 ? 14u : 15u + tern_width::top) * 0x04000400u; // binary16 of that power
#pragma unroll
        for (int j = 0; j < K_TILES; j++)
#pragma unroll
            for (int piece = 0; piece < 4; piece++)
                tern_halves_multiply(x.b[j][f][piece], top - tern_width::shift(piece) * 0x04000400u);
    }
}

// Sums of x over the spans; false if one of the lane's is not finite.
__device__ __forceinline__ bool tern_held_sum(struct tern_held &x) {
    bool finite = tern_held_sums<0>(x);
    if constexpr (SPANS > 1)
        finite &= tern_held_sums<1>(x);
    if constexpr (SPANS > 2) {
        finite &= tern_held_sums<2>(x);
        finite &= tern_held_sums<3>(x);
    }
    return finite;
}

// Bit f: column i of the lane's two in fragment f has a sum that is not finite.
__device__ __forceinline__ unsigned tern_held_beyond(const struct tern_held &x, int i) {
    unsigned beyond = 0;
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++)
#pragma unroll
        for (int j = 0; j < K_TILES; j++)
#pragma unroll
            for (int span = 0; span < SPANS; span++)
                beyond |= fabsf(x.of_x[j][f][span][i]) <= 3.0e38f ? 0u : 1u << f;
    return beyond;
}

// Brings x, once loaded, into the form in which it is multiplied.
__device__ __forceinline__ void tern_held_make(struct tern_held &x, const struct tern_tiles &s, const struct tern_args &args,
                                               int warp, int lane) {
    unsigned down[2] = {0, 0}; // bit f: the lane's two columns of the sums are scaled down
    tern_held_scale(x, 0);
    tern_block_arrive(X_HERE, 32 * (WARPS_K + 1));
    if (!__all_sync(0xFFFFFFFFu, tern_held_sum(x))) {
        unsigned shrunk = 0; // of the lane's column of the operand
#pragma unroll
        for (int i = 0; i < 2; i++) {
            down[i] = tern_held_beyond(x, i);
            const unsigned of_column = __shfl_sync(0xFFFFFFFFu, down[i], lane / 8); // 2 * (lane / 8) + i
            shrunk |= lane / 4 % 2 == i ? of_column : 0;
        }
        tern_held_load(x, s, args, warp, lane);
        tern_held_scale(x, shrunk);
        tern_held_sum(x);
    }
    x.down = 0;
#pragma unroll
    for (int f = 0; f < FRAGMENTS; f++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            x.down |= (down[i] >> f & 1) << (2 * f + i);
    x.any_down = __any_sync(0xFFFFFFFFu, x.down != 0);
}

// Brings sums of columns that were scaled down to the unit of the others: [fragments of row tiles][float of the lane].
template <int COUNT> __device__ __forceinline__ void tern_held_unify(float (&sums)[COUNT][4], const struct tern_held &x) {
#pragma unroll
    for (int u = 0; u < COUNT; u++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums[u][i] *= x.down >> (u % FRAGMENTS * 2 + i % 2) & 1 ? HELD_DOWN : 1.0f;
}

#endif
