/* Guard bytes around buffers and NaN poison inside them: finds writes outside and elements nobody wrote. */
#ifndef TERN_VERIFY_GUARD_H
#define TERN_VERIFY_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_GUARD_BYTES 4096
#define TERN_POISON_WORD 0xFFFFFFFFu /* NaN as binary16, bfloat16 and binary32 */

/* Fills guard bytes with a pattern that depends on position and seed. */
void tern_guard_fill(uint8_t *bytes, size_t length, uint64_t seed);
/* Compares exactly; on difference returns false and the first differing offset. */
bool tern_guard_check(const uint8_t *bytes, size_t length, uint64_t seed, size_t *offset);
/* Counts binary16 elements that still hold the poison pattern 0xFFFF. */
int64_t tern_guard_count_poison(const uint16_t *y, int64_t count);

#endif
