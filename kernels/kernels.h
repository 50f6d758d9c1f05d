/* Fixed device code: the entries of kernels/ and the structs they take. Plain C, shared by the driver and NVRTC.
 * This code stands apart from the templates on purpose: it shares no decoder with them, so that it can judge them. */
#ifndef TERN_KERNELS_H
#define TERN_KERNELS_H

/* reference.cu, `tern_reference`: y = x * W^T and sum |x*w| from canonical weights, FP64 accumulation.
 * Grid (ceil(n/64), ceil(m/64)), block 256. Any m, n, k. */
struct tern_reference_args {
    const void *x;              /* [M][K] binary16, bfloat16 if bf16 */
    const unsigned char *codes; /* [N][K], value q */
    const void *scales;         /* [groups][N] binary16 */
    const unsigned char *zeros; /* [groups][N], or null: the zero point is `zero` */
    const float *x_units;       /* [M] what 1 in a row of x stands for; null: 1 */
    const float *w_units;       /* [N] the same of scales */
    double *y_ref;              /* [M][N] */
    float *bound_scale;         /* [M][N] sum_k |x*w|, accumulated in binary32: relative error below K * 2^-24 */
    long long m, n, k;
    long long group_size; /* k per group, a multiple of 16 */
    int zero, bf16;
};

/* compare.cu, `tern_compare`: binary16 (bf16: bfloat16) results against y_ref with the bound of verify/reference.h. Grid any, block 256. */
struct tern_compare_result {                       /* device memory; zeroed before, but first = ~0 */
    unsigned long long mismatches, checked, first; /* first: smallest flat index m*N + n that is wrong */
    unsigned long long poisoned;                   /* elements that still hold 0xFFFF */
    unsigned int worst_bits, unused; /* binary32 of the largest |got - ref| / tolerance; NaN counts as infinite */
};
struct tern_compare_args {
    const unsigned short *y;
    const double *y_ref;
    const float *bound_scale;
    struct tern_compare_result *result;
    long long count;                                        /* M * N */
    double rounding, subnormal, of_ref, of_scale, overflow; /* struct tern_bound */
    int bf16;
};

/* checksum.cu, `tern_checksum`: adds the checksum of `count` words to *sum. Grid any, block 256. */
struct tern_checksum_args {
    const unsigned long long *data;
    unsigned long long *sum; /* device memory; zeroed before */
    long long count;         /* words of 8 bytes */
};

/* Where the scales, binary32 [ceil(k/128)][rows], lie behind a matrix [rows][k] of e4m3 numbers: one for 128 k of a row, as cuBLASLt takes
 * them (VEC128). */
#define TERN_E4M3_SCALES_AT(rows, k)    (((rows) * (k) + 255) / 256 * 256)
#define TERN_E4M3_MATRIX_BYTES(rows, k) (TERN_E4M3_SCALES_AT(rows, k) + ((k) + 127) / 128 * (rows) * 4)

/* dequantise.cu, `tern_dequantise`: packed layout frag16x128 -> W [N][K] binary16 or bfloat16, (q - z) * scale rounded once; or q - z
 * as e4m3 and then the scales, of formats with groups of a multiple of 128 or one scale a row. Takes struct tern_args (tern/abi.h): codes,
 * scales, zeros, n, k, groups, group_size; y is W. Built for one format by the macros TERN_BITS (2, 3, 4, 8), TERN_ASYM (0, 1),
 * TERN_ZERO (zero point when not asym), TERN_BF16 and TERN_E4M3 (0, 1; up to 4 bits). Grid ceil(tiles / 8) with tiles = ceil(n/16) *
 * ceil(k/128), block 256: one warp a tile. */
#define TERN_DEQUANTISE_WARPS  8
#define TERN_DEQUANTISE_LAYOUT "frag16x128"

/* quantise.cu, `tern_quantise`: x [M][K] binary16 -> e4m3 and then the scales, in the workspace. Takes struct tern_args: x,
 * workspace, m, k. Grid m, block 256. */
#define TERN_QUANTISE_THREADS 256

/* pack.cu, `tern_pack`: canonical weights -> the arrays of a layout (formats/layout.h, which fills all but the pointers), and `tern_unpack`,
 * the exact inverse. Grid ceil(row_tiles * k_tiles / 4), block 128: one warp a tile. */
