/* Ctrl-C: SIGINT and SIGTERM set a flag that long work looks at between steps. The one flag a signal handler can reach. */
#ifndef TERN_WORKER_INTERRUPT_H
#define TERN_WORKER_INTERRUPT_H

#include <stdbool.h>

void tern_interrupt_install(void); /* a second signal ends the program at once */
bool tern_interrupted(void);

#endif
