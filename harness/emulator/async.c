/* Asynchronous copies of the emulated machine: cp.async groups, mbarriers and bulk copies, each as late as the rules allow.
 */
#include "emulator/machine.h"

#include "core/str.h"

#include <string.h>

/* ---- cp.async
 * ------------------------------------------------------------------------------------------------------------------ */
void tern_emu_machine_async_copy(void *to, const void *from, size_t bytes, size_t valid_bytes) {
    struct tern_emu_machine *machine = tern_emu_running;
    struct tern_emu_thread *self = machine->current;
    if (valid_bytes > bytes || bytes == 0) {
        tern_emu_machine_fault(machine, "cp.async of %zu valid of %zu bytes", valid_bytes, bytes);
    }
    if (self->copy_count == self->copy_capacity) {
        self->copy_capacity = self->copy_capacity == 0 ? 16 : 2 * self->copy_capacity;
        self->copies = tern_realloc(self->copies, self->copy_capacity * sizeof *self->copies);
    }
    self->copies[self->copy_count++] = (struct tern_emu_copy){to, from, bytes, valid_bytes, self->open_group};
    memset(to, 0xFF, bytes); /* whoever reads too early, or still needs the old content, sees NaN */
}

void tern_emu_machine_async_commit(void) {
    tern_emu_running->current->open_group++;
}

/* Carries out this thread's copies of all groups but the newest `pending`; open copies (not committed) stay open. */
void tern_emu_machine_async_wait(int pending) {
    struct tern_emu_machine *machine = tern_emu_running;
    struct tern_emu_thread *self = machine->current;
    if (pending < 0) {
        tern_emu_machine_fault(machine, "cp.async.wait_group %d", pending);
    }
    int64_t finished = self->open_group - pending; /* groups below this number must be complete */
    size_t done = 0;
    for (; done < self->copy_count && self->copies[done].group < finished; done++) {
        const struct tern_emu_copy *copy = &self->copies[done];
        memcpy(copy->to, copy->from, copy->valid_bytes);
        memset((uint8_t *)copy->to + copy->valid_bytes, 0, copy->bytes - copy->valid_bytes);
    }
    self->copy_count -= done;
    if (done > 0) /* a thread that never copied has no list */
        memmove(self->copies, self->copies + done, self->copy_count * sizeof *self->copies);
}

/* ---- mbarrier
 * ------------------------------------------------------------------------------------------------------------------ */
/* The 64-bit word as we use it. Poison (all ones) and zero are told from an initialised one by `magic`. */
struct mbarrier {
    uint64_t magic : 8, phase : 1, expected : 11, pending : 12;
    int32_t bytes; /* announced minus arrived */
};
#define MBARRIER_MAGIC 0x5Bu
_Static_assert(sizeof(struct mbarrier) == 8, "an mbarrier is one 64-bit word");

/* The word at a device address; one that no init has touched is a fault. */
static struct mbarrier *mbarrier_at(struct tern_emu_machine *machine, void *barrier) {
    struct mbarrier *m = barrier;
    if ((uintptr_t)barrier % 8 != 0 || m->magic != MBARRIER_MAGIC) {
        tern_emu_machine_fault(machine, "mbarrier %s by thread %u",
                               (uintptr_t)barrier % 8 != 0 ? "misaligned" : "used before its init", machine->current->index);
    }
    return m;
}

/* A phase completes when all arrivals have come and all announced bytes have landed. */
static void mbarrier_settle(struct mbarrier *m) {
    if (m->pending == 0 && m->bytes == 0) {
        m->phase ^= 1u;
        m->pending = m->expected;
    }
}

void tern_emu_machine_mbarrier_init(void *barrier, int count) {
    struct tern_emu_machine *machine = tern_emu_running;
    if ((uintptr_t)barrier % 8 != 0 || count < 1 || count > 2047) {
        tern_emu_machine_fault(machine, "mbarrier init: misaligned, or count %d outside 1..2047", count);
    }
    struct mbarrier m = {.magic = MBARRIER_MAGIC, .expected = (unsigned)count & 0x7FFu, .pending = (unsigned)count & 0xFFFu};
    memcpy(barrier, &m, sizeof m);
}

