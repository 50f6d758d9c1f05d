/* Random numbers: one stored seed, derived streams by name, the same on every machine. */
#ifndef TERN_CORE_RANDOM_H
#define TERN_CORE_RANDOM_H

#include <stdint.h>

struct tern_random {
    uint64_t state[4]; /* xoshiro256**, Blackman and Vigna 2018 */
    double spare;      /* second normal of the last pair */
    int has_spare;
};

/* Stream of `seed` named `name`: different names give independent streams. */
void tern_random_init(struct tern_random *r, uint64_t seed, const char *name);
uint64_t tern_random_u64(struct tern_random *r);
/* Uniform in [0, bound), bound > 0, without modulo bias. */
uint64_t tern_random_below(struct tern_random *r, uint64_t bound);
double tern_random_unit(struct tern_random *r); /* [0,1) */
double tern_random_normal(struct tern_random *r);

#endif
