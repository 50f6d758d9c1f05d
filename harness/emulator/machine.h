/* The emulated machine: fibers of one cluster of blocks, their barriers, warp collectives and asynchronous copies.
 * block.c schedules, collective.c and async.c are the services, launch.c walks the grid and turns faults into text. */
#ifndef TERN_EMULATOR_MACHINE_H
#define TERN_EMULATOR_MACHINE_H

#include "core/error.h"
#include "core/random.h"
#include "emulator/fiber.h"
#include "emulator/memory.h"
#include "emulator/services.h"
#include "tern/abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TERN_EMU_BARRIERS    16   /* named barriers of a block; 0 is __syncthreads */
#define TERN_EMU_MAX_THREADS 1024 /* of a block */
#define TERN_EMU_MAX_CLUSTER 16

/* Starved: shuffled, and one warp of each cluster, drawn by lot, runs only when no other can go on: as late as it may be, so that barriers
 * pass phases that it waits for if nothing holds them. */
enum tern_emu_order { TERN_EMU_FORWARD, TERN_EMU_REVERSE, TERN_EMU_SHUFFLED, TERN_EMU_STARVED, TERN_EMU_ORDERS };

enum tern_emu_thread_state {
    TERN_EMU_READY,
    TERN_EMU_AT_BARRIER,
    TERN_EMU_AT_CLUSTER,
    TERN_EMU_AT_COLLECTIVE,
    TERN_EMU_DONE
};

/* Where a thread stands with the barrier of its cluster: all others have arrived too (PASSED), but it has not waited yet. */
enum tern_emu_cluster_phase { TERN_EMU_CLUSTER_NONE, TERN_EMU_CLUSTER_ARRIVED, TERN_EMU_CLUSTER_PASSED };

struct tern_emu_copy { /* one cp.async */
    void *to;
    const void *from;
    size_t bytes, valid_bytes;
    int64_t group;
};

struct tern_emu_thread {
    struct tern_fiber fiber;
    enum tern_emu_thread_state state;
    enum tern_emu_cluster_phase cluster;
    struct tern_emu_block *block;
    unsigned index;   /* within the block */
    const char *file; /* site of the barrier or collective where it waits, or last waited */
    int line, barrier;
    int predicate_sum; /* result of the last block barrier */
    uint32_t mask;     /* collective: participants */
    const void *value; /* collective: this lane's value, on its own stack */
    void *all;         /* collective: where the 32 values go */
    size_t bytes;
    struct tern_emu_copy *copies; /* pending cp.async in order of issue */
    size_t copy_count, copy_capacity;
    int64_t open_group; /* commits so far */
};

struct tern_emu_block {
    unsigned index[3];
    int rank; /* in the cluster */
    struct tern_emu_region shared;
    struct tern_emu_thread *threads;
    struct {
        int arrived, predicates;
    } barriers[TERN_EMU_BARRIERS];
};

#define TERN_EMU_STORE_BYTES 16

struct tern_emu_bulk { /* one cp.async.bulk or st.async in flight */
    void *to;
    const void *from; /* NULL: value */
    size_t bytes;
    void *barrier;
    uint8_t value[TERN_EMU_STORE_BYTES];
};

/* Memory that the kernel ahead of a dependent launch still writes. Each cluster finds it poisoned, or (from NULL) as it is, and
 * has it written over by `from`, or by what it found, at its first wait. */
struct tern_emu_late {
    void *to;
    const void *from;
    size_t bytes;
    void *found; /* a copy of `bytes`; from NULL only */
};
#define TERN_EMU_MAX_LATE 3

struct tern_emu_machine {
    enum tern_emu_order order;
    uint64_t seed;
    struct tern_random random;
    size_t stack_bytes;
    struct tern_fiber_stacks stacks; /* grown to the largest cluster seen */
    struct tern_fiber scheduler;
    struct tern_emu_thread *threads; /* of all blocks of the cluster */
    size_t thread_count, block_threads;
    unsigned *turn;      /* permutation of threads: who runs when in a pass */
    size_t starved, fed; /* threads starved .. fed - 1 are left out of a pass while `withheld` */
    bool withheld;
    struct tern_emu_block blocks[TERN_EMU_MAX_CLUSTER];
    int cluster, cluster_arrived;
    struct tern_emu_thread *current; /* NULL while the host runs */
    struct tern_emu_bulk *bulk;
    size_t bulk_count, bulk_capacity;
    struct tern_emu_late late[TERN_EMU_MAX_LATE];
    size_t late_count; /* 0: the launch is not dependent */
    bool late_due;     /* the cluster has not waited yet */
    uint64_t progress; /* arrivals and exits so far: what yields alone do not change */
    size_t done;
    struct tern_emu_state *state; /* of the loaded kernel */
    void (*entry)(struct tern_args);
    const struct tern_args *args;
    bool faulted;
    char fault[768];
    int signal; /* of a hardware fault, else 0 */
    const void *fault_address;
};

