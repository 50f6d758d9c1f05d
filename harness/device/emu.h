/* What the emulator backend offers beyond the table of backend.h: the order in which threads run. */
#ifndef TERN_DEVICE_EMU_H
#define TERN_DEVICE_EMU_H

#include "device/backend.h"
#include "emulator/machine.h"

/* Order of threads and blocks of the launches that follow: a race shows as a result that changes with it. `seed` feeds the
 * shuffled and the starved one. Default: forward. */
void tern_emu_backend_set_order(void *context, enum tern_emu_order order, uint64_t seed);
/* "forward", "reverse", "shuffled", "starved"; false for anything else. */
bool tern_emu_order_parse(const char *name, enum tern_emu_order *order);
const char *tern_emu_order_name(enum tern_emu_order order);

#endif
