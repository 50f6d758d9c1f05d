/* The specification of every weight format as one formula an element, in the plainest form: no table, no vector, no word that
 * is kept between two elements. Judges the decoders of harness/formats, which it shares no code with: on the host as the second
 * decode of `tune reconcile`, on the device in unpack.cu. Plain C that NVRTC and the emulator read too. The includer defines
 * TERN_LITERAL, the storage of its functions. Bytes are read one by one: no alignment is assumed. docs/formats.md. */
#ifndef TERN_LITERAL_H
#define TERN_LITERAL_H

enum tern_literal_format {
    TERN_LITERAL_GPTQ,         /* also version 2: zero_offset says which */
    TERN_LITERAL_GPTQ_PLANAR,  /* gptq_p */
    TERN_LITERAL_AWQ,          /* version gemm */
    TERN_LITERAL_PACKED,       /* compressed-tensors: whole codes in a word */
    TERN_LITERAL_PACKED_DENSE, /* compressed-tensors: codes run on across words */
    TERN_LITERAL_TERNARY_I,
    TERN_LITERAL_TERNARY_II,
    TERN_LITERAL_TERNARY_III,
    TERN_LITERAL_BITNET,       /* Hugging Face, the scale multiplies */
    TERN_LITERAL_BITNET_DIVIDE,
    TERN_LITERAL_BITNET_GPU,
    TERN_LITERAL_TQ1_0,
    TERN_LITERAL_TQ2_0,
    TERN_LITERAL_Q2_0
};
enum tern_literal_type { TERN_LITERAL_F16, TERN_LITERAL_BF16, TERN_LITERAL_F32 };

/* One layer as its tensors lie in the file. */
struct tern_literal {
    const unsigned char *codes, *zeros, *scales, *g_idx; /* zeros, g_idx: null where there are none */
    long long n, k, group, groups;
    long long code_words, zero_words; /* words in a row of the tensor of codes, of zeros, as it is stored */
    int format, scale_type;
    int bits, zero_offset; /* zero_offset: GPTQ */
    int fused;             /* BITNET_GPU: parts of N with a scale each, 1 to 3 */
};

/* Bit `bit` of word `word` of 32 bits. */
TERN_LITERAL int tern_literal_bit(const unsigned char *words, long long word, int bit) {
    return words[4 * word + bit / 8] >> (bit % 8) & 1;
}

/* Value `index` of a run of values of `bits` bits, one after the other from bit 0; word w of the run lies at first + w * stride. */
TERN_LITERAL int tern_literal_stream(const unsigned char *words, long long first, long long stride, int bits, long long index) {
    int value = 0;
    for (int b = 0; b < bits; b++) {
        long long at = index * bits + b;
        value |= tern_literal_bit(words, first + at / 32 * stride, (int)(at % 32)) << b;
    }
    return value;
}

/* The same with the bits of 32 values in planes, low plane first: 2, 4 and 8 bits are one plane, 3 bits are 2 and 1. */
TERN_LITERAL int tern_literal_planes(const unsigned char *words, long long first, long long stride, int bits, long long index) {
    long long block = index / 32 * bits, j = index % 32;
    int low = bits == 3 ? 2 : bits, value = 0;
    for (int b = 0; b < low; b++)
        value |= tern_literal_bit(words, first + (block + j * low / 32) * stride, (int)(j * low % 32) + b) << b;
    if (bits == 3)
        value |= tern_literal_bit(words, first + (block + 2) * stride, (int)j) << 2;
    return value;
}

/* The same with floor(32 / bits) whole values in a word. */
TERN_LITERAL int tern_literal_whole(const unsigned char *words, long long first, long long stride, int bits, long long index) {
    int in_word = 32 / bits, value = 0;
    for (int b = 0; b < bits; b++)
        value |= tern_literal_bit(words, first + index / in_word * stride, (int)(index % in_word) * bits + b) << b;
    return value;
}

/* Column n of row `row` of AWQ words: nibble i of a word is column 0 2 4 6 1 3 5 7 [i]. */
TERN_LITERAL int tern_literal_awq(const unsigned char *words, long long row, long long row_words, long long n) {
    int column = (int)(n % 8), nibble = column % 2 ? 4 + column / 2 : column / 2;
    return words[4 * (row * row_words + n / 8) + nibble / 2] >> (nibble % 2 * 4) & 15;
}

