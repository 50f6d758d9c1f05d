/* unpack.cu, `tern_unpack`: rows of a layer decoded on the device from its tensors as the file holds them. Plain C, shared by the
 * driver, NVRTC and the emulator. The includer defines TERN_LITERAL. */
#ifndef TERN_UNPACK_H
#define TERN_UNPACK_H

#include "literal.h"

/* Lies in device memory, where tern_args.workspace points: launches take struct tern_args only. Grid and block: any. */
struct tern_unpack_args {
    struct tern_literal layer; /* its pointers are device memory */
    long long first, rows;     /* rows [first, first + rows) */
    unsigned char *codes;      /* [rows][K] */
    unsigned char *zeros;      /* [rows][groups] */
    unsigned int *scales;      /* [rows][groups] bits of a binary32 */
    int *index;                /* [K] group of each k */
};

#endif
