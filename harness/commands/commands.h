/* Commands of the program: one file each in this folder, one row each in the table of main.c. */
#ifndef TERN_COMMANDS_COMMANDS_H
#define TERN_COMMANDS_COMMANDS_H

#include "core/error.h"

struct tern_command {
    const char *name;
    const char *summary;                                                    /* one line for `tune help` */
    enum tern_status (*run)(int argc, char **argv, struct tern_error *err); /* argv[0] is the command's name */
    void (*help)(void);                                                     /* usage, options, an example, on stdout */
};

extern const struct tern_command tern_command_run, tern_command_calibrate, tern_command_verify, tern_command_inspect,
    tern_command_bundle, tern_command_export, tern_command_select, tern_command_report, tern_command_show,
    tern_command_doctor, tern_command_record, tern_command_worker, tern_command_reconcile, tern_command_convert,
    tern_command_shapes, tern_command_compare, tern_command_release;

#endif