/* arrive, arrive.expect_tx (both) or expect_tx (count 0). More arrivals than the phase lacks are a fault, not a wrap. */
void tern_emu_machine_mbarrier_arrive(void *barrier, int count, int64_t expect_bytes) {
    struct tern_emu_machine *machine = tern_emu_running;
    struct mbarrier *m = mbarrier_at(machine, barrier);
    if (count > (int)m->pending || expect_bytes < 0 || expect_bytes > (1 << 20)) {
        tern_emu_machine_fault(machine, "mbarrier: more arrivals than its count of %u, or %lld bytes expected",
                               (unsigned)m->expected, (long long)expect_bytes);
    }
    m->bytes += (int32_t)expect_bytes;
    m->pending = (m->pending - (unsigned)count) & 0xFFFu;
    mbarrier_settle(m);
    machine->progress++;
}

int tern_emu_machine_mbarrier_test(void *barrier, int parity) {
    struct tern_emu_machine *machine = tern_emu_running;
    bool complete = mbarrier_at(machine, barrier)->phase != ((unsigned)parity & 1u);
    if (!complete) {
        tern_emu_machine_wait(machine); /* callers spin on it */
    }
    return complete;
}

void tern_emu_machine_mbarrier_wait(void *barrier, int parity) {
    while (!tern_emu_machine_mbarrier_test(barrier, parity)) {
    }
}

/* ---- bulk copies
 * --------------------------------------------------------------------------------------------------------------- */
/* Puts a copy on its way. */
static void send(struct tern_emu_machine *machine, struct tern_emu_bulk copy) {
    mbarrier_at(machine, copy.barrier);
    if (machine->bulk_count == machine->bulk_capacity) {
        machine->bulk_capacity = machine->bulk_capacity == 0 ? 16 : 2 * machine->bulk_capacity;
        machine->bulk = tern_realloc(machine->bulk, machine->bulk_capacity * sizeof *machine->bulk);
    }
    machine->bulk[machine->bulk_count++] = copy;
    machine->progress++;
}

void tern_emu_machine_bulk_copy(void *to, const void *from, size_t bytes, void *barrier) {
    struct tern_emu_machine *machine = tern_emu_running;
    if (((uintptr_t)to | (uintptr_t)from | bytes) % 16 != 0 || bytes == 0) {
        tern_emu_machine_fault(machine, "bulk copy of %zu bytes: addresses and size must be multiples of 16", bytes);
    }
    send(machine, (struct tern_emu_bulk){.to = to, .from = from, .bytes = bytes, .barrier = barrier});
    memset(to, 0xFF, bytes);
    volatile const uint8_t *probe = from; /* an address that cannot be read faults here, where the thread is known */
    (void)probe[0];
    (void)probe[bytes - 1];
}

void tern_emu_machine_store_async(void *to, const void *value, size_t bytes, void *barrier) {
    struct tern_emu_machine *machine = tern_emu_running;
    if ((bytes != 4 && bytes != 8 && bytes != TERN_EMU_STORE_BYTES) || (uintptr_t)to % bytes != 0) {
        tern_emu_machine_fault(machine, "st.async of %zu bytes: 4, 8 or 16, and an address that is a multiple", bytes);
    }
    struct tern_emu_bulk copy = {.to = to, .bytes = bytes, .barrier = barrier};
    memcpy(copy.value, value, bytes);
    send(machine, copy);
    memset(to, 0xFF, bytes);
}

bool tern_emu_deliver_bulk(struct tern_emu_machine *machine) {
    if (machine->bulk_count == 0) {
        return false;
    }
    /* Copies may arrive in any order. */
    size_t pick = machine->order == TERN_EMU_FORWARD   ? 0
                  : machine->order == TERN_EMU_REVERSE ? machine->bulk_count - 1
                                                       : (size_t)tern_random_below(&machine->random, machine->bulk_count);
    struct tern_emu_bulk copy = machine->bulk[pick];
    machine->bulk_count--;
    memmove(machine->bulk + pick, machine->bulk + pick + 1, (machine->bulk_count - pick) * sizeof *machine->bulk);
    memcpy(copy.to, copy.from == NULL ? copy.value : copy.from, copy.bytes);
    struct mbarrier *m = copy.barrier;
    m->bytes -= (int32_t)copy.bytes;
    mbarrier_settle(m);
    return true;
}
