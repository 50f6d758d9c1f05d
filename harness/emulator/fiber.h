/* Fibers: user-space threads with their own stacks, switched by hand; one carries one CUDA thread.
 * Owns the stacks. Knows nothing of CUDA. Under ASan every switch is announced to the sanitizer. */
#ifndef TERN_EMULATOR_FIBER_H
#define TERN_EMULATOR_FIBER_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

/* A place to switch to: saved registers on a stack. */
struct tern_fiber {
    void *sp;       /* saved stack pointer, or a ucontext_t where there is no assembly for the machine */
    uint8_t *stack; /* lowest usable byte; NULL for the stack of the caller */
    size_t stack_bytes;
    void *fake_stack; /* ASan's */
};

/* Stacks of `count` fibers in one mapping, each above an inaccessible page. */
struct tern_fiber_stacks {
    uint8_t *base;
    size_t count, stride;
};

enum tern_status tern_fiber_stacks_create(struct tern_fiber_stacks *stacks, size_t count, size_t stack_bytes,
                                          struct tern_error *err);
void tern_fiber_stacks_free(struct tern_fiber_stacks *stacks);
/* True if `address` lies in the inaccessible page of a stack: an overflow. */
int tern_fiber_is_overflow(const struct tern_fiber_stacks *stacks, const void *address);

/* Makes fiber `index` ready to run `run()` from its start; run must never return, but switch away for good. */
void tern_fiber_prepare(struct tern_fiber *fiber, const struct tern_fiber_stacks *stacks, size_t index, void (*run)(void));
/* Saves the running context in `from` and resumes `to`. `last`: `from` will never be resumed. */
void tern_fiber_switch(struct tern_fiber *from, struct tern_fiber *to, int last);
/* First thing that a fresh fiber does; `from` is the context that started it. */
void tern_fiber_entered(struct tern_fiber *from);

#endif
