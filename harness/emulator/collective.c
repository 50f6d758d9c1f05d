/* Barriers and warp collectives of the emulated machine, and what can be said when threads wait for ever. */
#include "emulator/machine.h"

#include "core/str.h"

#include <stdio.h>
#include <string.h>

static bool same_site(const struct tern_emu_thread *a, const struct tern_emu_thread *b) {
    return a->line == b->line && (a->file == b->file || strcmp(a->file, b->file) == 0);
}

/* The running thread stops at a site; its state decides what can release it. */
static void arrive(struct tern_emu_machine *machine, enum tern_emu_thread_state state, const char *file, int line) {
    struct tern_emu_thread *self = machine->current;
    self->state = state;
    self->file = file;
    self->line = line;
    machine->progress++;
}

/* Lanes of one warp must stand at the same call: different calls mean that the warp diverged around a barrier. */
static void check_sites(struct tern_emu_machine *machine, const struct tern_emu_block *block, int id) {
    for (size_t i = 0; i < machine->block_threads; i++) {
        const struct tern_emu_thread *t = &block->threads[i], *first = &block->threads[i & ~(size_t)31];
        bool both = t->state == TERN_EMU_AT_BARRIER && first->state == TERN_EMU_AT_BARRIER && t->barrier == id &&
                    first->barrier == id;
        if (both && !same_site(t, first)) {
            tern_emu_machine_fault(machine,
                                   "divergent barrier in block %u,%u,%u: thread %u waits at %s:%d, thread %u at %s:%d",
                                   block->index[0], block->index[1], block->index[2], first->index, first->file, first->line,
                                   t->index, t->file, t->line);
        }
    }
}

/* Everyone who waits at barrier `id` may run again and learns the sum of the predicates. Runs on the last arriver's fiber,
 * which then waits for its next turn like the others: no thread gains from coming last. */
static void release_barrier(struct tern_emu_machine *machine, struct tern_emu_block *block, int id) {
    check_sites(machine, block, id);
    for (size_t i = 0; i < machine->block_threads; i++) {
        struct tern_emu_thread *t = &block->threads[i];
        if (t->state == TERN_EMU_AT_BARRIER && t->barrier == id) {
            t->state = TERN_EMU_READY;
            t->predicate_sum = block->barriers[id].predicates;
        }
    }
    block->barriers[id].arrived = block->barriers[id].predicates = 0;
}

int tern_emu_block_sync(int predicate, const char *file, int line) {
    struct tern_emu_machine *machine = tern_emu_running;
    struct tern_emu_thread *self = machine->current;
    arrive(machine, TERN_EMU_AT_BARRIER, file, line);
    self->barrier = 0;
    self->block->barriers[0].predicates += predicate;
    if (++self->block->barriers[0].arrived == (int)machine->block_threads) {
        release_barrier(machine, self->block, 0);
    }
    tern_emu_machine_wait(machine);
    return self->predicate_sum;
}

/* bar.sync (wait) and bar.arrive: `threads` counts both kinds of arrival, as in the PTX manual. */
void tern_emu_named_sync(int id, int threads, int wait, const char *file, int line) {
    struct tern_emu_machine *machine = tern_emu_running;
    struct tern_emu_thread *self = machine->current;
    if (id < 0 || id >= TERN_EMU_BARRIERS || threads <= 0 || threads % 32 != 0 || threads > (int)machine->block_threads) {
        tern_emu_machine_fault(machine, "named barrier %d for %d threads in a block of %zu", id, threads,
                               machine->block_threads);
    }
    machine->progress++;
    if (wait) {
        arrive(machine, TERN_EMU_AT_BARRIER, file, line);
        self->barrier = id;
    }
    int arrived = ++self->block->barriers[id].arrived;
    if (arrived > threads) {
        tern_emu_machine_fault(machine, "named barrier %d: %d arrivals where %d were expected", id, arrived, threads);
    }
    if (arrived == threads) {
        release_barrier(machine, self->block, id);
    }
    if (wait) {
        tern_emu_machine_wait(machine);
    }
}

