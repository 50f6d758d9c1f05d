// Copies of boxes of a row-major matrix into shared memory by the copy engine (cp.async.bulk.tensor, sm_90a): of 16-bit elements in the
// 128-byte swizzle that wgmma.cuh wants of B, or row behind row, as a matrix of 8-byte units. What lies outside the matrix becomes zeros. The engine reads shape and
// address from a tensor map, 128 bytes in global memory; a kernel gets plain pointers, so each block writes its own map into
// its workspace. Owns nothing.
#ifndef TERN_TENSOR_COPY_CUH
#define TERN_TENSOR_COPY_CUH

#include "tern/bulk.cuh"
#include "tern/memory.cuh"

#define TERN_TENSOR_MAP 128 /* bytes, and alignment, of a map */

#ifdef TERN_EMULATOR
struct tern_emu_tensor_map {
    const unsigned char *base;
    long long columns, rows;
    int box_columns, box_rows, unit; // bytes of an element; 2: swizzled
};
#endif

__device__ __forceinline__ void tern_tensor_map_acquire(const void *map) {
#if !defined(TERN_EMULATOR) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" : : "l"(map) : "memory");
#endif
}

// A matrix of `rows` rows of `columns` elements of UNIT bytes, and the boxes of it: box_columns (16 to 2048 bytes in all) times
// box_rows (up to 256). Rows are a multiple of 16 bytes, the base is aligned as much. UNIT 2: boxes of 64 columns and 8 rows or more in the 128-byte
// swizzle; 8: row behind row.
template <int UNIT> struct tern_tensor {
    static_assert(UNIT == 2 || UNIT == 8, "swizzled elements, or units of what is copied as it is");
    const void *base;
    long long columns, rows;
    int box_columns, box_rows;
};

// Sends a map on its way to memory. All lanes of one warp call, `scratch` is TERN_TENSOR_MAP bytes of shared memory, aligned as much. Behind
// tern_tensor_map_acquire this warp may copy, and another one that a barrier of the block has told of it.
template <int UNIT>
__device__ __forceinline__ void tern_tensor_map_send(void *map, unsigned char *scratch, const tern_tensor<UNIT> &of,
                                                     int lane) {
#ifdef TERN_EMULATOR
    (void)scratch;
    const struct tern_emu_tensor_map made = {
        (const unsigned char *)of.base, of.columns, of.rows, of.box_columns, of.box_rows, UNIT};
    if (lane == 0)
        memcpy(map, &made, sizeof made);
    __syncwarp();
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
    const unsigned at = tern_shared_address(scratch);
    *reinterpret_cast<unsigned *>(scratch + 4 * lane) = 0; // all fields that are not set below
    __syncwarp();
    if (lane == 0) {
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;\n"
                     "tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], 1;\n" // dimensions less one
                     "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 0, %6;\n"
                     "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 1, %2;\n"
                     "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %3;\n"
                     "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %4;\n"
                     "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %5;\n"
                     :
                     : "r"(at), "l"(of.base), "r"(of.box_rows), "r"((unsigned)of.columns), "r"((unsigned)of.rows),
                       "l"(UNIT * of.columns), "r"(of.box_columns)
                     : "memory");
        asm volatile(
            "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 0, 1;\n"
            "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 1, 1;\n"
            "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], %1;\n" // binary16, or integer: bits are copied as they are
            "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;\n"
            "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], %2;\n" // 128 bytes, or none
            "tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0;\n"     // zeros
            :
            : "r"(at), "n"(UNIT == 2 ? 6 : 4), "n"(UNIT == 2 ? 3 : 0)
            : "memory");
    }
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
                 :
                 : "l"(map), "r"(at)
                 : "memory");
#endif
}

// The same, and waits until this warp may copy.
template <int UNIT>
__device__ __forceinline__ void tern_tensor_map_make(void *map, unsigned char *scratch, const tern_tensor<UNIT> &of,
                                                     int lane) {
    tern_tensor_map_send(map, scratch, of, lane);
    tern_tensor_map_acquire(map);
}

#ifdef TERN_EMULATOR
#define TERN_EMU_BOXES 256 /* on their way at once, of all blocks of a cluster */

// The box as it will lie in shared memory is put together in a buffer of its own, from where it goes as one bulk copy.
static inline void tern_emu_tensor_copy(void *shared, const void *map, int column, long long row, void *barrier) {
    alignas(16) static unsigned char boxes[TERN_EMU_BOXES][1 << 16];
    static unsigned next;
    unsigned char *box = boxes[next++ % TERN_EMU_BOXES];
    struct tern_emu_tensor_map m;
    memcpy(&m, map, sizeof m);
    const int row_bytes = m.box_columns * m.unit;
    if (row_bytes * m.box_rows > (int)sizeof boxes[0] || m.box_columns > 256 || m.box_rows > 256 || row_bytes % 16 != 0)
        tern_emu_fault("tensor copy: a box of this size cannot be");
    memset(box, 0, sizeof boxes[0]);
    for (int r = 0; r < m.box_rows && row + r < m.rows; r++)
        for (int chunk = 0; chunk < row_bytes / 16; chunk++) { /* inside or outside: rows are a multiple of 16 bytes */
            const long long at = column + 16 / m.unit * chunk;
            if (at < m.columns)
                memcpy(box + row_bytes * r + 16 * (m.unit == 2 ? chunk ^ r % 8 : chunk),
                       m.base + m.unit * ((row + r) * m.columns + at), 16);
        }
    tern_emu_bulk_copy(shared, box, (size_t)(row_bytes * m.box_rows), barrier);
}
#endif

// Copies the box at (row, column) to `shared` (1024-byte aligned if swizzled, else 128); its bytes, those outside the matrix too, count against the
// barrier's announced ones. One thread calls.
__device__ __forceinline__ void tern_tensor_copy(void *shared, const void *map, int column, int row, void *barrier) {
#ifdef TERN_EMULATOR
    tern_emu_tensor_copy(shared, map, column, row, barrier);
#elif __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
        :
        : "r"(tern_shared_address(shared)), "l"(map), "r"(column), "r"(row), "r"(tern_shared_address(barrier))
        : "memory");
#endif
}

// The same for all CLUSTER blocks of a cluster: the box goes to each one's address `shared`, and counts against each one's barrier. Their
// rings must have the place.
template <int CLUSTER>
__device__ __forceinline__ void tern_tensor_copy_all(void *shared, const void *map, int column, int row, void *barrier) {
#ifdef TERN_EMULATOR
    for (int rank = 0; rank < CLUSTER; rank++)
        tern_emu_tensor_copy(tern_emu_cluster_map(shared, rank), map, column, row, tern_emu_cluster_map(barrier, rank));
#elif __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 :
                 : "r"(tern_shared_address(shared)), "l"(map), "r"(column), "r"(row), "r"(tern_shared_address(barrier)),
                   "h"((unsigned short)((1 << CLUSTER) - 1))
                 : "memory");
#endif
}

#endif
