/* naive: y[M,N] = x[M,K] * W[N,K]^T on the CUDA cores, a thread for ROWS elements of one column of y. The smallest template
 * that serves every format: copy the folder to templates/ and change it (docs/adding-a-kernel.md).
 *
 * Parameters, constexpr ints that stand in front of this file:
 *   THREADS   threads of a block, one row of W each
 *   ROWS      rows of x a thread multiplies by each weight it decodes
 *   BITS, ZERO, HAS_ZEROS, GROUP   the format; GROUP 0 is one scale a row of W
 * Layout: frag16x128 (harness/formats/layout.h), decoded one weight at a time, without the packed tricks of
 * tern/dequant.cuh. Bound by decode instructions, far above the limit at every M: an example, not a competitor. */
#include "tern/abi.h"

#ifndef TERN_EMULATOR
#include <cuda_fp16.h>
#endif

/* Where a plane of `bits`-bit fields keeps element e of A register `reg` of k-step `step` for a lane: a word and a slot in it
 * (the table in layout.h). Lanes own 16-byte chunks of four words; a plane with two words a lane has 8-byte chunks. */
__device__ unsigned plane_field(const unsigned char *plane, int bits, int lane, int step, int reg, int e) {
    const int piece = step / 2, odd = step % 2;
    int word = reg, slot = piece + 4 * odd; /* 2 bits */
    if (bits == 4) {
        word = 4 * (piece / 2) + reg;
        slot = piece % 2 + 2 * odd;
    } else if (bits == 8) {
        word = 2 * step + reg / 2;
        slot = reg % 2;
    } else if (bits == 1) {
        word = reg / 2;
        slot = reg % 2 + 2 * piece + 8 * odd;
    }
    const int chunk_bytes = bits == 1 ? 8 : 16, words_a_chunk = chunk_bytes / 4;
    const unsigned char *at =
        plane + word / words_a_chunk * 32 * chunk_bytes + lane * chunk_bytes + word % words_a_chunk * 4;
    const unsigned value = *reinterpret_cast<const unsigned *>(at);
    return value >> (16 * e + bits * slot) & ((1u << bits) - 1u);
}

/* Code q of W[row][k]: find the tile, the lane, step and register that own it, then its bits. */
__device__ unsigned code_of(const tern_args &args, long long row, long long k) {
    const long long k_tiles = (args.k + 127) / 128;
    const unsigned char *tile =
        static_cast<const unsigned char *>(args.codes) + (row / 16 * k_tiles + k / 128) * (256 * BITS);
    const int r = (int)(row % 16), c = (int)(k % 128);
    const int step = 2 * (c / 32) + c % 8 / 4, reg = r / 8 + 2 * (c % 4 / 2);
    const int lane = 4 * (r % 8) + c % 32 / 8, e = c % 2;
    if (BITS == 3) /* two planes: the low two bits, then the third */
        return plane_field(tile, 2, lane, step, reg, e) | plane_field(tile + 512, 1, lane, step, reg, e) << 2;
    return plane_field(tile, BITS, lane, step, reg, e);
}

/* Index of (row, group) in the arrays of scales and zeros. */
__device__ long long side_index(const tern_args &args, long long row, long long group) {
    return (row / 16 * args.groups + group) * 16 + 2 * (row % 8) + row % 16 / 8;
}

extern "C" __global__ void __launch_bounds__(THREADS) tern_naive(const struct tern_args args) {
    const long long n = (long long)blockIdx.x * THREADS + threadIdx.x, first = (long long)blockIdx.y * ROWS;
    if (n >= args.n)
        return;
    const __half *x = static_cast<const __half *>(args.x);
    float sum[ROWS] = {};
    for (long long group = 0; group < args.groups; group++) {
        const long long begin = group * args.group_size, end = min(begin + args.group_size, args.k),
                        side = side_index(args, n, group);
        const int zero = HAS_ZEROS ? static_cast<const unsigned char *>(args.zeros)[side] : ZERO;
        float part[ROWS] = {}; /* exact weights: the scale comes once a group, in fp32 */
        for (long long k = begin; k < end; k++) {
            const float weight = (float)((int)code_of(args, n, k) - zero);
            for (int i = 0; i < ROWS; i++)
                if (first + i < args.m)
                    part[i] += weight * __half2float(x[(first + i) * args.k + k]);
        }
        const float scale = __half2float(static_cast<const __half *>(args.scales)[side]);
        for (int i = 0; i < ROWS; i++)
            sum[i] += scale * part[i];
    }
    const float bias = args.bias ? __half2float(static_cast<const __half *>(args.bias)[n]) : 0;
    for (int i = 0; i < ROWS; i++)
        if (first + i < args.m)
            static_cast<__half *>(args.y)[(first + i) * args.n + n] = __float2half_rn(sum[i] + bias);
}
