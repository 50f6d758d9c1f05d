/* Hardware faults of device code: a handler on its own stack leaves the faulting fiber for the scheduler, which ends the
 * launch. Faults of the host program itself go to whoever handled them before. */
#include "emulator/machine.h"

#include "core/str.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const int signals_caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
#define SIGNAL_COUNT (sizeof signals_caught / sizeof signals_caught[0])

struct tern_emu_signals {
    struct sigaction previous[SIGNAL_COUNT];
    stack_t previous_stack;
    void *stack;
};

static void handle(int signal, siginfo_t *info, void *context) {
    (void)context;
    struct tern_emu_machine *machine = tern_emu_running;
    if (machine == NULL || machine->current == NULL) {
        struct sigaction fallback = {.sa_handler = SIG_DFL};
        sigaction(signal, &fallback, NULL); /* the fault repeats on return, and ends the process as it should */
        return;
    }
    machine->signal = signal;
    machine->fault_address = info->si_addr;
    tern_emu_machine_abandon(machine); /* leaves this stack for good; SA_NODEFER keeps the signal deliverable */
}

enum tern_status tern_emu_signals_install(struct tern_emu_signals **out, struct tern_error *err) {
    struct tern_emu_signals *signals = tern_alloc_zero(1, sizeof *signals);
    size_t bytes = 64 * 1024;
    signals->stack = tern_alloc(bytes);
    stack_t stack = {.ss_sp = signals->stack, .ss_size = bytes};
    if (sigaltstack(&stack, &signals->previous_stack) != 0) {
        free(signals->stack);
        free(signals);
        return tern_error_set(err, TERN_INTERNAL, "sigaltstack: %s", strerror(errno));
    }
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        sigaction(signals_caught[i], &action, &signals->previous[i]);
    }
    *out = signals;
    return TERN_OK;
}

void tern_emu_signals_restore(struct tern_emu_signals *signals) {
    if (signals == NULL) {
        return;
    }
    for (size_t i = 0; i < SIGNAL_COUNT; i++) {
        sigaction(signals_caught[i], &signals->previous[i], NULL);
    }
    sigaltstack(&signals->previous_stack, NULL);
    free(signals->stack);
    free(signals);
}
