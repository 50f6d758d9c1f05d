/* What families of layers share: finding and checking the tensors of a layer, codes in 32-bit words, scales as floats. */
#ifndef TERN_FORMATS_LINEAR_PARTS_H
#define TERN_FORMATS_LINEAR_PARTS_H

#include "formats/linear.h"
#include "formats/quant_config.h"

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

/* Word or element `index` of a tensor, at any alignment. */
uint32_t tern_tensor_word(const struct tern_tensor *tensor, int64_t index);
float tern_tensor_scale(const struct tern_tensor *tensor, int64_t index); /* F16, BF16, F32: exact */

/* 32 codes of 2, 3, 4 or 8 bits from `bits` words: code j at bits [j*bits, (j+1)*bits) of the little-endian stream; or planar:
 * planes of 2^i bits, low first, code j of a plane of width w at shift w*(j % (32/w)) of its word j/(32/w). */
void tern_unpack32(const uint32_t *words, int bits, bool planar, uint8_t codes[32]);

#endif