#define TERN_PACK_WARPS 4
struct tern_pack_plane {
    short bits, shift;     /* a run of bits of every code */
    short pair_offset[32]; /* where the pair of slot i % (16 / bits) of word i / (16 / bits) lies in a row-major tile */
};
struct tern_pack_args {
    unsigned char *codes;  /* [N][K], value q; canonical ones that tern_pack reads and tern_unpack writes */
    unsigned short *scales; /* [groups][N] */
    unsigned char *zeros;  /* [groups][N], or null: the zero point is `zero` */
    unsigned int *packed_codes;
    unsigned short *packed_scales;
    unsigned char *packed_zeros; /* null as `zeros` */
    unsigned long long *wrong;   /* or null: adds the codes, zero points and scales that the format does not have, and (tern_unpack) padding
                                  * that tern_pack does not write */
    long long n, k, groups;
    long long row_tiles, k_tiles, tile_words;
    int code_end;     /* codes are below */
    int bits, zero;   /* zero points have so many bits */
    int one_scale;    /* 1: all scales are equal */
    short row_bits, k_bits, plane_count, chunk_words, element_offset;
    short lane_offset[32], scale_row[64];
    struct tern_pack_plane planes[2];
};

/* control.cu, `tern_control`: out[i] = i stepped `steps` times by a fixed linear congruence. Proves that the device still
 * computes. */
struct tern_control_args {
    unsigned int *out; /* [count] */
    long long count, steps;
};
#define TERN_CONTROL_MULTIPLIER 1664525u
#define TERN_CONTROL_INCREMENT  1013904223u

/* late.cu, `tern_late`: lets a dependent launch start at once, and writes when `wait_ns` are over. Grid any, block 256; compute
 * capability 9.0. */
#define TERN_LATE_RANGES 3
struct tern_late_args {
    struct {
        unsigned int *to;
        const unsigned int *from; /* null: `word` all over */
        unsigned int word;
        long long words; /* of 4 bytes; 0: no range */
    } ranges[TERN_LATE_RANGES];
    long long wait_ns;
};

/* ceiling.cu, `tern_probe`: what the device can do at best. One build measures one thing, chosen by TERN_PROBE; the matrix
 * probes also by TERN_PROBE_TYPE, READ and COPY by TERN_PROBE_UNROLL (16-byte loads in flight a thread). Built for an
 * architecture without the instruction, a matrix probe adds nothing to `done`, and the caller must look at it. */
#define TERN_PROBE_EMPTY        0 /* nothing */
#define TERN_PROBE_READ         1 /* 16-byte streaming loads; any grid, block a multiple of 32 */
#define TERN_PROBE_BULK         2 /* bulk copies into shared memory; count a multiple of TERN_PROBE_CHUNK / 16, block 128 */
#define TERN_PROBE_MMA          3 /* mma.sync in every warp; block a multiple of 32 up to 512 */
#define TERN_PROBE_WGMMA        4 /* wgmma m64n256, A from registers; block 128 or 256; sm_90a */
#define TERN_PROBE_WGMMA_SHARED 5 /* the same, A from shared memory */
#define TERN_PROBE_COPY         6 /* 16-byte streaming loads and stores; any grid, block a multiple of 32 */
#define TERN_PROBE_F16          0
#define TERN_PROBE_BF16         1
#define TERN_PROBE_S8           2
#define TERN_PROBE_E4M3         3
#define TERN_PROBE_CHUNK        8192 /* bytes of one bulk copy */

struct tern_probe_args {
    const void *data;     /* read, copy: `count` words of 16 bytes, cold */
    void *to;             /* copy: where they go */
    unsigned int *result; /* [2]: sum of all 32-bit words read or of the results' bits, when `check`; `done` */
    long long count;      /* words of 16 bytes, or steps of each warp (mma) or warpgroup (wgmma) */
    int check;            /* 0: reads write nothing */
};
/* Operations of one step: products of a warp or warpgroup, times 2*m*n*k of the instruction. 8-bit types have twice the k.
 */
#define TERN_PROBE_MMA_STEP_OPS(k)   (8.0 * 2 * 16 * 8 * (k)) /* k = 16 or 32 */
#define TERN_PROBE_WGMMA_STEP_OPS(k) (4.0 * 2 * 64 * 256 * (k))

#endif
