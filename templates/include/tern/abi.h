/* The one struct a kernel takes. Plain C, shared by driver, NVRTC, emulator and exported runtime; sizes are the same everywhere.
 * y[M,N] = x[M,K] * W[N,K]^T (+ bias[N]), row major, binary16 or bfloat16 in and out, fp32 accumulation. */
#ifndef TERN_ABI_H
#define TERN_ABI_H

/* Of this struct and of exported tables: runtime and export must agree. 2: a bias; 3: a prologue. */
#define TERN_ABI_VERSION 5

struct tern_args {
    const void *x;      /* [M][K], 256-byte aligned, row stride K */
    const void *codes;  /* packed weights, in the template's layout (formats/layout.h) */
    const void *scales; /* packed scales */
    const void *zeros;  /* packed zero points, null for symmetric formats */
    const void *bias;      /* [N] of the type of y, added to the fp32 sums, or null */
    void *y;            /* [M][N] of the type of x, row stride N; every element is written */
    void *workspace;    /* as many bytes as the launch's workspace expression says; content undefined */
    long long m, n, k;
    long long groups;          /* scale groups along K */
    long long group_size;      /* k per group; K for one scale a row */
    long long multiprocessors; /* of the device, for persistent grids */
};

#endif
