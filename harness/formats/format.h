/* Weight formats: how the weights of a linear layer are quantised, independent of file and kernel.
 * W[n][k] = scale[g][n] * (q[n][k] - z[g][n]), g = k / group, q an unsigned code of `bits` bits (docs/formats.md).
 * Ternary is q in {0,1,2} with z = 1, so that every family is the same arithmetic. */
#ifndef TERN_FORMATS_FORMAT_H
#define TERN_FORMATS_FORMAT_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tern_family { TERN_FAMILY_TERNARY, TERN_FAMILY_GPTQ };

#define TERN_GROUP_CHANNEL 0    /* one scale for each row of W */
#define TERN_GROUP_TENSOR  (-1) /* one scale for the whole of W */

struct tern_format {
    char name[40]; /* canonical: ternary-g128, ternary-channel, ternary-tensor, gptq4-g128, gptq4-g128-asym, gptq8-channel */
    enum tern_family family;
    int bits;      /* bits of a packed code: 2, 3, 4, 8 */
    int64_t group; /* weights along K that share a scale (32, 64, 96, ...), or TERN_GROUP_* */
    bool sym;      /* true: zero point is the constant `zero`; false: one zero point per group and row */
    int zero;      /* sym: ternary 1, gptq 2^(bits-1) */
};

const char *tern_family_name(enum tern_family family);

/* Parses a format name. Groups of gptq: any multiple of 32, or "channel". Unknown names get a "did you mean". */
enum tern_status tern_format_parse(const char *name, struct tern_format *format, struct tern_error *err);

/* Checks a shape: N a positive multiple of 8, K a positive multiple of 32, both < 2^31; a group must not exceed K.
 * A group that does not divide K is legal (the last group is short) only if `short_group_ok`; else TERN_USAGE with both
 * numbers. */
enum tern_status tern_format_check_shape(const struct tern_format *format, int64_t n, int64_t k, bool short_group_ok,
                                         struct tern_error *err);

/* Scale groups along K: ceil(K / group), 1 for channel and tensor. */
int64_t tern_format_groups(const struct tern_format *format, int64_t k);
/* k per group as a number: group, or K for channel and tensor. */
int64_t tern_format_group_size(const struct tern_format *format, int64_t k);

/* Every named format the tests and `tune help` list. */
extern const char *const tern_format_examples[];
extern const size_t tern_format_example_count;

#endif
