/* What `calibrate`, `run` and `report` share: ceilings from the GPU worker, and from the database into a description. */
#ifndef TERN_COMMANDS_CEILINGS_H
#define TERN_COMMANDS_CEILINGS_H

#include "config/ceilings.h"
#include "store/store.h"
#include "worker/process.h"

/* Asks a GPU worker that has said hello; about 15 s. TERN_MISSING if it dies or does not answer. */
enum tern_status tern_command_ceilings_measure(struct tern_process *worker, struct tern_ceilings *out,
                                               struct tern_error *err);
/* Puts the stored ceilings of this GPU name in the place of the description's figures; *found false: there are none, and
 * gpu is unchanged. device > 0: only those of that device's class. */
enum tern_status tern_command_ceilings_apply(struct tern_store *store, int64_t device, struct tern_gpu *gpu, bool *found,
                                             struct tern_error *err);

#endif