/* The machine whose fibers run on this thread: services are called by device code, which has no context argument. */
extern _Thread_local struct tern_emu_machine *tern_emu_running;
extern const struct tern_emu_services tern_emu_service_table;

/* block.c */
void tern_emu_machine_create(struct tern_emu_machine *machine, size_t stack_bytes);
/* Makes room for machine->thread_count threads. */
enum tern_status tern_emu_machine_reserve(struct tern_emu_machine *machine, struct tern_error *err);
void tern_emu_machine_free(struct tern_emu_machine *machine);
/* Runs the cluster in machine->blocks to its end; false: machine->fault says why not. */
bool tern_emu_machine_run_cluster(struct tern_emu_machine *machine);
/* Called on a fiber. wait: back to the scheduler until the state is READY and it is this thread's turn. */
void tern_emu_machine_wait(struct tern_emu_machine *machine);
/* Called on a fiber: ends the launch with this text; does not return. */
_Noreturn void tern_emu_machine_fault(struct tern_emu_machine *machine, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void tern_emu_machine_abandon(struct tern_emu_machine *machine); /* the same, fault already described */

/* collective.c */
int tern_emu_block_sync(int predicate, const char *file, int line);
void tern_emu_named_sync(int id, int threads, int wait, const char *file, int line);
void tern_emu_cluster_barrier_arrive(void);
void tern_emu_cluster_barrier_wait(const char *file, int line);
void tern_emu_collective(uint32_t mask, const void *value, size_t bytes, void *all, const char *file, int line);
uint32_t tern_emu_active_mask(void);
/* Why nobody can run: appended to machine->fault. */
void tern_emu_describe_deadlock(struct tern_emu_machine *machine);

/* async.c */
void tern_emu_machine_async_copy(void *to, const void *from, size_t bytes, size_t valid_bytes);
void tern_emu_machine_async_commit(void);
void tern_emu_machine_async_wait(int pending);
void tern_emu_machine_mbarrier_init(void *barrier, int count);
void tern_emu_machine_mbarrier_arrive(void *barrier, int count, int64_t expect_bytes);
int tern_emu_machine_mbarrier_test(void *barrier, int parity);
void tern_emu_machine_mbarrier_wait(void *barrier, int parity);
void tern_emu_machine_bulk_copy(void *to, const void *from, size_t bytes, void *barrier);
void tern_emu_machine_store_async(void *to, const void *value, size_t bytes, void *barrier);
/* Lets one bulk copy or store arrive; false if none is in flight. Called by the scheduler when every thread waits. */
bool tern_emu_deliver_bulk(struct tern_emu_machine *machine);

/* late.c: what arrives at the wait of a dependent launch. */
void tern_emu_machine_dependency_wait(void);
/* Before each cluster: takes away what is late. */
void tern_emu_late_withhold(struct tern_emu_machine *machine);
/* Writes it, unless the cluster has waited; also at its end, since the kernel ahead ends whatever the one behind does. */
void tern_emu_late_deliver(struct tern_emu_machine *machine);

/* launch.c */
struct tern_emu_geometry {
    int64_t grid[3];
    int64_t block, cluster;
    size_t shared_bytes;
};
/* Runs every block; TERN_FAILED with the fault as text. */
enum tern_status tern_emu_machine_launch(struct tern_emu_machine *machine, const struct tern_emu_geometry *geometry,
                                         struct tern_error *err);

/* signals.c: SIGSEGV, SIGBUS, SIGFPE, SIGILL of device code end the launch; others keep their meaning. */
struct tern_emu_signals;
enum tern_status tern_emu_signals_install(struct tern_emu_signals **signals, struct tern_error *err);
void tern_emu_signals_restore(struct tern_emu_signals *signals);

#endif
