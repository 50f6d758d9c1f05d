// Emulator bodies of wgmma.cuh. A thread's products are queued at issue and carried out at the wait that covers them: until
// then the accumulators hold NaN, and B is read from shared memory twice, so that a missing wait or a stage given back too
// early shows. Owns a queue a thread; each warp multiplies its own 16 of the 64 rows, as the hardware does.
#ifndef TERN_WGMMA_EMU_CUH
#define TERN_WGMMA_EMU_CUH

#include "emulator/tern_emu.h"
#include "tern/activation.cuh"
#include "tern/e4m3.cuh"
#include <string.h>

#define TERN_EMU_WGMMA_OPS     64   /* products in flight of a thread */
#define TERN_EMU_WGMMA_SUMS    8    /* accumulators they may go to */
#define TERN_EMU_WGMMA_THREADS 1024 /* of a block */
#define TERN_EMU_WGMMA_BLOCKS  8    /* of a cluster */

/* Types of the operands; sums of s8 are s32, all others f32. */
enum tern_emu_wgmma_type { TERN_EMU_WGMMA_F16, TERN_EMU_WGMMA_BF16, TERN_EMU_WGMMA_S8, TERN_EMU_WGMMA_E4M3 };

struct tern_emu_wgmma_op {
    int columns, sum, accumulate;
    enum tern_emu_wgmma_type type;
    unsigned a[4][4]; /* registers of the four lanes that hold this thread's two rows */
    unsigned long long descriptor, checksum;
    long long group;
};

struct tern_emu_wgmma_sum { /* accumulators taken from a thread while products to them are in flight */
    float *home;
    float value[128];
    int pending, count;
};

struct tern_emu_wgmma_thread {
    struct tern_emu_wgmma_op ops[TERN_EMU_WGMMA_OPS];
    struct tern_emu_wgmma_sum sums[TERN_EMU_WGMMA_SUMS];
    int op_count;
    long long group; /* commits so far */
};

static struct tern_emu_wgmma_thread tern_emu_wgmma_threads[TERN_EMU_WGMMA_BLOCKS][TERN_EMU_WGMMA_THREADS];

static inline struct tern_emu_wgmma_thread *tern_emu_wgmma_self() {
    if (threadIdx.x >= TERN_EMU_WGMMA_THREADS || tern_emu_cluster_rank() >= TERN_EMU_WGMMA_BLOCKS)
        tern_emu_fault("wgmma: more threads or blocks than the emulator keeps queues for");
    return &tern_emu_wgmma_threads[tern_emu_cluster_rank()][threadIdx.x];
}

// Empties the thread's queue: at the start of a kernel, since a launch that ended in a fault leaves it as it was.
static inline void tern_emu_wgmma_reset() {
    struct tern_emu_wgmma_thread *self = tern_emu_wgmma_self();
    self->op_count = 0;
    for (int i = 0; i < TERN_EMU_WGMMA_SUMS; i++)
        self->sums[i].pending = 0;
}

// The 32 bytes of a column of B, K-major with the 128-byte swizzle, which moves chunks of 16 bytes: address bits 4..6 are
// exclusive-ored with bits 7..9.
static inline void tern_emu_wgmma_column(unsigned long long descriptor, int column, void *bytes) {
    const size_t start = (size_t)(descriptor & 0x3FFF) << 4, stride = (size_t)(descriptor >> 32 & 0x3FFF) << 4;
    const unsigned char *shared = (const unsigned char *)tern_emu_dynamic_shared();
    for (int chunk = 0; chunk < 32; chunk += 16) {
        const size_t logical = start + (size_t)(column / 8) * stride + (size_t)(column % 8) * 128 + (size_t)chunk;
        const size_t at = logical ^ (logical >> 3 & 0x70);
        if (at + 16 > tern_emu_dynamic_shared_bytes())
            tern_emu_fault("wgmma: descriptor points behind shared memory");
        memcpy((unsigned char *)bytes + chunk, shared + at, 16);
    }
}

static inline unsigned long long tern_emu_wgmma_checksum(unsigned long long descriptor, int columns) {
    unsigned long long sum = 0xCBF29CE484222325ull;
    for (int column = 0; column < columns; column++) {
        unsigned long long word[4];
        tern_emu_wgmma_column(descriptor, column, word);
        for (int i = 0; i < 4; i++)
            sum = (sum ^ word[i]) * 0x100000001B3ull;
    }
    return sum;
}