/* The last thread of the cluster has arrived: those that wait may go on, others will not have to. */
static void release_cluster(struct tern_emu_machine *machine) {
    machine->cluster_arrived = 0;
    for (size_t i = 0; i < machine->thread_count; i++) {
        struct tern_emu_thread *t = &machine->threads[i];
        t->cluster = TERN_EMU_CLUSTER_PASSED;
        t->state = t->state == TERN_EMU_AT_CLUSTER ? TERN_EMU_READY : t->state;
    }
}

void tern_emu_cluster_barrier_arrive(void) {
    struct tern_emu_machine *machine = tern_emu_running;
    if (machine->current->cluster != TERN_EMU_CLUSTER_NONE) {
        tern_emu_machine_fault(machine, "barrier.cluster: a thread arrives again before it has waited");
    }
    machine->current->cluster = TERN_EMU_CLUSTER_ARRIVED;
    machine->progress++;
    if (++machine->cluster_arrived == (int)machine->thread_count) {
        release_cluster(machine);
    }
}

void tern_emu_cluster_barrier_wait(const char *file, int line) {
    struct tern_emu_machine *machine = tern_emu_running;
    struct tern_emu_thread *self = machine->current;
    if (self->cluster == TERN_EMU_CLUSTER_NONE) {
        tern_emu_machine_fault(machine, "barrier.cluster: a thread waits that has not arrived");
    }
    if (self->cluster == TERN_EMU_CLUSTER_ARRIVED) {
        arrive(machine, TERN_EMU_AT_CLUSTER, file, line);
    }
    tern_emu_machine_wait(machine); /* even if all have arrived: no thread gains from coming last */
    self->cluster = TERN_EMU_CLUSTER_NONE;
}

/* ---- warps
 * --------------------------------------------------------------------------------------------------------------------- */
/* Lanes that exist: the last warp of a block may be short. */
static unsigned warp_lanes(const struct tern_emu_machine *machine, const struct tern_emu_thread *t) {
    size_t left = machine->block_threads - (t->index & ~31u);
    return left < 32 ? (unsigned)left : 32u;
}

uint32_t tern_emu_active_mask(void) {
    struct tern_emu_machine *machine = tern_emu_running;
    struct tern_emu_thread *warp = &machine->current->block->threads[machine->current->index & ~31u];
    uint32_t mask = 0;
    for (unsigned lane = 0; lane < warp_lanes(machine, machine->current); lane++) {
        mask |= warp[lane].state != TERN_EMU_DONE ? 1u << lane : 0u;
    }
    return mask;
}

/* All lanes of the mask have come: gather their values once, hand them to each. */
static void finish_collective(struct tern_emu_thread *warp, uint32_t mask, size_t bytes) {
    uint8_t gathered[32 * TERN_EMU_EXCHANGE_BYTES];
    for (unsigned lane = 0; lane < 32 && bytes != 0; lane++) {
        if (mask >> lane & 1u) {
            memcpy(gathered + lane * bytes, warp[lane].value, bytes);
        } else {
            memset(gathered + lane * bytes, 0, bytes);
        }
    }
    for (unsigned lane = 0; lane < 32; lane++) {
        if (mask >> lane & 1u) {
            if (bytes != 0) {
                memcpy(warp[lane].all, gathered, 32 * bytes);
            }
            warp[lane].state = TERN_EMU_READY;
        }
    }
}

