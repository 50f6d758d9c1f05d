/* Decoders of packed ternary weights (ternary_codes.h says where each bit lies). Pure functions of bytes. */
#include "formats/ternary_codes.h"

#include "core/half.h"

#include <string.h>

static float half_at(const uint8_t *bytes) {
    return tern_half_to_float((uint16_t)(bytes[0] | bytes[1] << 8));
}

// ---- llama.cpp blocks -----------------------------------------------------------------------------------------------------

enum { TQ1_BYTES = 54, TQ1_QS = 48, TQ1_QH = 4, TQ2_BYTES = 66, TQ2_QS = 64, Q2_BYTES = 18, Q2_QS = 16 };

/* One digit of `width` bytes: the byte times 3^digit, modulo 256, is the fraction whose leading ternary digit is the code. */
static inline void tq1_digit(const uint8_t *restrict bytes, int width, uint8_t power, uint8_t *restrict codes) {
    for (int i = 0; i < width; i++) {
        uint8_t fraction = (uint8_t)(bytes[i] * power);
        codes[i] = (uint8_t)((uint16_t)(fraction * 3) >> 8);
    }
}

void tern_codes_tq1_0(const uint8_t *restrict packed, int64_t blocks, uint8_t *restrict codes, float *restrict scales) {
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    for (int64_t b = 0; b < blocks; b++, packed += TQ1_BYTES) {
        for (int digit = 0; digit < 5; digit++, codes += 32)
            tq1_digit(packed, 32, powers[digit], codes);
        for (int digit = 0; digit < 5; digit++, codes += 16)
            tq1_digit(packed + 32, 16, powers[digit], codes);
        for (int digit = 0; digit < 4; digit++, codes += 4)
            tq1_digit(packed + TQ1_QS, TQ1_QH, powers[digit], codes);
        scales[b] = half_at(packed + TQ1_QS + TQ1_QH);
    }
}

/* The writer stores ceil(q * 256 / 243) of the five digits' number q; in qh, of four digits, q is a multiple of 3. */
static inline int tq1_odd(unsigned byte, unsigned multiple) {
    unsigned q = byte * 243 >> 8;
    return (q * 256 + 242) / 243 != byte || q % multiple != 0;
}

int64_t tern_codes_tq1_0_odd_bytes(const uint8_t *packed, int64_t blocks) {
    int64_t odd = 0;
    for (int64_t b = 0; b < blocks; b++, packed += TQ1_BYTES) {
        for (int i = 0; i < TQ1_QS; i++)
            odd += tq1_odd(packed[i], 1);
        for (int i = 0; i < TQ1_QH; i++)
            odd += tq1_odd(packed[TQ1_QS + i], 3);
    }
    return odd;
}

TERN_VECTOR void tern_codes_tq2_0(const uint8_t *restrict packed, int64_t blocks, uint8_t *restrict codes,
                                  float *restrict scales) {
    for (int64_t b = 0; b < blocks; b++, packed += TQ2_BYTES) {
        for (int half = 0; half < TQ2_QS; half += 32)
            for (int shift = 0; shift < 8; shift += 2, codes += 32)
                for (int i = 0; i < 32; i++)
                    codes[i] = packed[half + i] >> shift & 3;
        scales[b] = half_at(packed + TQ2_QS);
    }
}

// ---- four neighbours a byte -----------------------------------------------------------------------------------------------

/* The four fields of a byte, lowest first, as the four bytes of a word in memory order. */
static inline uint32_t spread(uint8_t byte) {
    uint32_t x = byte;
    x = (x | x << 12) & 0x000F000F;
    return (x | x << 6) & 0x03030303;
}

/* Words of files are little-endian, and so are code bytes in memory order. */
static inline uint32_t little_endian(uint32_t word) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

static inline void store_word(uint8_t *codes, uint32_t word) {
    word = little_endian(word);
    memcpy(codes, &word, 4);
}

void tern_codes_q2_0(const uint8_t *restrict packed, int64_t blocks, uint8_t *restrict codes, float *restrict scales) {
    for (int64_t b = 0; b < blocks; b++, packed += Q2_BYTES, codes += TERN_Q2_0_WEIGHTS) {
        scales[b] = half_at(packed);
        for (int i = 0; i < Q2_QS; i++)
            store_word(codes + 4 * i, spread(packed[2 + i]));
    }
}

/* Per field with low bit a and high bit b the weight is a - b, so q = 1 + a - b; both bits give 1, and 3 with 2 more. */
TERN_VECTOR void tern_codes_fields(const uint8_t *restrict packed, int64_t bytes, int reserved, uint8_t *restrict codes) {
    const uint32_t ones = 0x01010101, more = reserved ? 0 : 2;
    for (int64_t i = 0; i < bytes; i++) {
        uint32_t fields = spread(packed[i]), low = fields & ones, high = fields >> 1 & ones;
        store_word(codes + 4 * i, ones + low - high + more * (low & high));
    }
}

