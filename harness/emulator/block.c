/* Scheduler of the emulated machine: runs the fibers of one cluster in turns until all have ended or none can go on. */
#include "emulator/machine.h"

#include "core/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Passes in which threads only yield before the launch is called stuck; a pass of 256 threads takes a few microseconds. */
#define TERN_EMU_IDLE_PASSES 50000

_Thread_local struct tern_emu_machine *tern_emu_running;

void tern_emu_machine_create(struct tern_emu_machine *machine, size_t stack_bytes) {
    *machine = (struct tern_emu_machine){.order = TERN_EMU_FORWARD, .stack_bytes = stack_bytes};
}

/* stacks.count is the capacity of all three arrays. */
static void free_threads(struct tern_emu_machine *machine) {
    for (size_t i = 0; i < machine->stacks.count; i++) {
        free(machine->threads[i].copies);
    }
    free(machine->threads);
    free(machine->turn);
    machine->threads = NULL;
    machine->turn = NULL;
    tern_fiber_stacks_free(&machine->stacks);
}

enum tern_status tern_emu_machine_reserve(struct tern_emu_machine *machine, struct tern_error *err) {
    if (machine->thread_count <= machine->stacks.count) {
        return TERN_OK;
    }
    free_threads(machine);
    enum tern_status status = tern_fiber_stacks_create(&machine->stacks, machine->thread_count, machine->stack_bytes, err);
    if (status == TERN_OK) {
        machine->threads = tern_alloc_zero(machine->thread_count, sizeof *machine->threads);
        machine->turn = tern_alloc_zero(machine->thread_count, sizeof *machine->turn);
    }
    return status;
}

void tern_emu_machine_free(struct tern_emu_machine *machine) {
    free_threads(machine);
    free(machine->bulk);
    *machine = (struct tern_emu_machine){0};
}

void tern_emu_machine_wait(struct tern_emu_machine *machine) {
    struct tern_emu_thread *self = machine->current;
    tern_fiber_switch(&self->fiber, &machine->scheduler, 0);
}

_Noreturn void tern_emu_machine_abandon(struct tern_emu_machine *machine) {
    machine->faulted = true;
    for (;;) { /* the scheduler never resumes a thread of a faulted launch */
        tern_fiber_switch(&machine->current->fiber, &machine->scheduler, 1);
    }
}

_Noreturn void tern_emu_machine_fault(struct tern_emu_machine *machine, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(machine->fault, sizeof machine->fault, format, arguments);
    va_end(arguments);
    tern_emu_machine_abandon(machine);
}

/* Body of every fiber. */
static void thread_main(void) {
    struct tern_emu_machine *machine = tern_emu_running;
    tern_fiber_entered(&machine->scheduler);
    machine->entry(*machine->args);
    struct tern_emu_thread *self = machine->current;
    self->state = TERN_EMU_DONE;
    machine->done++;
    machine->progress++;
    for (;;) {
        tern_fiber_switch(&self->fiber, &machine->scheduler, 1);
    }
}

/* Every thread of the cluster at the entry of the kernel, every barrier empty. Copy queues keep their memory. */
static void prepare_threads(struct tern_emu_machine *machine) {
    for (size_t i = 0; i < machine->thread_count; i++) {
        struct tern_emu_thread *t = &machine->threads[i];
        struct tern_emu_copy *copies = t->copies;
        size_t capacity = t->copy_capacity;
        struct tern_fiber fiber = t->fiber;
        *t = (struct tern_emu_thread){.fiber = fiber, .copies = copies, .copy_capacity = capacity};
        t->state = TERN_EMU_READY;
        t->block = &machine->blocks[i / machine->block_threads];
        t->index = (unsigned)(i % machine->block_threads);
        tern_fiber_prepare(&t->fiber, &machine->stacks, i, thread_main);
    }
    for (int b = 0; b < machine->cluster; b++) {
        struct tern_emu_block *block = &machine->blocks[b];
        block->threads = machine->threads + (size_t)b * machine->block_threads;
        memset(block->barriers, 0, sizeof block->barriers);
    }
    machine->done = 0;
    machine->bulk_count = 0;
    machine->cluster_arrived = 0;
    if (machine->order == TERN_EMU_STARVED) {
        const size_t warps = (machine->block_threads + 31) / 32;
        const size_t block =
            (size_t)tern_random_below(&machine->random, (uint64_t)machine->cluster) * machine->block_threads;
        const size_t first = 32 * (size_t)tern_random_below(&machine->random, warps);
        machine->starved = block + first;
        machine->fed = block + (first + 32 < machine->block_threads ? first + 32 : machine->block_threads);
    }
}

/* The order of the next pass. */
static void choose_turns(struct tern_emu_machine *machine) {
    size_t n = machine->thread_count;
    for (size_t i = 0; i < n; i++) {
        machine->turn[i] = (unsigned)(machine->order == TERN_EMU_REVERSE ? n - 1 - i : i);
    }
    if (machine->order >= TERN_EMU_SHUFFLED) {
        for (size_t i = n; i > 1; i--) {
            size_t j = (size_t)tern_random_below(&machine->random, i);
            unsigned swap = machine->turn[i - 1];
            machine->turn[i - 1] = machine->turn[j];
            machine->turn[j] = swap;
        }
    }
}

/* Gives the processor to one thread until it waits, ends or faults. */
static void resume(struct tern_emu_machine *machine, struct tern_emu_thread *t) {
    struct tern_emu_state *state = machine->state;
    state->thread[0] = t->index;
    memcpy(state->block, t->block->index, sizeof state->block);
    machine->current = t;
    tern_fiber_switch(&machine->scheduler, &t->fiber, 0);
    if (!machine->faulted) { /* a fault's thread stays known until the launch has described it */
        machine->current = NULL;
    }
}

/* Every ready thread runs until it waits; returns how many ran. */
static size_t run_pass(struct tern_emu_machine *machine) {
    size_t ran = 0;
    for (size_t i = 0; i < machine->thread_count && !machine->faulted; i++) {
        struct tern_emu_thread *t = &machine->threads[machine->turn[i]];
        const bool left_out = machine->withheld && machine->turn[i] >= machine->starved && machine->turn[i] < machine->fed;
        if (t->state == TERN_EMU_READY && !left_out) {
            resume(machine, t);
            ran++;
        }
    }
    return ran;
}

/* A pass without progress means that every thread waits or spins: then one bulk copy may arrive, as late as the rules allow,
 * if none is in flight the starved warp has its turn, and if that does not help the launch is stuck. */
bool tern_emu_machine_run_cluster(struct tern_emu_machine *machine) {
    prepare_threads(machine);
    choose_turns(machine);
    machine->withheld = machine->order == TERN_EMU_STARVED;
    for (uint64_t idle = 0; machine->done < machine->thread_count;) {
        uint64_t before = machine->progress;
        size_t ran = run_pass(machine);
        if (machine->faulted) {
            return false;
        }
        if (machine->order >= TERN_EMU_SHUFFLED) {
            choose_turns(machine);
        }
        if (machine->progress != before || machine->done == machine->thread_count) {
            idle = 0;
            machine->withheld = machine->order == TERN_EMU_STARVED;
        } else if (tern_emu_deliver_bulk(machine)) {
            idle = 0;
        } else if (machine->withheld) {
            machine->withheld = false;
        } else if (ran == 0 || ++idle > TERN_EMU_IDLE_PASSES) {
            tern_emu_describe_deadlock(machine);
            machine->faulted = true;
            return false;
        }
    }
    return true;
}
