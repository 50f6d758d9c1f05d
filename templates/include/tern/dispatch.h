/* Dispatch tables: which kernel serves a quantised linear layer, with which launch, and how good the answer is. C99 and C++11.
 * Shared by exported headers, which hold a copy of this text, and by tern_rt. Names that end in _ are of the table's inside. */
#ifndef TERN_DISPATCH_TYPES_H
#define TERN_DISPATCH_TYPES_H

#include <stdint.h>

/* How good an answer is: of a table for a problem, or for a GPU. */
enum tern_match {
    TERN_MATCH_NONE = 0,    /* nothing in the table can serve it, or there is nothing to do (m = 0); another GPU family */
    TERN_MATCH_EXACT = 1,   /* this (format, n, k, m) was tuned; this very GPU model */
    TERN_MATCH_BETWEEN = 2, /* this (format, n, k) was tuned at other m */
    TERN_MATCH_NEAR = 3,    /* the nearest tuned (n, k), at most 4x away in either; a GPU of the same compute capability */
    TERN_MATCH_DEFAULT = 4  /* farther away, no claim about its speed; a GPU that can load the kernels, no more */
};

/* A compiled kernel for one format; n and k are run-time arguments, m must lie in [min_m, max_m]. */
struct tern_kernel {
    const char *template_name, *params;
    const char *op, *format; /* "linear-a16": x and y binary16; "linear-bf16": bfloat16; "linear-a8", "linear-e4m3":
                              * binary16, x rounded to int8 or e4m3 first, one scale a row */
    const char *layout;      /* order of the packed weights that it reads */
    const char *entry;       /* symbol in the cubin */
    const char *prologue;    /* symbol of the kernel that is launched right before it on the same stream, with the same
                              * arguments and workspace; NULL: none */
    const char *cubin_hash;  /* name of the image in tern_kernels.bin: XXH3-128 of its bytes */
    const char *build_key;
    int64_t min_m, max_m;
    int64_t registers, static_smem_bytes;
    int dependent;     /* 1: it was tuned to start before the launch ahead of it has ended, and waits for it itself */
    int rounds_scales; /* 1: it rounds the scales of a row of W to 7 bits of the largest: other weights than the format's */
};

/* What to launch. Sizes are in bytes, the block in threads, the grid in blocks. */
struct tern_choice {
    const struct tern_kernel *kernel; /* NULL: launch nothing */
    int64_t grid[3], block;
    int64_t cluster;                       /* blocks along x in a cluster; 1: no cluster */
    int64_t smem_bytes;                    /* dynamic shared memory */
    int64_t workspace_bytes;               /* device memory that the launch may scribble over; its content need not be set */
    int64_t prologue_grid, prologue_block; /* of kernel->prologue: blocks along x, threads; no cluster, no dynamic shared
                                            * memory. 0: none */
    int use_cublas; /* 1: cuBLASLt in the type of x was measured to be faster, or no kernel serves the problem */
    int use_dequant; /* 1: so was dequantising the layer each time, with cuBLASLt behind it; 2: the same in FP8 (linear-e4m3) */
    enum tern_match match;
    int64_t tuned_m, tuned_n, tuned_k; /* the problem whose winner this is */
    double tuned_us;                   /* its time there (a prediction in planned tables); 0: unknown */
};

struct tern_kernel_ {
    struct tern_kernel kernel;
    void (*launch)(struct tern_choice *c, int64_t m, int64_t n, int64_t k); /* fills grid to prologue_block */
};
/* A tuned m; ns of its winner. Its steps are for m between the next smaller tuned one and this. Behind them come those for other (n, k):
 * bands by k, the kernel of each being the number of steps by n up to its end, and then these. */
struct tern_entry_ {
    int64_t m, ns;
    int kernel, use_cublas, use_dequant, first_step, step_count, band_count;
};
struct tern_step_ { /* up to this m, n or k, from behind the step before */
    int64_t size;
    int kernel;
};
struct tern_group_ { /* a tuned (n, k): entries of ascending m */
    int64_t n, k;
    int first, count;
};
struct tern_family_ { /* an op and format: groups of ascending n, then k */
    const char *op, *format;
    int first, count;
};

/* The table of one GPU model. */
struct tern_table {
    const char *gpu;     /* "h200" */
    const char *devices; /* names that the driver gives it, separated by | */
    const char *arch;    /* "sm_90a": what the kernels are compiled for */
    int cc;              /* 10 * major + minor */
    int64_t sms;         /* multiprocessors that grids are computed for; goes into args.multiprocessors */
    int64_t smem_bytes;  /* most shared memory of one block, static and dynamic */
    int planned;         /* 1: at least one choice was never measured */
    const struct tern_family_ *families;
    const struct tern_group_ *groups;
    const struct tern_entry_ *entries;
    const struct tern_step_ *steps;
    const struct tern_kernel_ *kernels;
    int family_count, kernel_count;
};

#endif
