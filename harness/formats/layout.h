/* Layouts: the order in which kernels want the weight bits in memory. Packed once, offline; exact inverse.
 *
 * One descriptor-driven packer serves all layouts. The layout "frag16x128" of Tern's families:
 *   W is cut into tiles of 16 rows (n) by 128 columns (k), padded with weights of value 0 (code = zero point).
 *   Tiles are stored row-tile major: tile index = (n/16) * ceil(K/128) + k/128. A tile takes bits*256 bytes.
 *   Inside a tile, lane l = 4*g + t (g = l/4 in 0..7, t = l%4) of a warp owns 64 weights = 32 pairs. Pair P = 4*step + p,
 *   step 0..7 (one m16n8k16 step each), p 0..3 (A-fragment register), holds rows r = g + 8*(p&1) and columns
 *     k = 32*(step/2) + 8*t + 4*(step%2) + 2*(p/2) + e, e = 0 (low 16 bits), 1 (high 16 bits)
 *   so that the B operand of two steps is 8 consecutive activations of lane t (one 16-byte shared-memory load).
 *
 *   Codes are split into planes of b bits (2: {2}, 3: {2 low, 1 high}, 4: {4}, 8: {8}). A plane gives each pair a word of
 *   the lane and a slot in it; element e of the pair sits at bit 16*e + b*slot. With piece = step/2 and odd = step%2:
 *     b = 2: word p,                  slot piece + 4*odd
 *     b = 4: word 4*(piece/2) + p,    slot piece%2 + 2*odd
 *     b = 8: word 2*step + p/2,       slot p%2
 *     b = 1: word p/2,                slot p%2 + 2*piece + 8*odd
 *   so that (b = 2, 4) the four registers of a step come from the same bits of four words, and both steps of a piece from
 *   the same bits after a shift by 8. Words are stored in 16-byte chunks: chunk c of the plane holds words 4c..4c+3 of lane l
 *   at plane_offset + c*512 + l*16 (the 1-bit plane has 2 words a lane: l*8).
 *
 *   Scales: [ceil(N/16)][G][8][2] binary16, entry (tile, g_k, g, h) belongs to row 16*tile + g + 8*h; padded rows have 0.
 *   Zeros (asym only): same order, one byte each; padded rows have zero 0. Format tensor is stored like channel.
 *   Codes, scales and zeros are separate arrays, each 256-byte aligned in device memory. */
#ifndef TERN_FORMATS_LAYOUT_H
#define TERN_FORMATS_LAYOUT_H

#include "../kernels/kernels.h"
#include "formats/weights.h"

struct tern_layout; /* descriptor: tile rows, tile k, planes, permutation */

/* Finds a layout by the name that space.lua uses; NULL if unknown. */
const struct tern_layout *tern_layout_find(const char *name);
const char *tern_layout_name(const struct tern_layout *layout);

struct tern_packed {
    int64_t code_bytes, scale_bytes, zero_bytes; /* zero_bytes is 0 for sym */
    void *codes, *scales, *zeros;                /* malloc'ed */
};

/* Sizes for a shape, without packing. */
void tern_layout_sizes(const struct tern_layout *layout, const struct tern_format *format, int64_t n, int64_t k,
                       int64_t *code_bytes, int64_t *scale_bytes, int64_t *zero_bytes);
/* Packs; the caller frees with tern_packed_free. Runs at memory speed (a few ns a weight at worst). */
enum tern_status tern_layout_pack(const struct tern_layout *layout, const struct tern_weights *weights,
                                  struct tern_packed *packed, struct tern_error *err);
/* Exact inverse of pack (padding is checked to be zero weights); the caller frees the weights. */
enum tern_status tern_layout_unpack(const struct tern_layout *layout, const struct tern_format *format, int64_t n, int64_t k,
                                    const struct tern_packed *packed, struct tern_weights *weights, struct tern_error *err);
/* Fills all of *args but its pointers, for kernels/pack.cu; false where the layout cannot hold the format. */
bool tern_layout_wire(const struct tern_layout *layout, const struct tern_format *format, int64_t n, int64_t k,
                      struct tern_pack_args *args);
void tern_packed_free(struct tern_packed *packed);

#endif
