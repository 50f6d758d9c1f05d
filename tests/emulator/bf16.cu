// Emulator tests of bfloat16: codes decoded to it, products with binary16 scales.
#include "tern/abi.h"
#include "tern/dequant.cuh"

// x: words of a tile, [32 lanes][16]. y[lane]: fragment elements over all zero points that differ from those in binary16, which
// hold every code less zero point; y[32 + lane]: how many were compared.
template <int BITS> static void codes(const struct tern_args &args) {
    const unsigned *words = (const unsigned *)args.x + 16 * threadIdx.x;
    int differ = 0, count = 0;
    for (unsigned zero = 0; zero < 1u << BITS; zero++)
        for (int step = 0; step < TERN_TILE_STEPS; step++) {
            const tern_zero_bias bias = tern_zero_biases<BITS>(zero, (1u << BITS) - 1 - zero);
            unsigned half[4], bf16[4];
            tern_dequant_tile<BITS, 0>(words, step, bias, half);
            tern_dequant_tile<BITS, 1>(words, step, bias, bf16);
            for (int p = 0; p < 4; p++) {
                const float2 a = tern_pair_floats<0>(half[p]), b = tern_pair_floats<1>(bf16[p]);
                differ += !(a.x == b.x) + !(a.y == b.y);
                count += 2;
            }
        }
    ((int *)args.y)[threadIdx.x] = differ;
    ((int *)args.y)[32 + threadIdx.x] = count;
}
extern "C" __global__ void bf16_codes_2(struct tern_args args) {
    codes<2>(args);
}
extern "C" __global__ void bf16_codes_3(struct tern_args args) {
    codes<3>(args);
}
extern "C" __global__ void bf16_codes_4(struct tern_args args) {
    codes<4>(args);
}
extern "C" __global__ void bf16_codes_8(struct tern_args args) {
    codes<8>(args);
}

// y[scale][i]: scale times i - 15, i 0..31, of the m binary16 scales in x; k 1: in the short form for powers of two.
template <int ZEROS> static void scaled(const struct tern_args &args) {
    for (long long i = threadIdx.x; i < args.m; i += blockDim.x) {
        const tern_scale_pairs<1> scale = tern_scale_rows<1>(((const unsigned short *)args.x)[i] * 0x00010001u);
        for (int d = -15; d < 17; d += 8) {
            unsigned a[4];
            for (int p = 0; p < 4; p++)
                a[p] = tern_pair_round<1>((float)(d + 2 * p), (float)(d + 2 * p + 1));
            tern_scale_fragment<ZEROS ? 4 : 2, ZEROS>(scale, a);
            memcpy((unsigned short *)args.y + 32 * i + d + 15, a, sizeof a);
        }
    }
}
extern "C" __global__ void bf16_scaled(struct tern_args args) {
    if (args.k == 1)
        scaled<0>(args);
    else
        scaled<1>(args);
}