/* True if every lane of the mask waits in this collective; a lane at another call with an overlapping mask is a fault. */
static bool collective_complete(struct tern_emu_machine *machine, struct tern_emu_thread *warp,
                                const struct tern_emu_thread *self) {
    for (unsigned lane = 0; lane < 32; lane++) {
        const struct tern_emu_thread *t = &warp[lane];
        if (!(self->mask >> lane & 1u)) {
            continue;
        }
        if (t->state == TERN_EMU_DONE) {
            tern_emu_machine_fault(machine, "divergent warp: lane %u exited, lane %u waits for it at %s:%d", lane,
                                   self->index & 31u, self->file, self->line);
        }
        if (t->state != TERN_EMU_AT_COLLECTIVE) {
            return false;
        }
        if (t->mask != self->mask || t->bytes != self->bytes || !same_site(t, self)) {
            tern_emu_machine_fault(machine, "divergent warp: lane %u is at %s:%d (mask %08x), lane %u at %s:%d (mask %08x)",
                                   t->index & 31u, t->file, t->line, (unsigned)t->mask, self->index & 31u, self->file,
                                   self->line, (unsigned)self->mask);
        }
    }
    return true;
}

/* The heart of shuffles, votes, mma and ldmatrix. Each lane leaves a pointer to its value and to its result on its own
 * stack, which both stay alive while it waits; the last lane to come copies for all. */
void tern_emu_collective(uint32_t mask, const void *value, size_t bytes, void *all, const char *file, int line) {
    struct tern_emu_machine *machine = tern_emu_running;
    struct tern_emu_thread *self = machine->current;
    unsigned lanes = warp_lanes(machine, self);
    if (lanes < 32) { /* a short last warp: lanes that do not exist take no part */
        mask &= (1u << lanes) - 1u;
    }
    if (!(mask >> (self->index & 31u) & 1u) || bytes > TERN_EMU_EXCHANGE_BYTES) {
        tern_emu_machine_fault(machine, "warp collective at %s:%d: mask %08x without the calling lane, or %zu bytes a lane",
                               file, line, (unsigned)mask, bytes);
    }
    arrive(machine, TERN_EMU_AT_COLLECTIVE, file, line);
    self->mask = mask;
    self->value = value;
    self->bytes = bytes;
    self->all = all;
    struct tern_emu_thread *warp = &self->block->threads[self->index & ~31u];
    if (collective_complete(machine, warp, self)) {
        finish_collective(warp, mask, bytes);
    }
    tern_emu_machine_wait(machine);
}

/* ---- deadlock
 * ------------------------------------------------------------------------------------------------------------------ */
static const char *const state_texts[] = {
    [TERN_EMU_READY] = "spin (mbarrier or flag)",
    [TERN_EMU_AT_BARRIER] = "wait at the barrier",
    [TERN_EMU_AT_CLUSTER] = "wait at the cluster barrier",
    [TERN_EMU_AT_COLLECTIVE] = "wait in the warp collective",
    [TERN_EMU_DONE] = "exited",
};

void tern_emu_describe_deadlock(struct tern_emu_machine *machine) {
    char *out = machine->fault;
    const struct tern_emu_block *block = machine->threads[0].block;
    size_t used =
        (size_t)snprintf(out, sizeof machine->fault, "divergent barrier or deadlock in block %u,%u,%u:", block->index[0],
                         block->index[1], block->index[2]);
    for (size_t i = 0; i < machine->thread_count && used + 200 < sizeof machine->fault;) {
        const struct tern_emu_thread *t = &machine->threads[i]; /* a run of threads in the same state at the same place */
        bool sited = t->state != TERN_EMU_DONE && t->state != TERN_EMU_READY;
        size_t end = i + 1;
        while (end < machine->thread_count && machine->threads[end].state == t->state &&
               (!sited || same_site(t, &machine->threads[end]))) {
            end++;
        }
        used += (size_t)snprintf(out + used, sizeof machine->fault - used, "%s threads %zu-%zu %s", i == 0 ? "" : ",", i,
                                 end - 1, state_texts[t->state]);
        if (sited && used + 200 < sizeof machine->fault) {
            used += (size_t)snprintf(out + used, sizeof machine->fault - used, " at %.120s:%d", t->file, t->line);
        }
        i = end;
    }
}
