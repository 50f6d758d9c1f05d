/* Random numbers: xoshiro256** seeded by splitmix64 over (seed, name); integers only until the last step, so streams are
 * the same on every machine. Generators: Blackman and Vigna 2018, public domain reference algorithms. */
#include "core/random.h"

#include <math.h>

static uint64_t random_splitmix(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t random_rotl(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
}

void tern_random_init(struct tern_random *r, uint64_t seed, const char *name) {
    uint64_t fnv = UINT64_C(0xcbf29ce484222325); /* FNV-1a of the name */
    for (const unsigned char *c = (const unsigned char *)name; *c != 0; c++)
        fnv = (fnv ^ *c) * UINT64_C(0x100000001b3);
    uint64_t mixed = seed;
    uint64_t state = random_splitmix(&mixed) ^ fnv;
    for (int i = 0; i < 4; i++)
        r->state[i] = random_splitmix(&state);
    r->spare = 0;
    r->has_spare = 0;
}

uint64_t tern_random_u64(struct tern_random *r) {
    uint64_t *s = r->state;
    uint64_t result = random_rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = random_rotl(s[3], 45);
    return result;
}

uint64_t tern_random_below(struct tern_random *r, uint64_t bound) {
    if (bound == 0)
        return 0;
    uint64_t reject = (0 - bound) % bound; /* 2^64 mod bound: values below it would be counted once too often */
    uint64_t value;
    do
        value = tern_random_u64(r);
    while (value < reject);
    return value % bound;
}

double tern_random_unit(struct tern_random *r) {
    return (double)(tern_random_u64(r) >> 11) * 0x1p-53;
}

/* Marsaglia's polar method; the second value of a pair is kept. */
double tern_random_normal(struct tern_random *r) {
    if (r->has_spare) {
        r->has_spare = 0;
        return r->spare;
    }
    double u, v, s;
    do {
        u = 2 * tern_random_unit(r) - 1;
        v = 2 * tern_random_unit(r) - 1;
        s = u * u + v * v;
    } while (s >= 1 || s == 0);
    double factor = sqrt(-2 * log(s) / s);
    r->spare = v * factor;
    r->has_spare = 1;
    return u * factor;
}
