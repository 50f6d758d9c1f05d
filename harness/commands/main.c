/* The program `tune`: the table of commands, the choice of one, and the only place that prints errors and ends the process.
 */
#include "commands/commands.h"
#include "commands/help.h"

#include "core/log.h"
#include "core/str.h"
#include "core/version.h"
#include "worker/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Order of `tune help`. Commands without a summary are internal and not listed. */
static const struct tern_command *const commands[] = {
    &tern_command_run,     &tern_command_calibrate, &tern_command_verify,  &tern_command_inspect, &tern_command_reconcile,
    &tern_command_convert, &tern_command_shapes,    &tern_command_bundle,  &tern_command_show,    &tern_command_export,
    &tern_command_select,  &tern_command_report,    &tern_command_compare, &tern_command_release, &tern_command_record,
    &tern_command_doctor,  &tern_command_worker,
};
enum { COMMAND_COUNT = sizeof(commands) / sizeof(*commands) };

static enum tern_status find_command(const char *name, const struct tern_command **found, struct tern_error *err) {
    struct tern_strs names = {0};
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            *found = commands[i];
            tern_strs_free(&names);
            return TERN_OK;
        }
        if (commands[i]->summary != NULL)
            tern_strs_add(&names, commands[i]->name);
    }
    const char *near = tern_str_suggest(name, &names);
    tern_error_set(err, TERN_USAGE, "unknown command '%s'", name);
    if (near != NULL)
        tern_error_hint(err, "did you mean 'tune %s'?", near);
    else
        tern_error_hint(err, "'tune help' lists the commands");
    tern_strs_free(&names);
    return TERN_USAGE;
}

/* `tune help`, `tune help COMMAND`. */
static enum tern_status help(int argc, char **argv, struct tern_error *err) {
    if (argc > 1)
        return tern_error_set(err, TERN_USAGE, "unexpected argument '%s'", argv[1]);
    if (argc == 0) {
        tern_help_overview(commands, COMMAND_COUNT);
        return TERN_OK;
    }
    const struct tern_command *command = NULL;
    enum tern_status status = find_command(argv[0], &command, err);
    if (status == TERN_OK)
        command->help();
    return status;
}

static bool is_help(const char *argument) {
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

static bool asks_for_help(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_help(argv[i]))
            return true;
    return false;
}

/* Takes --quiet and --verbose out of the arguments: they mean the same to every command. Returns the new count. */
static int take_log_level(int argc, char **argv) {
    int kept = 0;
    bool ended = false;
    for (int i = 0; i < argc; i++) {
        ended = ended || strcmp(argv[i], "--") == 0;
        if (!ended && strcmp(argv[i], "--quiet") == 0)
            tern_log_set_level(TERN_LOG_QUIET);
        else if (!ended && strcmp(argv[i], "--verbose") == 0)
            tern_log_set_level(TERN_LOG_VERBOSE);
        else
            argv[kept++] = argv[i];
    }
    argv[kept] = NULL;
    return kept;
}

static enum tern_status dispatch(int argc, char **argv, struct tern_error *err) {
    argc = take_log_level(argc, argv);
    const char *first = argc > 1 ? argv[1] : "help";
    if (strcmp(first, "--version") == 0) {
        printf("tune %s\n", TERN_VERSION);
        return TERN_OK;
    }
    if (is_help(first) || strcmp(first, "help") == 0)
        return help(argc > 2 ? argc - 2 : 0, argv + 2, err);
    /* `tune --gpu x --shapes y` is `tune run --gpu x --shapes y`. */
    const struct tern_command *command = &tern_command_run;
    bool named = first[0] != '-';
    enum tern_status status = named ? find_command(first, &command, err) : TERN_OK;
    if (status != TERN_OK)
        return status;
    char *run_name = (char[]){"run"};
    if (!named)
        argv[0] = run_name;
    argc -= named;
    argv += named;
    if (asks_for_help(argc, argv)) {
        command->help();
        return TERN_OK;
    }
    return command->run(argc, argv, err);
}

static int finish(enum tern_status status, struct tern_error *err) {
    tern_log_progress("%s", "");
    /* Output that could not be written (full disk, closed pipe) must not end in success. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == TERN_OK)
        status = tern_error_set(err, TERN_INTERNAL, "cannot write to standard output: %s", strerror(errno));
    if (status != TERN_OK) {
        fprintf(stderr, "tune: %s\n", err->text[0] ? err->text : "failed without a reason");
        if (err->hint[0] != '\0')
            fprintf(stderr, "  hint: %s\n", err->hint);
    }
    return tern_interrupted() && (status == TERN_OK || status == TERN_FAILED) ? TERN_EXIT_INTERRUPTED : (int)status;
}

int main(int argc, char **argv) {
    struct tern_error err = {0};
    signal(SIGPIPE, SIG_IGN); /* a write to a closed pipe is an error that finish() reports */
    return finish(dispatch(argc, argv, &err), &err);
}
