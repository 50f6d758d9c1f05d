/* Parts of a check problem, shared by check_problem.c (makes it) and check.c (uses it). Not for other modules. */
#ifndef TERN_WORKER_CHECK_INTERNAL_H
#define TERN_WORKER_CHECK_INTERNAL_H

#include "worker/check.h"

/* A device buffer with guard bytes on both sides: [guard | data | guard]. Where the backend is fenced guard is
 * 0 and every access outside is found by the emulator or compute-sanitizer. */
struct check_buffer {
    uint8_t *base; /* device address; NULL when the buffer does not exist (zeros of symmetric formats) */
    int64_t bytes;
    int64_t guard;
    uint64_t seed;
};

enum { CHECK_CODES, CHECK_SCALES, CHECK_ZEROS, CHECK_X, CHECK_BIAS, CHECK_INPUTS };

/* One set of weights and activations, and what y must be. */
struct check_set {
    struct tern_weights weights;
    struct tern_packed packed;
    float *units;              /* [N], of rounded scales; NULL: the weights' own scales are what counts */
    uint16_t *x;               /* [M][K] */
    uint16_t *bias;            /* [N] of the second set; the first has none */
    double *ref, *bound_scale; /* [M][N] */
    struct check_buffer inputs[CHECK_INPUTS];
};

struct tern_check_problem {
    const struct tern_backend *backend;
    void *context;
    struct tern_format format;
    enum tern_activation type; /* of x and y */
    enum tern_arithmetic arithmetic;
    struct tern_check_shape shape;
    int64_t *rows, *cols; /* 0..M-1 and 0..N-1 */
    struct check_set sets[2];
    uint16_t *one_hot; /* [M][K]: row i is 1 at hot[i] and 0 elsewhere */
    int64_t *hot;
    struct check_buffer one_hot_buffer;
    struct check_buffer y, workspace;
    struct check_buffer late_x; /* x of dependent launches: they find it poisoned until they wait */
    uint16_t *got, *first;      /* [M][N] on the host */
};

/* Allocates (unless it is large enough already) and sizes a buffer. */
enum tern_status check_buffer_reserve(struct tern_check_problem *p, struct check_buffer *buffer, int64_t bytes,
                                      uint64_t seed, struct tern_error *err);
void check_buffer_release(struct tern_check_problem *p, struct check_buffer *buffer);
/* Device address of the data; NULL for a buffer that does not exist. */
void *check_buffer_data(const struct check_buffer *buffer);
/* Writes data and guards. data NULL: the poison word all over. */
enum tern_status check_buffer_write(struct tern_check_problem *p, const struct check_buffer *buffer, const void *data,
                                    uint32_t poison, struct tern_error *err);
/* Reads the data back into `data` (may be NULL) and compares the guards; *intact false: `offset` from the start of the data.
 */
enum tern_status check_buffer_read(struct tern_check_problem *p, const struct check_buffer *buffer, void *data, bool *intact,
                                   int64_t *offset, struct tern_error *err);
/* Writes every input again: after a candidate damaged one. */
enum tern_status check_problem_upload(struct tern_check_problem *p, struct tern_error *err);
/* Value of one weight as the arithmetic has it. */
double check_weight(const struct check_set *set, int64_t row, int64_t col);
/* Host copy of input i of a set, and its name. */
const void *check_input_data(const struct check_set *set, int input);
extern const char *const check_input_names[CHECK_INPUTS];

#endif
