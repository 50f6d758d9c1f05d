/* Emulator check of one candidate in a worker process. Request and answer stand in compile.h. */
#ifndef TERN_WORKER_EMULATE_H
#define TERN_WORKER_EMULATE_H

#include <jansson.h>

json_t *tern_emulate(const json_t *request);

#endif
