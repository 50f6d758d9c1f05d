/* The interrupt flag. See interrupt.h. */
#include "worker/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

/* A handler can reach nothing but a static object; lock-free, as any thread may be the one that gets the signal. */
static atomic_int interrupted;

static void on_signal(int signal_number) {
    if (interrupted) {
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    }
    interrupted = 1;
}

void tern_interrupt_install(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal; /* no SA_RESTART: poll returns at once */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool tern_interrupted(void) {
    return interrupted != 0;
}