static inline int tern_emu_wgmma_take(struct tern_emu_wgmma_thread *self, float *d, int count, int poison) {
    int slot = -1;
    for (int i = 0; i < TERN_EMU_WGMMA_SUMS; i++) {
        if (self->sums[i].pending > 0 && self->sums[i].home == d)
            return i;
        if (self->sums[i].pending == 0 && slot < 0)
            slot = i;
    }
    if (slot < 0)
        tern_emu_fault("wgmma: too many accumulators in flight");
    self->sums[slot].home = d;
    self->sums[slot].count = count;
    memcpy(self->sums[slot].value, d, (size_t)count * sizeof *d);
    memset(d, poison, (size_t)count * sizeof *d);
    return slot;
}

// Queues d = a * b (+ d if accumulate): 64 x columns x 16, of bytes x 32; `d` is the memory of integers for s8. Bits 62 and 63 of
// the descriptor must ask for the 128-byte swizzle.
static inline void tern_emu_wgmma_issue(float *d, int columns, const unsigned *a, unsigned long long descriptor,
                                        int accumulate, enum tern_emu_wgmma_type type) {
    struct tern_emu_wgmma_thread *self = tern_emu_wgmma_self();
    unsigned all[32][4];
    tern_emu_exchange(a, 4 * sizeof *a, all);
    if (self->op_count == TERN_EMU_WGMMA_OPS)
        tern_emu_fault("wgmma: too many products in flight");
    if (descriptor >> 62 != 1)
        tern_emu_fault("wgmma: the emulator knows the 128-byte swizzle only");
    struct tern_emu_wgmma_op *op = &self->ops[self->op_count++];
    op->columns = columns;
    op->sum = tern_emu_wgmma_take(self, d, columns / 2, type == TERN_EMU_WGMMA_S8 ? 0x7F : 0xFF);
    op->accumulate = accumulate;
    op->type = type;
    op->descriptor = descriptor;
    op->group = self->group;
    op->checksum = tern_emu_lane() == 0 ? tern_emu_wgmma_checksum(descriptor, columns) : 0;
    memcpy(op->a, all[tern_emu_lane() & ~3], sizeof op->a);
    self->sums[op->sum].pending++;
}

static inline float tern_emu_wgmma_value(unsigned short bits, int bf16) {
    return bf16 ? tern_emu_16_to_float<1>(bits) : tern_emu_16_to_float<0>(bits);
}

// Element e of a row's 32 bytes of A, of the k that four lanes hold.
static inline int tern_emu_wgmma_byte(const struct tern_emu_wgmma_op *op, int row, int k) {
    return (signed char)(op->a[k % 16 / 4][row + 2 * (k / 16)] >> 8 * (k % 4));
}

// The column of B that accumulator i of a row meets.
static inline void tern_emu_wgmma_b(const struct tern_emu_wgmma_op *op, int i, void *bytes) {
    tern_emu_wgmma_column(op->descriptor, 8 * (i / 2) + 2 * (tern_emu_lane() % 4) + i % 2, bytes);
}

static inline void tern_emu_wgmma_integers(struct tern_emu_wgmma_sum *sum, const struct tern_emu_wgmma_op *op) {
    for (int i = 0; i < 2 * (op->columns / 8); i++) {
        signed char b[32];
        tern_emu_wgmma_b(op, i, b);
        for (int row = 0; row < 2; row++) {
            float *d = &sum->value[4 * (i / 2) + 2 * row + i % 2];
            int total = 0;
            if (op->accumulate)
                memcpy(&total, d, sizeof total);
            for (int k = 0; k < 32; k++)
                total = (int)((unsigned)total + (unsigned)(tern_emu_wgmma_byte(op, row, k) * b[k]));
            memcpy(d, &total, sizeof total);
        }
    }
}

// The multiple of 2^step next to `value` in the direction of zero.
static inline double tern_emu_truncated(double value, int step) {
    return __builtin_ldexp(__builtin_trunc(__builtin_ldexp(value, -step)), step);
}

