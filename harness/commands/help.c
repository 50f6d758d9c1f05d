/* `tune help`: what the program is for, its commands, what the exit codes mean. */
#include "commands/help.h"

#include <stdio.h>

static const char *const exit_meanings[][2] = {
    {"0", "all that was asked for is done, and it was at least one thing"},
    {"1", "it ran, but something asked for failed"},
    {"2", "usage or configuration error, or a selection that matches nothing"},
    {"3", "a device, library or tool is missing or wedged"},
    {"4", "file, database or internal error"},
    {"130", "interrupted; the same command goes on"},
};

void tern_help_overview(const struct tern_command *const *commands, size_t count) {
    printf("Tern finds the fastest right kernel for every quantised linear layer of a model\n"
           "on one GPU, and exports the answer as a C header.\n"
           "\n"
           "usage: tune [run] --gpu NAME --shapes NAME [options]\n"
           "       tune COMMAND [options]\n"
           "       tune help [COMMAND] | tune --version\n"
           "\n"
           "commands:\n");
    for (size_t i = 0; i < count; i++)
        if (commands[i]->summary != NULL)
            printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
    printf("\n"
           "for every command: --help, --quiet (warnings and errors only), --verbose\n"
           "\n"
           "exit codes:\n");
    for (size_t i = 0; i < sizeof(exit_meanings) / sizeof(*exit_meanings); i++)
        printf("  %-10s %s\n", exit_meanings[i][0], exit_meanings[i][1]);
    printf("\n"
           "example: tune --gpu h200 --shapes qwen7b\n");
}