/* Digit `digit` (0 first) of the five base-3 digits that a byte holds as a fraction of 256. */
TERN_LITERAL int tern_literal_trit(int byte, int digit) {
    int number = byte * 243 / 256;
    for (int i = digit; i < 4; i++)
        number /= 3;
    return number % 3;
}

TERN_LITERAL int tern_literal_tq1_0(const unsigned char *block, int e) {
    if (e < 160)
        return tern_literal_trit(block[e % 32], e / 32);
    if (e < 240)
        return tern_literal_trit(block[32 + (e - 160) % 16], (e - 160) / 16);
    return tern_literal_trit(block[48 + (e - 240) % 4], (e - 240) / 4);
}

/* Project layouts (i) and (ii): 00 is weight 0, 01 is +1, 10 is -1; 11 is reserved, weight 0, in (i), and illegal in (ii). The codes of
 * fields 3 2 1 0 are written as the digits of a number in base 4: 1 0 2 1 and 3 0 2 1. */
TERN_LITERAL int tern_literal_field(int field, int reserved) {
    return (reserved ? 0x49 : 0xC9) >> (2 * field) & 3;
}

TERN_LITERAL int tern_literal_bitnet_gpu(const struct tern_literal *l, long long n, long long k) {
    long long tile = n / 16 * (l->k / 32) + k / 32;
    int t = (int)(n % 16 / 8 * 16 + k % 32 / 16 * 8 + n % 8), e = (int)(k % 16);
    int field = l->codes[tile * 128 + 4 * t + e % 4] >> (2 * (e / 4)) & 3;
    return field == 0 ? 255 : field - 1; /* 0 would be weight -2 */
}

/* Code q of weight (n, k). */
TERN_LITERAL int tern_literal_code(const struct tern_literal *l, long long n, long long k) {
    const unsigned char *codes = l->codes;
    long long at = n * l->k + k, rows = l->n / 4;
    switch (l->format) {
    case TERN_LITERAL_GPTQ:
        return tern_literal_stream(codes, n, l->n, l->bits, k);
    case TERN_LITERAL_GPTQ_PLANAR:
        return tern_literal_planes(codes, n, l->n, l->bits, k);
    case TERN_LITERAL_AWQ:
        return tern_literal_awq(codes, k, l->n / 8, n);
    case TERN_LITERAL_PACKED:
        return tern_literal_whole(codes, n * l->code_words, 1, l->bits, k);
    case TERN_LITERAL_PACKED_DENSE:
        return tern_literal_stream(codes, n * l->code_words, 1, l->bits, k);
    case TERN_LITERAL_TERNARY_I:
    case TERN_LITERAL_TERNARY_II:
        return tern_literal_field(codes[at / 4] >> (2 * (k % 4)) & 3, l->format == TERN_LITERAL_TERNARY_I);
    case TERN_LITERAL_TERNARY_III:
        return (codes[at] + 1) % 256;
    case TERN_LITERAL_BITNET:
    case TERN_LITERAL_BITNET_DIVIDE:
        return codes[n % rows * l->k + k] >> (2 * (n / rows)) & 3;
    case TERN_LITERAL_BITNET_GPU:
        return tern_literal_bitnet_gpu(l, n, k);
    case TERN_LITERAL_TQ1_0:
        return tern_literal_tq1_0(codes + at / 256 * 54, (int)(at % 256));
    case TERN_LITERAL_TQ2_0:
        return codes[at / 256 * 66 + 32 * (at % 256 / 128) + at % 32] >> (2 * (at % 128 / 32)) & 3;
    default: /* Q2_0 */
        return codes[at / 64 * 18 + 2 + at % 64 / 4] >> (2 * (at % 4)) & 3;
    }
}

/* Zero point of row n in group g. Ternary formats have 1, compressed-tensors without zero points the middle. */
TERN_LITERAL int tern_literal_zero(const struct tern_literal *l, long long n, long long g) {
    int stored, codes = 1 << l->bits;
    switch (l->format) {
    case TERN_LITERAL_GPTQ:
        stored = tern_literal_stream(l->zeros, g * l->zero_words, 1, l->bits, n);
        return (stored + l->zero_offset) % codes;
    case TERN_LITERAL_GPTQ_PLANAR:
        return tern_literal_planes(l->zeros, g * l->zero_words, 1, l->bits, n);
    case TERN_LITERAL_AWQ:
        return tern_literal_awq(l->zeros, g, l->n / 8, n);
    case TERN_LITERAL_PACKED:
        return l->zeros ? tern_literal_whole(l->zeros, g, l->groups, l->bits, n) : codes / 2;
    case TERN_LITERAL_PACKED_DENSE:
        return l->zeros ? tern_literal_stream(l->zeros, g, l->groups, l->bits, n) : codes / 2;
    default:
        return 1;
    }
}

