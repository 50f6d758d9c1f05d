/* Fibers: stacks from one mapping, a switch in a dozen instructions on x86-64 and AArch64, ucontext elsewhere. */
#include "emulator/fiber.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

enum tern_status tern_fiber_stacks_create(struct tern_fiber_stacks *stacks, size_t count, size_t stack_bytes,
                                          struct tern_error *err) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t stride = page + (stack_bytes + page - 1) / page * page;
    uint8_t *base = mmap(NULL, count * stride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        return tern_error_set(err, TERN_MISSING, "no memory for %zu emulated threads of %zu bytes of stack", count,
                              stack_bytes);
    }
    for (size_t i = 0; i < count; i++) {
        (void)mprotect(base + i * stride, page, PROT_NONE); /* a missing fence only weakens a diagnosis */
    }
    *stacks = (struct tern_fiber_stacks){base, count, stride};
    return TERN_OK;
}

void tern_fiber_stacks_free(struct tern_fiber_stacks *stacks) {
    if (stacks->base != NULL) {
        munmap(stacks->base, stacks->count * stacks->stride);
    }
    *stacks = (struct tern_fiber_stacks){0};
}

int tern_fiber_is_overflow(const struct tern_fiber_stacks *stacks, const void *address) {
    size_t offset = (size_t)((uintptr_t)address - (uintptr_t)stacks->base);
    return stacks->base != NULL && offset < stacks->count * stacks->stride &&
           offset % stacks->stride < (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- the switch
 * ---------------------------------------------------------------------------------------------------------------- */
#if defined(__x86_64__)
void tern_fiber_swap(void **save_sp, void *load_sp);
/* Callee-saved registers and the floating-point control words; the return address is on the stack already. */
__asm__(".text\n.p2align 4\n.globl tern_fiber_swap\n.hidden tern_fiber_swap\n.type tern_fiber_swap,@function\n"
        "tern_fiber_swap:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "subq $8, %rsp\nstmxcsr (%rsp)\nfnstcw 4(%rsp)\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "ldmxcsr (%rsp)\nfldcw 4(%rsp)\naddq $8, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size tern_fiber_swap,.-tern_fiber_swap\n");

static void fiber_frame(struct tern_fiber *fiber, void (*run)(void)) {
    uintptr_t top = ((uintptr_t)fiber->stack + fiber->stack_bytes) & ~(uintptr_t)63;
    void **sp = (void **)top;
    *--sp = NULL; /* return address of `run`: none; leaves sp = 8 mod 16 at its entry */
    *--sp = (void *)run;
    for (int i = 0; i < 6; i++) {
        *--sp = NULL;
    }
    uint32_t control[2] = {0x1F80u, 0x037Fu}; /* MXCSR and x87 defaults: round to nearest, exceptions masked */
    sp--;
    memcpy(sp, control, sizeof control);
    fiber->sp = sp;
}

static void fiber_swap(struct tern_fiber *from, struct tern_fiber *to) {
    tern_fiber_swap(&from->sp, to->sp);
}

#elif defined(__aarch64__)
void tern_fiber_swap(void **save_sp, void *load_sp);
__asm__(".text\n.p2align 4\n.globl tern_fiber_swap\n.hidden tern_fiber_swap\n.type tern_fiber_swap,%function\n"
        "tern_fiber_swap:\n"
        "stp x29, x30, [sp, #-160]!\nstp x19, x20, [sp, #16]\nstp x21, x22, [sp, #32]\nstp x23, x24, [sp, #48]\n"
        "stp x25, x26, [sp, #64]\nstp x27, x28, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\n"
        "stp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        "ldp x19, x20, [sp, #16]\nldp x21, x22, [sp, #32]\nldp x23, x24, [sp, #48]\nldp x25, x26, [sp, #64]\n"
        "ldp x27, x28, [sp, #80]\nldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\n"
        "ldp d14, d15, [sp, #144]\nldp x29, x30, [sp], #160\nret\n"
        ".size tern_fiber_swap,.-tern_fiber_swap\n");

static void fiber_frame(struct tern_fiber *fiber, void (*run)(void)) {
    uintptr_t top = ((uintptr_t)fiber->stack + fiber->stack_bytes) & ~(uintptr_t)63;
    void **sp = (void **)(top - 160);
    memset(sp, 0, 160);
    sp[1] = (void *)run; /* x30 */
    fiber->sp = sp;
}

static void fiber_swap(struct tern_fiber *from, struct tern_fiber *to) {
    tern_fiber_swap(&from->sp, to->sp);
}

#else
/* sp holds a ucontext_t of its own, kept for the life of the fiber's owner; slow (two system calls), but portable. */
static ucontext_t *fiber_context(struct tern_fiber *fiber) {
    if (fiber->sp == NULL) {
        fiber->sp = calloc(1, sizeof(ucontext_t));
    }
    return fiber->sp;
}

static void fiber_frame(struct tern_fiber *fiber, void (*run)(void)) {
    ucontext_t *context = fiber_context(fiber);
    getcontext(context);
    context->uc_stack.ss_sp = fiber->stack;
    context->uc_stack.ss_size = fiber->stack_bytes;
    context->uc_link = NULL;
    makecontext(context, run, 0);
}

static void fiber_swap(struct tern_fiber *from, struct tern_fiber *to) {
    swapcontext(fiber_context(from), to->sp);
}
#endif

/* ---- sanitizer
 * ----------------------------------------------------------------------------------------------------------------- */
/* Looked up at run time: the sanitizer may be in the program or only in a kernel's object with the library preloaded. */
struct fiber_annotations {
    void (*start)(void **fake_stack, const void *bottom, size_t bytes);
    void (*finish)(void *fake_stack, const void **bottom, size_t *bytes);
};

static const struct fiber_annotations *fiber_annotations(void) {
    static _Thread_local struct fiber_annotations found; /* a cache of two symbols, never changed once set */
    static _Thread_local int looked;
    if (!looked) {
        *(void **)&found.start = dlsym(RTLD_DEFAULT, "__sanitizer_start_switch_fiber");
        *(void **)&found.finish = dlsym(RTLD_DEFAULT, "__sanitizer_finish_switch_fiber");
        looked = 1;
    }
    return found.start != NULL && found.finish != NULL ? &found : NULL;
}

void tern_fiber_prepare(struct tern_fiber *fiber, const struct tern_fiber_stacks *stacks, size_t index, void (*run)(void)) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    fiber->stack = stacks->base + index * stacks->stride + page;
    fiber->stack_bytes = stacks->stride - page;
    fiber->fake_stack = NULL;
    fiber_frame(fiber, run);
}

void tern_fiber_switch(struct tern_fiber *from, struct tern_fiber *to, int last) {
    const struct fiber_annotations *sanitizer = fiber_annotations();
    if (sanitizer != NULL) {
        sanitizer->start(last ? NULL : &from->fake_stack, to->stack, to->stack_bytes);
    }
    fiber_swap(from, to);
    if (sanitizer != NULL) {
        sanitizer->finish(from->fake_stack, NULL, NULL);
    }
}

void tern_fiber_entered(struct tern_fiber *from) {
    const struct fiber_annotations *sanitizer = fiber_annotations();
    if (sanitizer != NULL) {
        const void *bottom;
        size_t bytes;
        sanitizer->finish(NULL, &bottom, &bytes);
        from->stack = (uint8_t *)bottom;
        from->stack_bytes = bytes;
    }
}
