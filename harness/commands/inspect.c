/* `tune inspect`: what quantised layers a checkpoint holds, how they are stored, and whether its bits agree with what it says. */
#include "commands/commands.h"

#include "commands/inspect_report.h"
#include "core/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INSPECT_OPTION_COUNT 1

static void list_options(bool *json, struct tern_option list[INSPECT_OPTION_COUNT]) {
    list[0] = (struct tern_option){"json", 0, TERN_OPTION_FLAG, json, NULL, "print JSON", 0, 0};
}

static void inspect_help(void) {
    struct tern_option options[INSPECT_OPTION_COUNT];
    bool json = false;
    list_options(&json, options);
    printf("usage: tune inspect PATH [--json]\n\n"
           "PATH is a file of weights, or the folder of a model. Lists its quantised linear\n"
           "layers: how they are stored and what shows it, N, K, bits, group, zero points,\n"
           "act-order, codes and scales; and where the configuration and the bits disagree\n"
           "(exit 1).\n\n");
    tern_options_help(options, INSPECT_OPTION_COUNT);
    printf("\nexample: tune inspect models/qwen2.5-7b-gptq\n");
}

/* The first problem, for the message; how many layers have one. */
static enum tern_status judge(const struct tern_checkpoint *checkpoint, const struct tern_linears *layers,
                              const struct tern_census *census, struct tern_error *err) {
    size_t wrong = 0;
    struct tern_str first = {0};
    for (size_t i = 0; i < layers->count; i++) {
        struct tern_str detail = {0};
        if (tern_census_judge(&layers->items[i], &census[i], &detail) != TERN_LAYER_OK && wrong++ == 0)
            tern_str_printf(&first, "%s: %s", layers->items[i].name, detail.data);
        tern_str_free(&detail);
    }
    enum tern_status status = TERN_OK;
    if (wrong)
        status = tern_error_set(err, TERN_FAILED, "%s: %zu of %zu layers wrong or suspect, the first: %s", checkpoint->path,
                                wrong, layers->count, first.data);
    tern_str_free(&first);
    return status;
}

static enum tern_status inspect_run(int argc, char **argv, struct tern_error *err) {
    struct tern_option options[INSPECT_OPTION_COUNT];
    struct tern_checkpoint checkpoint = {0};
    struct tern_linears layers = {0};
    struct tern_census *census = NULL;
    const char *path[1];
    size_t count = 0;
    bool json = false;
    list_options(&json, options);
    enum tern_status status = tern_options_parse(options, INSPECT_OPTION_COUNT, argc, argv, path, 1, &count, err);
    if (status)
        return status;
    if (count == 0) {
        tern_error_set(err, TERN_USAGE, "inspect needs a file or folder");
        tern_error_hint(err, "for example: tune inspect models/qwen2.5-7b-gptq");
        return TERN_USAGE;
    }
    status = tern_checkpoint_open(path[0], &checkpoint, err);
    if (status)
        goto out;
    tern_linears_find(&checkpoint, &layers);
    if (layers.count == 0) {
        status = tern_error_set(err, TERN_FAILED, "%s: none of its %zu tensors is a quantised layer that can be read",
                                path[0], checkpoint.tensor_count);
        goto out;
    }
    census = tern_alloc(layers.count * sizeof *census);
    tern_census_take(&layers, census);
    (json ? tern_inspect_print_json : tern_inspect_print_text)(&checkpoint, &layers, census);
    status = judge(&checkpoint, &layers, census, err);
out:
    free(census);
    tern_linears_free(&layers);
    tern_checkpoint_close(&checkpoint);
    return status;
}

const struct tern_command tern_command_inspect = {"inspect", "what a checkpoint holds, and whether its bits agree with it",
                                                  inspect_run, inspect_help};