// As an H200 adds (measured, docs/kernels/a8.md): the sum so far and all 32 products are cut off 13 bits below the leading bit
// of the largest of them, and so is what they add up to. A product counts as large as its factors' exponent fields say, which
// for subnormal factors is more than it is.
static inline float tern_emu_wgmma_e4m3_sum(const struct tern_emu_wgmma_op *op, const unsigned char *b, int row, float start) {
    double part[33];
    int largest = -1000;
    for (int k = 0; k < 32; k++) {
        const unsigned a = (unsigned)tern_emu_wgmma_byte(op, row, k) & 0xFF;
        const int exponent_a = a >> 3 & 15 ? (int)(a >> 3 & 15) : 1, exponent_b = b[k] >> 3 & 15 ? b[k] >> 3 & 15 : 1;
        part[k] = (double)tern_emu_e4m3_to_float(a) * (double)tern_emu_e4m3_to_float(b[k]);
        if (part[k] != 0.0 && exponent_a + exponent_b - 14 > largest)
            largest = exponent_a + exponent_b - 14;
    }
    part[32] = (double)start;
    if (start != 0.0f && __builtin_isfinite(start) && __builtin_ilogbf(start) > largest)
        largest = __builtin_ilogbf(start);
    double total = 0.0;
    for (int k = 0; k < 33; k++)
        total += tern_emu_truncated(part[k], largest - 13);
    return (float)(total != 0.0 && __builtin_isfinite(total) ? tern_emu_truncated(total, __builtin_ilogb(total) - 13)
                                                             : total);
}

static inline void tern_emu_wgmma_e4m3(struct tern_emu_wgmma_sum *sum, const struct tern_emu_wgmma_op *op) {
    for (int i = 0; i < 2 * (op->columns / 8); i++) {
        unsigned char b[32];
        tern_emu_wgmma_b(op, i, b);
        for (int row = 0; row < 2; row++) {
            float *d = &sum->value[4 * (i / 2) + 2 * row + i % 2];
            *d = tern_emu_wgmma_e4m3_sum(op, b, row, op->accumulate ? *d : 0.0f);
        }
    }
}

static inline void tern_emu_wgmma_halves(struct tern_emu_wgmma_sum *sum, const struct tern_emu_wgmma_op *op) {
    const int bf16 = op->type == TERN_EMU_WGMMA_BF16;
    double a[2][16];
    for (int row = 0; row < 2; row++)
        for (int k = 0; k < 16; k++)
            a[row][k] = tern_emu_wgmma_value((unsigned short)(op->a[(k & 7) / 2][row + 2 * (k >> 3)] >> 16 * (k & 1)), bf16);
    for (int i = 0; i < 2 * (op->columns / 8); i++) {
        unsigned short bits[16];
        double b[16];
        tern_emu_wgmma_b(op, i, bits);
        for (int k = 0; k < 16; k++)
            b[k] = tern_emu_wgmma_value(bits[k], bf16);
        for (int row = 0; row < 2; row++) {
            float *d = &sum->value[4 * (i / 2) + 2 * row + i % 2];
            double total = op->accumulate ? (double)*d : 0.0;
            for (int k = 0; k < 16; k++)
                total += a[row][k] * b[k];
            *d = (float)total;
        }
    }
}

static inline void tern_emu_wgmma_carry_out(struct tern_emu_wgmma_thread *self, const struct tern_emu_wgmma_op *op) {
    struct tern_emu_wgmma_sum *sum = &self->sums[op->sum];
    if (tern_emu_lane() == 0 && op->checksum != tern_emu_wgmma_checksum(op->descriptor, op->columns))
        tern_emu_fault("wgmma: shared memory of B changed while the product was in flight");
    if (op->type == TERN_EMU_WGMMA_S8)
        tern_emu_wgmma_integers(sum, op);
    else if (op->type == TERN_EMU_WGMMA_E4M3)
        tern_emu_wgmma_e4m3(sum, op);
    else
        tern_emu_wgmma_halves(sum, op);
    if (--sum->pending == 0)
        memcpy(sum->home, sum->value, (size_t)sum->count * sizeof *sum->home);
}

// Carries out all but the newest `pending` committed groups.
static inline void tern_emu_wgmma_wait(int pending) {
    struct tern_emu_wgmma_thread *self = tern_emu_wgmma_self();
    int done = 0;
    for (; done < self->op_count && self->ops[done].group < self->group - pending; done++)
        tern_emu_wgmma_carry_out(self, &self->ops[done]);
    self->op_count -= done;
    memmove(self->ops, self->ops + done, (size_t)self->op_count * sizeof *self->ops);
    __syncwarp(); /* the instruction is one of the whole warp: behind it no lane reads B any more */
}

#endif
