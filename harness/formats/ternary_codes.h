/* Decoders of packed ternary weights: from bytes as files store them to codes q, a byte each, W = scale * (q - 1).
 * Codes 0, 1, 2 are the weights -1, 0, +1; what a byte holds beyond those comes out as a code above 2, for the caller to judge:
 * no decoder fails and none reads more than the stated bytes. No alignment is assumed. Loops vectorise; no tables. */
#ifndef TERN_FORMATS_TERNARY_CODES_H
#define TERN_FORMATS_TERNARY_CODES_H

#include "formats/vector.h"

#include <stdint.h>

#define TERN_TQ_WEIGHTS   256 /* of a block of TQ1_0 and TQ2_0 */
#define TERN_Q2_0_WEIGHTS 64

/* llama.cpp blocks along K: `blocks` of them at `packed`, one scale (the binary16 d, exact as float) each. ggml-quants.c.
 *   TQ1_0, 54 bytes: five weights a byte in base 3 as a fixed-point fraction, d last
 *   TQ2_0, 66 bytes: weight e of each half at byte e % 32, bits 2 * (e / 32); code 3 comes out as 3; d last
 *   Q2_0, 18 bytes: d first, four neighbours a byte; code 3 is the legal weight +2 */
void tern_codes_tq1_0(const uint8_t *packed, int64_t blocks, uint8_t *codes, float *scales);
void tern_codes_tq2_0(const uint8_t *packed, int64_t blocks, uint8_t *codes, float *scales);
void tern_codes_q2_0(const uint8_t *packed, int64_t blocks, uint8_t *codes, float *scales);
/* Bytes of TQ1_0 blocks that the reference writer never produces (they decode all the same). */
int64_t tern_codes_tq1_0_odd_bytes(const uint8_t *packed, int64_t blocks);

/* Layouts (i) and (ii), four neighbours along K a byte, lowest bits first: field 0 is 0, 1 is +1, 2 is -1; field 3 comes out as
 * code 1 (weight 0) where `reserved` says that it is reserved, else as 3. Writes 4 * bytes codes. */
void tern_codes_fields(const uint8_t *packed, int64_t bytes, int reserved, uint8_t *codes);
/* Fields of value 3 in those bytes. */
int64_t tern_codes_count_3(const uint8_t *packed, int64_t bytes);

/* Adds to counts[q] how many of the codes are q, for q 0, 1 and 2; returns how many are more. */
int64_t tern_codes_count(const uint8_t *codes, int64_t count, int64_t counts[3]);

/* Adds to counts[q] how many of the codes, all below 2^bits, are q. */
void tern_codes_histogram(const uint8_t *codes, int64_t count, int bits, int64_t counts[256]);

/* Layout (iii): one int8 a weight. A value v other than -1, 0, 1 comes out as (v + 1) mod 256. */
void tern_codes_int8(const uint8_t *packed, int64_t count, uint8_t *codes);

/* Hugging Face BitNet: row n of N is bits 2 * (n / R) of byte row n % R, R = N / 4. `packed` is that byte row, `field` n / R. */
void tern_codes_bitnet(const uint8_t *packed, int64_t k, int field, uint8_t *codes);

/* microsoft/BitNet gpu: tiles of 16 rows x 32 columns, 128 bytes. `packed` is the tensor; row `n` is gathered from its tiles. Field
 * 0 (weight -2, which no ternary model has) comes out as 255. */
void tern_codes_bitnet_gpu(const uint8_t *packed, int64_t k, int64_t n, uint8_t *codes);

#endif
