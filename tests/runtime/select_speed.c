/* How long tern_select takes: prints nanoseconds a call for exact, between, near and default answers and fails above the bound.
 * The fastest of many batches, in processor time of this thread: a virtual machine's processor can be shared with others, which doubles
 * that time as well. usage: select_speed [BOUND_NS] (default 50) */
#define TERN_DISPATCH_IMPLEMENTATION
#include "tern_dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCHES 1000
#define CALLS   2000

static double thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* The sum keeps the compiler from leaving calls out. */
static double time_calls(const char *format, int64_t m, int64_t n, int64_t k, int64_t *sum) {
    double fastest = 1e9;
    for (int b = 0; b < BATCHES; b++) {
        double start = thread_ns();
        for (int i = 0; i < CALLS; i++) {
            struct tern_choice c = tern_select(format, "linear-a16", m, n, k);
            *sum += c.grid[0] + c.smem_bytes;
            __asm__ volatile("" : "+r"(m) : : "memory");
        }
        const double ns = (thread_ns() - start) / CALLS;
        fastest = ns < fastest ? ns : fastest;
    }
    return fastest;
}

int main(int argc, char **argv) {
    static const struct {
        int64_t m, n, k;
        enum tern_match match;
    } problems[] = {{1, 4608, 3584, TERN_MATCH_EXACT},    {8192, 3584, 18944, TERN_MATCH_EXACT},
                    {5, 37888, 3584, TERN_MATCH_BETWEEN}, {3000, 3584, 18944, TERN_MATCH_BETWEEN},
                    {16, 8192, 8192, TERN_MATCH_NEAR},    {100, 11008, 4096, TERN_MATCH_NEAR},
                    {1, 8, 32, TERN_MATCH_DEFAULT}};
    double bound = argc > 1 ? strtod(argv[1], NULL) : 50.0;
    int64_t sum = 0;
    int failed = 0, count = 0;
    const struct tern_table *table = tern_tables(&count);
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        for (int f = 0; f < table->family_count; f++) {
            const char *format = table->families[f].format;
            enum tern_match match = tern_select(format, NULL, problems[i].m, problems[i].n, problems[i].k).match;
            double ns = time_calls(format, problems[i].m, problems[i].n, problems[i].k, &sum);
            int ok = ns <= bound && match == problems[i].match;
            printf("%s %.1f ns: %s, %s M=%ld N=%ld K=%ld\n", ok ? "ok" : "not ok", ns, tern_match_name(match), format,
                   (long)problems[i].m, (long)problems[i].n, (long)problems[i].k);
            failed += !ok;
        }
    }
    return failed || sum == 0;
}
