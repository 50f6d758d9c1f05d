// Unpack: codes, zero points, scales and group index of rows of a layer, from the bytes of its file, one element after the other by the
// formulas of literal.h. Proves that a GPU that is handed the file's bytes sees the weights that the host sees; not made for speed.
// Bounded by the integer pipe: about 20 to 60 operations a weight.
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
