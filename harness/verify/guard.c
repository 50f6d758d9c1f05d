/* Guard bytes around buffers and NaN poison inside them. Pure functions of bytes; copies to and from devices are not here.
 */
#include "verify/guard.h"

/* Byte `i` of the pattern: a hash of the seed and the 8-byte word it lies in, so that neither a shifted copy of the guard
 * nor a constant fill passes. */
static uint64_t guard_word(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void tern_guard_fill(uint8_t *bytes, size_t length, uint64_t seed) {
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(guard_word(seed, i / 8) >> (8 * (i % 8)));
}

bool tern_guard_check(const uint8_t *bytes, size_t length, uint64_t seed, size_t *offset) {
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != (uint8_t)(guard_word(seed, i / 8) >> (8 * (i % 8)))) {
            if (offset)
                *offset = i;
            return false;
        }
    }
    return true;
}

int64_t tern_guard_count_poison(const uint16_t *y, int64_t count) {
    int64_t poisoned = 0;
    for (int64_t i = 0; i < count; i++)
        poisoned += y[i] == (uint16_t)TERN_POISON_WORD;
    return poisoned;
}
