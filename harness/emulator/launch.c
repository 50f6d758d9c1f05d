/* A launch on the emulated machine: every cluster of the grid in turn, shared memory poisoned in between, faults put into
 * words. */
#include "emulator/machine.h"

#include "core/str.h"

#include <stdio.h>
#include <signal.h>
#include <string.h>

/* ---- small services; each runs on the fiber of the calling thread
 * ---------------------------------------------------------- */
static void *dynamic_shared(size_t *bytes) {
    struct tern_emu_region *shared = &tern_emu_running->current->block->shared;
    *bytes = shared->bytes;
    return shared->data;
}

static void report_fault(const char *what) {
    const struct tern_emu_thread *t = tern_emu_running->current;
    tern_emu_machine_fault(tern_emu_running, "%s (thread %u of block %u,%u,%u)", what, t->index, t->block->index[0],
                           t->block->index[1], t->block->index[2]);
}
static void yield(void) {
    tern_emu_machine_wait(tern_emu_running);
}
static int cluster_rank(void) {
    return tern_emu_running->current->block->rank;
}
static int cluster_size(void) {
    return tern_emu_running->cluster;
}

static void *cluster_map(void *shared, int rank) {
    struct tern_emu_machine *machine = tern_emu_running;
    struct tern_emu_region *mine = &machine->current->block->shared;
    size_t offset = (size_t)((uint8_t *)shared - mine->data);
    bool inside = rank >= 0 && rank < machine->cluster && offset <= mine->bytes;
    if (!inside) {
        tern_emu_machine_fault(machine, "cluster address: rank %d of %d, or not in dynamic shared memory", rank,
                               machine->cluster);
    }
    return machine->blocks[inside ? rank : 0].shared.data + offset;
}

const struct tern_emu_services tern_emu_service_table = {
    .collective = tern_emu_collective,
    .block_sync = tern_emu_block_sync,
    .named_sync = tern_emu_named_sync,
    .cluster_arrive = tern_emu_cluster_barrier_arrive,
    .cluster_wait = tern_emu_cluster_barrier_wait,
    .active_mask = tern_emu_active_mask,
    .dynamic_shared = dynamic_shared,
    .fault = report_fault,
    .yield = yield,
    .async_copy = tern_emu_machine_async_copy,
    .async_commit = tern_emu_machine_async_commit,
    .async_wait = tern_emu_machine_async_wait,
    .mbarrier_init = tern_emu_machine_mbarrier_init,
    .mbarrier_arrive = tern_emu_machine_mbarrier_arrive,
    .mbarrier_test = tern_emu_machine_mbarrier_test,
    .mbarrier_wait = tern_emu_machine_mbarrier_wait,
    .bulk_copy = tern_emu_machine_bulk_copy,
    .store_async = tern_emu_machine_store_async,
    .dependency_wait = tern_emu_machine_dependency_wait,
    .cluster_rank = cluster_rank,
    .cluster_size = cluster_size,
    .cluster_map = cluster_map,
};

/* What a real device would refuse at launch, and the one thing that only we cannot do: static shared variables are C statics
 * of the object, so blocks that run together would share them. */
static enum tern_status check_geometry(const struct tern_emu_machine *machine, const struct tern_emu_geometry *g,
                                       struct tern_error *err) {
    if (g->block < 1 || g->block > TERN_EMU_MAX_THREADS || g->cluster < 1 || g->cluster > TERN_EMU_MAX_CLUSTER ||
        g->grid[0] % g->cluster != 0) {
        return tern_error_set(err, TERN_FAILED,
                              "launch of %lld threads a block, clusters of %lld, grid %lld is not possible here",
                              (long long)g->block, (long long)g->cluster, (long long)g->grid[0]);
    }
    for (int i = 0; i < 3; i++) {
        if (g->grid[i] < 1 || g->grid[i] > (i == 0 ? INT32_MAX : 65535)) {
            return tern_error_set(err, TERN_FAILED, "grid dimension %d is %lld", i, (long long)g->grid[i]);
        }
    }
    size_t static_bytes = (size_t)(machine->state->shared_end - machine->state->shared_begin);
    if (g->cluster > 1 && static_bytes != 0) {
        return tern_error_set(err, TERN_FAILED, "a cluster launch with static __shared__ variables cannot be emulated");
    }
    return TERN_OK;
}

/* Content of shared memory is undefined at the start of a block: NaN shows who relies on it. */
static void poison_shared(struct tern_emu_machine *machine) {
    struct tern_emu_state *state = machine->state;
    if (state->shared_end > state->shared_begin) {
        memset(state->shared_begin, 0xFF, (size_t)(state->shared_end - state->shared_begin));
    }
    for (int i = 0; i < machine->cluster; i++) {
        memset(machine->blocks[i].shared.data, 0xFF, machine->blocks[i].shared.bytes);
    }
}

