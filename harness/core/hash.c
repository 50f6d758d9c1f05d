/* Content hashes: XXH3-128 in its canonical (big-endian) form as hex, so that hashes are the same on every machine. */
#include "core/hash.h"

#include "core/str.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct tern_hash_state {
    XXH3_state_t *xxh; /* owned; the library aligns it */
};

static void hash_hex(XXH128_hash_t hash, char out[TERN_HASH_CHARS]) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    for (size_t i = 0; i < sizeof(canonical.digest); i++)
        snprintf(out + 2 * i, 3, "%02x", canonical.digest[i]);
}

void tern_hash_bytes(const void *data, size_t length, char out[TERN_HASH_CHARS]) {
    hash_hex(XXH3_128bits(data, length), out);
}

struct tern_hash_state *tern_hash_new(void) {
    struct tern_hash_state *state = tern_alloc(sizeof(*state));
    state->xxh = XXH3_createState();
    if (state->xxh == NULL)
        abort(); /* out of memory, as tern_alloc has it */
    XXH3_128bits_reset(state->xxh);
    return state;
}

void tern_hash_add(struct tern_hash_state *state, const void *data, size_t length) {
    unsigned char prefix[8]; /* little endian on every machine */
    for (int i = 0; i < 8; i++)
        prefix[i] = (unsigned char)((uint64_t)length >> (8 * i));
    XXH3_128bits_update(state->xxh, prefix, sizeof(prefix));
    if (length > 0)
        XXH3_128bits_update(state->xxh, data, length);
}

void tern_hash_add_text(struct tern_hash_state *state, const char *text) {
    tern_hash_add(state, text, strlen(text));
}

void tern_hash_end(struct tern_hash_state *state, char out[TERN_HASH_CHARS]) {
    hash_hex(XXH3_128bits_digest(state->xxh), out);
    XXH3_freeState(state->xxh);
    free(state);
}
