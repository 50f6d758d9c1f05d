/* Content hashes: XXH3-128 as 32 hex digits. Identity of builds, cubins and templates rests on this. */
#ifndef TERN_CORE_HASH_H
#define TERN_CORE_HASH_H

#include <stddef.h>

#define TERN_HASH_CHARS 33 /* 32 hex digits and NUL */

void tern_hash_bytes(const void *data, size_t length, char out[TERN_HASH_CHARS]);

/* Incremental hash over several parts; each part is length-prefixed, so ("ab","c") differs from ("a","bc"). */
struct tern_hash_state;
struct tern_hash_state *tern_hash_new(void);
void tern_hash_add(struct tern_hash_state *state, const void *data, size_t length);
void tern_hash_add_text(struct tern_hash_state *state, const char *text);
void tern_hash_end(struct tern_hash_state *state, char out[TERN_HASH_CHARS]); /* frees the state */

#endif
