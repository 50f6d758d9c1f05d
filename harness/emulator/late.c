/* Dependent launches of the emulated machine: what the kernel ahead writes arrives at a cluster's first wait, so that reading it
 * earlier, or writing where it still writes, shows in the results. */
#include "emulator/machine.h"

#include <string.h>

void tern_emu_late_withhold(struct tern_emu_machine *machine) {
    for (size_t i = 0; i < machine->late_count; i++) {
        const struct tern_emu_late *late = &machine->late[i];
        if (late->from != NULL) {
            memset(late->to, 0xFF, late->bytes);
        } else {
            memcpy(late->found, late->to, late->bytes);
        }
    }
    machine->late_due = machine->late_count > 0;
}

void tern_emu_late_deliver(struct tern_emu_machine *machine) {
    for (size_t i = 0; i < machine->late_count && machine->late_due; i++) {
        const struct tern_emu_late *late = &machine->late[i];
        memcpy(late->to, late->from != NULL ? late->from : late->found, late->bytes);
    }
    machine->late_due = false;
}

void tern_emu_machine_dependency_wait(void) {
    tern_emu_late_deliver(tern_emu_running);
}
