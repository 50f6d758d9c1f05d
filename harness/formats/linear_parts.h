/* What families of layers share: finding and checking the tensors of a layer, codes in 32-bit words, scales as floats. */
#ifndef TERN_FORMATS_LINEAR_PARTS_H
#define TERN_FORMATS_LINEAR_PARTS_H

#include "formats/linear.h"
#include "formats/quant_config.h"
#include "formats/vector.h"

#include <string.h>

/* The families, one file each. */
extern const struct tern_checkpoint_format tern_checkpoint_awq, tern_checkpoint_gptq, tern_checkpoint_compressed_tensors;
extern const struct tern_checkpoint_format tern_checkpoint_gguf;       /* TQ1_0, TQ2_0, Q2_0 */
extern const struct tern_checkpoint_format tern_checkpoint_ternary;    /* the project's layouts (i), (ii), (iii) */
extern const struct tern_checkpoint_format tern_checkpoint_bitnet;     /* Hugging Face */
extern const struct tern_checkpoint_format tern_checkpoint_bitnet_gpu; /* microsoft/BitNet gpu */

/* True if the tensor's name is a module and `suffix`; *module gets the module, malloc'ed. */
bool tern_linear_module(const struct tern_tensor *tensor, const char *suffix, char **module);
/* The tensor module + suffix, NULL if absent. */
const struct tern_tensor *tern_linear_sibling(const struct tern_checkpoint *checkpoint, const char *module,
                                              const char *suffix);
/* Fails unless `tensor` is there (`beside` is named if not), has the dtype (NULL: a scale's type) and this shape; cols -1: one
 * dimension. */
enum tern_status tern_linear_expect(const struct tern_tensor *tensor, const struct tern_tensor *beside, const char *suffix,
                                    const char *dtype, int64_t rows, int64_t cols, struct tern_error *err);
/* Two dimensions of at least 1 and less than 2^31, and the dtype. */
enum tern_status tern_linear_expect_matrix(const struct tern_tensor *tensor, const char *dtype, struct tern_error *err);
/* Checks len K, and each entry in [0, groups). */
enum tern_status tern_linear_check_g_idx(const struct tern_linear *layer, struct tern_error *err);
/* True for the types that tern_tensor_scale reads: F16, BF16, F32. */
bool tern_tensor_holds_scales(const struct tern_tensor *tensor);
/* Adds a contradiction that leaves the layer readable. */
void tern_linear_warn(struct tern_linear *layer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What each family with a quantization_config does last: takes the type of the scales, warns of a layer declared as skipped. */
void tern_linear_checked(struct tern_linear *layer, const struct tern_tensor *scales, const struct tern_quant_settings *s);

/* Word or element `index` of a tensor, at any alignment. */
uint32_t tern_tensor_word(const struct tern_tensor *tensor, int64_t index);
float tern_tensor_scale(const struct tern_tensor *tensor, int64_t index); /* F16, BF16, F32: exact */
/* Elements first .. first + count, the same. */
void tern_tensor_scales(const struct tern_tensor *tensor, int64_t first, int64_t count, float *out);

/* Eight codes of `bits` bits (1 to 8), one after the other from bit 0 of `packed`, as the eight bytes of a word in memory order.
 * Three steps that each halve what lies together. */
static inline uint64_t tern_spread8(uint64_t packed, int bits) {
    const uint64_t ones = (1ULL << bits) - 1, twos = (1ULL << 2 * bits) - 1, fours = (1ULL << 4 * bits) - 1;
    packed = (packed | packed << (32 - 4 * bits)) & (fours | fours << 32);
    packed = (packed | packed << (16 - 2 * bits)) & (twos * 0x0001000100010001ULL);
    return (packed | packed << (8 - bits)) & (ones * 0x0101010101010101ULL);
}
/* Stores it, whatever the byte order of the machine. */
static inline void tern_store8(uint8_t *codes, uint64_t word) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    memcpy(codes, &word, sizeof word);
}

/* Codes of 2, 4 or 8 bits, eight from `bits` bytes. */
static inline void tern_unpack_stream(const uint32_t *words, int bits, uint8_t codes[32]) {
    for (int i = 0; i < 4; i++) {
        const int bit = 8 * bits * i;
        uint64_t eight = words[bit / 32] >> bit % 32;
        if (bits == 8)
            eight |= (uint64_t)words[bit / 32 + 1] << 32;
        tern_store8(codes + 8 * i, tern_spread8(eight & (UINT64_MAX >> (64 - 8 * bits)), bits));
    }
}

/* Lanes 10 and 21 lie across words. */
static inline void tern_unpack_stream_3(const uint32_t *words, uint8_t codes[32]) {
    const uint64_t low = words[0] | (uint64_t)words[1] << 32, eight = 0xFFFFFF;
    tern_store8(codes, tern_spread8(low & eight, 3));
    tern_store8(codes + 8, tern_spread8(low >> 24 & eight, 3));
    tern_store8(codes + 16, tern_spread8((low >> 48 | (uint64_t)words[2] << 16) & eight, 3));
    tern_store8(codes + 24, tern_spread8(words[2] >> 8, 3));
}

/* Two bits of each code in the first two words, the third in the last. */
static inline void tern_unpack_planes_3(const uint32_t *words, uint8_t codes[32]) {
    for (int i = 0; i < 4; i++) {
        const uint64_t low = words[i / 2] >> 16 * (i % 2) & 0xFFFF, high = words[2] >> 8 * i & 0xFF;
        tern_store8(codes + 8 * i, tern_spread8(low, 2) | tern_spread8(high, 1) << 2);
    }
}

/* 32 codes of 2, 3, 4 or 8 bits from `bits` words: code j at bits [j*bits, (j+1)*bits) of the little-endian stream; or planar:
 * planes of 2^i bits, low first, code j of a plane of width w at shift w*(j % (32/w)) of its word j/(32/w). */
static inline void tern_unpack32(const uint32_t *words, int bits, bool planar, uint8_t codes[32]) {
    if (bits == 2)
        tern_unpack_stream(words, 2, codes);
    else if (bits == 4)
        tern_unpack_stream(words, 4, codes);
    else if (bits == 8)
        tern_unpack_stream(words, 8, codes);
    else if (planar)
        tern_unpack_planes_3(words, codes);
    else
        tern_unpack_stream_3(words, codes);
}

#endif
