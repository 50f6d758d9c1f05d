/* unpack.cu: rows of a layer decoded on the device. `tern_unpack`: from its tensors as the file holds them. `tern_unpack_packed`: from
 * the layout frag16x128 that the templates read. Plain C, shared by the driver, NVRTC and the emulator. The includer defines
 * TERN_LITERAL. */
#ifndef TERN_UNPACK_H
#define TERN_UNPACK_H

#include "literal.h"

/* Lies in device memory, where tern_args.workspace points: launches take struct tern_args only. Grid and block: any. */
struct tern_unpack_args {
    struct tern_literal layer; /* its pointers are device memory; packed: codes, zeros, scales in the layout, n, k, groups, bits only */
    long long first, rows;     /* rows [first, first + rows) */
    unsigned char *codes;      /* [rows][K] */
    unsigned char *zeros;      /* [rows][groups]; packed, without zero points: not written */
    unsigned int *scales;      /* [rows][groups] bits of a binary32 */
    int *index;                /* [K] group of each k; packed: not written */
};

#endif
