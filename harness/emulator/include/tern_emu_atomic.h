/* Atomics: plain memory operations, since one fiber runs at a time. Each yields first, so that spin loops on them make
 * progress and threads interleave at them. */
#ifndef TERN_EMULATOR_ATOMIC_H
#define TERN_EMULATOR_ATOMIC_H

#define TERN_EMU_ATOMIC(name, expression)                                                                                   \
    template <typename T> static inline T name(T *address, T value) {                                                       \
        tern_emu_yield();                                                                                                   \
        T old = *(volatile T *)address;                                                                                     \
        *(volatile T *)address = (T)(expression);                                                                           \
        return old;                                                                                                         \
    }
TERN_EMU_ATOMIC(atomicAdd, old + value)
TERN_EMU_ATOMIC(atomicSub, old - value)
TERN_EMU_ATOMIC(atomicExch, value)
TERN_EMU_ATOMIC(atomicMin, value < old ? value : old)
TERN_EMU_ATOMIC(atomicMax, value > old ? value : old)
TERN_EMU_ATOMIC(atomicAnd, old &value)
TERN_EMU_ATOMIC(atomicOr, old | value)
TERN_EMU_ATOMIC(atomicXor, old ^ value)
static inline unsigned atomicInc(unsigned *address, unsigned limit) {
    tern_emu_yield();
    unsigned old = *(volatile unsigned *)address;
    *(volatile unsigned *)address = old >= limit ? 0u : old + 1u;
    return old;
}
template <typename T> static inline T atomicCAS(T *address, T compare, T value) {
    tern_emu_yield();
    T old = *(volatile T *)address;
    if (old == compare) {
        *(volatile T *)address = value;
    }
    return old;
}
/* Callers mix int literals with unsigned addresses, as CUDA's overloads allow. */
static inline unsigned atomicAdd(unsigned *address, int value) {
    return atomicAdd(address, (unsigned)value);
}
static inline unsigned atomicExch(unsigned *address, int value) {
    return atomicExch(address, (unsigned)value);
}
static inline unsigned atomicCAS(unsigned *address, int compare, int value) {
    return atomicCAS(address, (unsigned)compare, (unsigned)value);
}

#endif
