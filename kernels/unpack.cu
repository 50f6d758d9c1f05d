// Unpack: codes, zero points, scales and group index of rows of a layer, from the bytes of its file, one element after the other by the
// formulas of literal.h. Proves that a GPU that is handed the file's bytes sees the weights that the host sees; not made for speed.
// Bounded by the integer pipe: about 20 to 60 operations a weight. The second entry does the same for packed weights, by the
// description of formats/layout.h; it shares no code with dequantise.cu and the templates.
#define TERN_LITERAL static __device__ inline
#include "unpack.h"

#include "tern/abi.h"

extern "C" __global__ void __launch_bounds__(256) tern_unpack(tern_args a) {
    const tern_unpack_args u = *static_cast<const tern_unpack_args *>(a.workspace);
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x, stride = (long long)gridDim.x * blockDim.x;
    const long long k = u.layer.k, groups = u.layer.groups;
    for (long long i = first; i < u.rows * k; i += stride)
        u.codes[i] = (unsigned char)tern_literal_code(&u.layer, u.first + i / k, i % k);
    for (long long i = first; i < u.rows * groups; i += stride) {
        u.zeros[i] = (unsigned char)tern_literal_zero(&u.layer, u.first + i / groups, i % groups);
        u.scales[i] = tern_literal_scale(&u.layer, u.first + i / groups, i % groups);
    }
    for (long long i = first; i < k; i += stride)
        u.index[i] = (int)tern_literal_group(&u.layer, i);
}

// Bits [16 e + width * slot, + width) of word `word` of lane `lane` in a plane: words 4c .. 4c+3 of a lane lie at 512 c + 16 lane; a
// plane of one bit has two words a lane.
static __device__ int field(const unsigned char *plane, int width, int lane, int word, int slot, int e) {
    const unsigned char *at = width == 1 ? plane + 8 * lane + 4 * word : plane + 512 * (word / 4) + 16 * lane + 4 * (word % 4);
    const unsigned value = at[0] | at[1] << 8 | at[2] << 16 | (unsigned)at[3] << 24;
    return (int)(value >> (16 * e + width * slot) & ((1u << width) - 1u));
}

static __device__ int packed_code(const tern_literal &l, long long n, long long k) {
    const int r = (int)(n % 16), c = (int)(k % 128), bits = l.bits;
    const int lane = 4 * (r % 8) + c % 32 / 8, piece = c / 32, odd = c % 8 / 4, p = r / 8 + c % 4 / 2 * 2, e = c % 2;
    const unsigned char *tile = l.codes + (n / 16 * ((l.k + 127) / 128) + k / 128) * bits * 256;
    if (bits == 8)
        return field(tile, 8, lane, 2 * (2 * piece + odd) + p / 2, p % 2, e);
    if (bits == 4)
        return field(tile, 4, lane, 4 * (piece / 2) + p, piece % 2 + 2 * odd, e);
    const int low = field(tile, 2, lane, p, piece + 4 * odd, e);
    return bits == 2 ? low : low | field(tile + 512, 1, lane, p / 2, p % 2 + 2 * piece + 8 * odd, e) << 2;
}

// Entry of row n in group g of the packed scales and zero points.
static __device__ long long packed_entry(const tern_literal &l, long long n, long long g) {
    return ((n / 16 * l.groups + g) * 8 + n % 8) * 2 + n % 16 / 8;
}

extern "C" __global__ void __launch_bounds__(256) tern_unpack_packed(tern_args a) {
    const tern_unpack_args u = *static_cast<const tern_unpack_args *>(a.workspace);
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x, stride = (long long)gridDim.x * blockDim.x;
    const long long k = u.layer.k, groups = u.layer.groups;
    for (long long i = first; i < u.rows * k; i += stride)
        u.codes[i] = (unsigned char)packed_code(u.layer, i / k, i % k);
    for (long long i = first; i < u.rows * groups; i += stride) {
        const long long entry = packed_entry(u.layer, i / groups, i % groups);
        u.scales[i] = tern_literal_read_scale(u.layer.scales, TERN_LITERAL_F16, entry);
        if (u.layer.zeros)
            u.zeros[i] = u.layer.zeros[entry];
    }
}