static const char *signal_text(int signal) {
    return signal == SIGFPE   ? "arithmetic fault (division by zero)"
           : signal == SIGILL ? "illegal instruction"
                              : "invalid address";
}

/* Appends what the faulting address is near to: shared memory or a stack. Global buffers are known to the backend. */
static void describe_signal(struct tern_emu_machine *machine, const struct tern_emu_thread *t) {
    char where[256] = "";
    if (tern_fiber_is_overflow(&machine->stacks, machine->fault_address)) {
        tern_str_copy(where, sizeof where, "stack overflow of the emulated thread");
    }
    for (int i = 0; i < machine->cluster && where[0] == '\0'; i++) {
        tern_emu_region_describe(&machine->blocks[i].shared, "dynamic shared memory", machine->fault_address, where,
                                 sizeof where);
    }
    tern_str_format(machine->fault, sizeof machine->fault, "%s%s%s (thread %u of block %u,%u,%u)",
                    signal_text(machine->signal), where[0] != '\0' ? ": " : "", where, t->index, t->block->index[0],
                    t->block->index[1], t->block->index[2]);
}

/* Guard bytes around dynamic shared memory are compared after every cluster, so that the report names the block. */
static bool run_cluster(struct tern_emu_machine *machine) {
    poison_shared(machine);
    tern_emu_late_withhold(machine);
    if (!tern_emu_machine_run_cluster(machine)) {
        return false;
    }
    tern_emu_late_deliver(machine);
    for (int i = 0; i < machine->cluster; i++) {
        if (!tern_emu_region_check(&machine->blocks[i].shared, "dynamic shared memory", machine->fault,
                                   sizeof machine->fault)) {
            return false;
        }
    }
    return true;
}

/* Blocks run in the order of the threads: forward, reverse, or a random rotation with a random direction. */
static bool run_grid(struct tern_emu_machine *machine, const struct tern_emu_geometry *g) {
    int64_t across = g->grid[0] / g->cluster, total = across * g->grid[1] * g->grid[2];
    bool shuffled = machine->order >= TERN_EMU_SHUFFLED;
    int64_t start = shuffled ? (int64_t)tern_random_below(&machine->random, (uint64_t)total) : 0;
    bool backward = machine->order == TERN_EMU_REVERSE || (shuffled && (tern_random_u64(&machine->random) & 1u));
    for (int64_t i = 0; i < total; i++) {
        int64_t index = ((backward ? total - 1 - i : i) + start) % total;
        for (int b = 0; b < machine->cluster; b++) {
            machine->blocks[b].index[0] = (unsigned)(index % across * g->cluster + b);
            machine->blocks[b].index[1] = (unsigned)(index / across % g->grid[1]);
            machine->blocks[b].index[2] = (unsigned)(index / across / g->grid[1]);
        }
        if (!run_cluster(machine)) {
            return false;
        }
    }
    return true;
}

/* gridDim and blockDim are fixed for the launch; threadIdx and blockIdx follow the running fiber (block.c). */
static void set_state(struct tern_emu_machine *machine, const struct tern_emu_geometry *g) {
    struct tern_emu_state *state = machine->state;
    state->thread[1] = state->thread[2] = 0;
    state->block_dim[0] = (unsigned)g->block;
    state->block_dim[1] = state->block_dim[2] = 1;
    for (int i = 0; i < 3; i++) {
        state->grid_dim[i] = (unsigned)g->grid[i];
    }
    machine->cluster = (int)g->cluster;
    machine->block_threads = (size_t)g->block;
    machine->thread_count = machine->block_threads * (size_t)g->cluster;
    machine->faulted = false;
    machine->signal = 0;
    machine->fault[0] = '\0';
    tern_random_init(&machine->random, machine->seed, "emulator order");
}

enum tern_status tern_emu_machine_launch(struct tern_emu_machine *machine, const struct tern_emu_geometry *geometry,
                                         struct tern_error *err) {
    enum tern_status status = check_geometry(machine, geometry, err);
    if (status != TERN_OK) {
        return status;
    }
    set_state(machine, geometry);
    status = tern_emu_machine_reserve(machine, err);
    for (int i = 0; i < machine->cluster && status == TERN_OK; i++) {
        machine->blocks[i].rank = i;
        status = tern_emu_region_create(&machine->blocks[i].shared, geometry->shared_bytes, 1024, err);
    }
    if (status == TERN_OK) {
        struct tern_emu_machine *outer = tern_emu_running;
        tern_emu_running = machine;
        bool ok = run_grid(machine, geometry);
        tern_emu_running = outer;
        if (!ok) {
            if (machine->signal != 0) {
                describe_signal(machine, machine->current);
            }
            status = tern_error_set(err, TERN_FAILED, "%s", machine->fault);
        }
        machine->current = NULL;
    }
    for (int i = 0; i < machine->cluster; i++) {
        tern_emu_region_free(&machine->blocks[i].shared);
    }
    return status;
}