TERN_VECTOR int64_t tern_codes_count_3(const uint8_t *packed, int64_t bytes) {
    int64_t count = 0;
    for (int64_t i = 0; i < bytes; i++) {
        uint8_t both = packed[i] & packed[i] >> 1 & 0x55;
        both = (uint8_t)((both & 0x11) + (both >> 2 & 0x11));
        count += (both & 15) + (both >> 4);
    }
    return count;
}

// ---- counting -------------------------------------------------------------------------------------------------------------

#define LANES 64

/* How many of at most 255 * LANES codes are `value`: one byte counts for each lane, which registers hold many of. */
static inline int64_t count_value(const uint8_t *codes, int64_t count, uint8_t value) {
    uint8_t lanes[LANES] = {0};
    int64_t sum = 0, i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] += codes[i + lane] == value;
    for (; i < count; i++)
        sum += codes[i] == value;
    for (int lane = 0; lane < LANES; lane++)
        sum += lanes[lane];
    return sum;
}

TERN_VECTOR int64_t tern_codes_count(const uint8_t *codes, int64_t count, int64_t counts[3]) {
    const int64_t block = 255 * LANES;
    int64_t more = count;
    for (int64_t begin = 0; begin < count; begin += block)
        for (uint8_t q = 0; q < 3; q++) {
            int64_t found = count_value(codes + begin, count - begin < block ? count - begin : block, q);
            counts[q] += found;
            more -= found;
        }
    return more;
}

/* Eight bits have too many values for a pass each: four tables, so that equal neighbours do not wait for each other. */
static void count_bytes(const uint8_t *codes, int64_t count, int64_t counts[256]) {
    uint32_t tables[4][256] = {{0}};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int t = 0; t < 4; t++)
            tables[t][codes[i + t]]++;
    for (; i < count; i++)
        tables[0][codes[i]]++;
    for (int q = 0; q < 256; q++)
        counts[q] += (int64_t)tables[0][q] + tables[1][q] + tables[2][q] + tables[3][q];
}

TERN_VECTOR void tern_codes_histogram(const uint8_t *codes, int64_t count, int bits, int64_t counts[256]) {
    const int64_t block = bits <= 4 ? 255 * LANES : (int64_t)1 << 30;
    for (int64_t begin = 0; begin < count; begin += block) {
        const int64_t length = count - begin < block ? count - begin : block;
        int64_t last = length;
        for (int q = 0; bits <= 4 && q < (1 << bits) - 1; q++) {
            const int64_t found = count_value(codes + begin, length, (uint8_t)q);
            counts[q] += found;
            last -= found;
        }
        if (bits <= 4)
            counts[(1 << bits) - 1] += last;
        else
            count_bytes(codes + begin, length, counts);
    }
}

// ---- others ---------------------------------------------------------------------------------------------------------------

TERN_VECTOR void tern_codes_int8(const uint8_t *restrict packed, int64_t count, uint8_t *restrict codes) {
    for (int64_t i = 0; i < count; i++)
        codes[i] = (uint8_t)(packed[i] + 1);
}

TERN_VECTOR void tern_codes_bitnet(const uint8_t *restrict packed, int64_t k, int field, uint8_t *restrict codes) {
    const int shift = 2 * field;
    for (int64_t i = 0; i < k; i++)
        codes[i] = packed[i] >> shift & 3;
}

/* Sixteen weights of a word: weight 4 j + i is byte i, bits 2 j. Subtracts 1 from each byte without a borrow between them. */
static inline void gpu_word(const uint8_t *restrict packed, uint8_t *restrict codes) {
    const uint32_t guard = 0x80808080;
    uint32_t word;
    memcpy(&word, packed, 4);
    word = little_endian(word);
    for (int j = 0; j < 4; j++)
        store_word(codes + 4 * j, (((word >> 2 * j & 0x03030303) | guard) - 0x01010101) ^ guard);
}

/* A row has two words in each tile, 32 bytes apart. */
void tern_codes_bitnet_gpu(const uint8_t *restrict packed, int64_t k, int64_t n, uint8_t *restrict codes) {
    packed += n / 16 * (k / 32) * 128 + n % 16 / 8 * 64 + n % 8 * 4;
    for (int64_t tile = 0; tile < k / 32; tile++, packed += 128, codes += 32) {
        gpu_word(packed, codes);
        gpu_word(packed + 32, codes + 16);
    }
}