/* Group of column k. */
TERN_LITERAL long long tern_literal_group(const struct tern_literal *l, long long k) {
    const unsigned char *p;
    if (!l->g_idx)
        return k / l->group;
    p = l->g_idx + 4 * k;
    return (long long)((unsigned)p[0] | (unsigned)p[1] << 8 | (unsigned)p[2] << 16 | (unsigned)p[3] << 24);
}

/* Bits of the binary32 that is the value of a binary16: sign, exponent - 15 + 127, fraction; subnormals are fraction * 2^-24. */
TERN_LITERAL unsigned tern_literal_widen(unsigned half) {
    unsigned sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 31)
        return sign | 0x7F800000u | fraction << 13;
    if (exponent == 0 && fraction == 0)
        return sign;
    if (exponent > 0)
        return sign | (exponent + 112) << 23 | fraction << 13;
    exponent = 113;
    while (!(fraction & 1024)) {
        fraction <<= 1;
        exponent--;
    }
    return sign | exponent << 23 | (fraction & 1023) << 13;
}

/* Bits of scale `index`, widened to binary32. */
TERN_LITERAL unsigned tern_literal_read_scale(const unsigned char *scales, int type, long long index) {
    const unsigned char *p = scales + (type == TERN_LITERAL_F32 ? 4 : 2) * index;
    unsigned low = (unsigned)p[0] | (unsigned)p[1] << 8;
    if (type == TERN_LITERAL_F32)
        return low | (unsigned)p[2] << 16 | (unsigned)p[3] << 24;
    return type == TERN_LITERAL_BF16 ? low << 16 : tern_literal_widen(low);
}

/* Bits of the float nearest to 1 / scale. */
TERN_LITERAL unsigned tern_literal_reciprocal(unsigned scale) {
    union {
        unsigned bits;
        float value;
    } x;
    x.bits = scale;
    x.value = (float)(1.0 / (double)x.value);
    return x.bits;
}

/* Which scale of a fused layer row n has: wqkv has K rows of q and equal rests, w13 two halves. */
TERN_LITERAL int tern_literal_part(const struct tern_literal *l, long long n) {
    if (l->fused == 3)
        return n < l->k ? 0 : n < l->k + (l->n - l->k) / 2 ? 1 : 2;
    return l->fused == 2 && n >= l->n / 2;
}

/* Scale of row n in group g, as the bits of a binary32. */
TERN_LITERAL unsigned tern_literal_scale(const struct tern_literal *l, long long n, long long g) {
    switch (l->format) {
    case TERN_LITERAL_GPTQ:
    case TERN_LITERAL_GPTQ_PLANAR:
    case TERN_LITERAL_AWQ:
        return tern_literal_read_scale(l->scales, l->scale_type, g * l->n + n);
    case TERN_LITERAL_BITNET:
        return tern_literal_read_scale(l->scales, l->scale_type, 0);
    case TERN_LITERAL_BITNET_DIVIDE:
        return tern_literal_reciprocal(tern_literal_read_scale(l->scales, l->scale_type, 0));
    case TERN_LITERAL_BITNET_GPU:
        return tern_literal_read_scale(l->scales, l->scale_type, tern_literal_part(l, n));
    case TERN_LITERAL_TQ1_0:
        return tern_literal_read_scale(l->codes + (n * l->groups + g) * 54 + 52, TERN_LITERAL_F16, 0);
    case TERN_LITERAL_TQ2_0:
        return tern_literal_read_scale(l->codes + (n * l->groups + g) * 66 + 64, TERN_LITERAL_F16, 0);
    case TERN_LITERAL_Q2_0:
        return tern_literal_read_scale(l->codes + (n * l->groups + g) * 18, TERN_LITERAL_F16, 0);
    default: /* by row and group */
        return tern_literal_read_scale(l->scales, l->scale_type, n * l->groups + g);
    }
}

#endif
