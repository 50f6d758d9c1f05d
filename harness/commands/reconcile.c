/* `tune reconcile`: proves that a checkpoint is read right: by the CPU, on the GPU, and cut for tensor parallelism. */
#include "commands/commands.h"
#include "commands/reconcile.h"

#include "core/file.h"
#include "core/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECONCILE_OPTIONS 6
#define MAX_RANKS         1024

static void list_options(struct reconcile *r, struct tern_option list[RECONCILE_OPTIONS]) {
    const struct tern_option options[RECONCILE_OPTIONS] = {
        {"reference", 0, TERN_OPTION_TEXT, &r->options.reference, "PATH",
         "another checkpoint of the same weights, in any format: values must be equal", 0, 0},
        {"tp", 0, TERN_OPTION_TEXT, &r->options.tp, "LIST",
         "numbers of ranks, each of which must be possible; default 1,2,4,8 as far as they are", 0, 0},
        {"backend", 0, TERN_OPTION_TEXT, &r->options.backend, "NAME",
         "of GPU_LOAD: cuda or emu (CPU, needs g++); default cuda", 0, 0},
        {"cache", 0, TERN_OPTION_TEXT, &r->options.cache, "DIR", "folder of objects for emu; default results/cache/emu", 0,
         0},
        {"digests", 0, TERN_OPTION_FLAG, &r->options.digests, NULL, "print the digest of each layer first", 0, 0},
        {"json", 0, TERN_OPTION_FLAG, &r->options.json, NULL, "print JSON", 0, 0},
    };
    memcpy(list, options, sizeof options);
}

static void reconcile_help(void) {
    struct tern_option options[RECONCILE_OPTIONS];
    struct reconcile r = {0};
    list_options(&r, options);
    printf("usage: tune reconcile PATH [options]\n\n"
           "PATH is a file of weights, or the folder of a model. Proves that its quantised\n"
           "layers are read right, bit by bit, in a line each:\n"
           "  CPU_UNPACK  the decoder equals a second one, written element by element from\n"
           "              the specification, and the reference; a digest of each layer\n"
           "  GPU_LOAD    bytes on the GPU equal the file's, weights decoded there the\n"
           "              host's\n"
           "  TP_SHARD    split by columns and by rows among ranks, each weight meets the\n"
           "              same code, zero point and scale; integer sums equal the whole.\n"
           "              Groups are never cut.\n"
           "A line is OK, FAIL with the first difference, or SKIPPED with the reason.\n"
           "Exit 0: nothing failed. 1: a check failed. 2: usage. 4: a file cannot be read.\n\n");
    tern_options_help(options, RECONCILE_OPTIONS);
    printf("\nexamples: tune reconcile models/qwen2.5-7b-gptq\n"
           "          tune reconcile q.gguf --reference models/q-ternary --tp 2,4 --json\n");
}

static enum tern_status parse_ranks(struct reconcile *r, struct tern_error *err) {
    struct tern_strs list = {0};
    enum tern_status status = TERN_OK;
    tern_strs_split(&list, r->options.tp ? r->options.tp : "1,2,4,8", ',');
    r->ranks = tern_alloc((list.count + 1) * sizeof *r->ranks);
    for (size_t i = 0; i < list.count && !status; i++)
        if (!tern_str_parse_int(list.items[i], 1, MAX_RANKS, &r->ranks[r->rank_count++]))
            status = tern_error_set(err, TERN_USAGE, "--tp %s: '%s' is no number of ranks from 1 to %d", r->options.tp,
                                    list.items[i], MAX_RANKS);
    if (!status && list.count == 0)
        status = tern_error_set(err, TERN_USAGE, "--tp lists no number of ranks");
    if (status)
        tern_error_hint(err, "for example: --tp 1,2,4");
    tern_strs_free(&list);
    return status;
}

static enum tern_status parse(int argc, char **argv, struct reconcile *r, const char **path, struct tern_error *err) {
    struct tern_option options[RECONCILE_OPTIONS];
    size_t count = 0;
    r->options.backend = "cuda";
    r->options.cache = "results/cache/emu";
    list_options(r, options);
    enum tern_status status = tern_options_parse(options, RECONCILE_OPTIONS, argc, argv, path, 1, &count, err);
    if (status)
        return status;
    if (count == 0) {
        tern_error_set(err, TERN_USAGE, "reconcile needs a file or folder");
        tern_error_hint(err, "for example: tune reconcile models/qwen2.5-7b-gptq");
        return TERN_USAGE;
    }
    if (strcmp(r->options.backend, "cuda") != 0 && strcmp(r->options.backend, "emu") != 0)
        return tern_error_set(err, TERN_USAGE, "unknown backend '%s': cuda or emu", r->options.backend);
    return parse_ranks(r, err);
}

static enum tern_status open_both(struct reconcile *r, const char *path, struct tern_error *err) {
    enum tern_status status = tern_checkpoint_open(path, &r->checkpoint, err);
    if (status)
        return status;
    tern_linears_find(&r->checkpoint, &r->layers);
    if (r->layers.count == 0)
        return tern_error_set(err, TERN_FAILED, "%s: none of its %zu tensors is a quantised layer that can be read", path,
                              r->checkpoint.tensor_count);
    if (!r->options.reference)
        return TERN_OK;
    status = tern_checkpoint_open(r->options.reference, &r->other, err);
    if (status)
        tern_error_prefix(err, "--reference");
    else
        tern_linears_find(&r->other, &r->other_layers);
    return status;
}

/* Prints a line as soon as its check is done; true if it failed. */
static bool say(const struct reconcile *r, const char *name,
                enum tern_check_state (*text_of)(const struct reconcile *, struct tern_str *)) {
    struct tern_str text = {0};
    enum tern_check_state state = text_of(r, &text);
    if (!r->options.json) {
        printf("%s: %s %s\n", name, tern_check_state_name(state), tern_str_text(&text));
        fflush(stdout);
    }
    tern_str_free(&text);
    return state == TERN_CHECK_FAIL;
}

static int prove(struct reconcile *r) {
    const struct tern_reference reference = {&r->other, &r->other_layers};
    const size_t count = r->layers.count;
    int failed = 0;
    r->unpacked = tern_alloc(count * sizeof *r->unpacked);
    tern_unpack_prove(&r->checkpoint, &r->layers, r->options.reference ? &reference : NULL, r->unpacked);
    if (r->options.digests && !r->options.json)
        tern_reconcile_print_digests(r);
    failed += say(r, "CPU_UNPACK", tern_reconcile_unpack_text);
    tern_reconcile_load(r);
    failed += say(r, "GPU_LOAD", tern_reconcile_load_text);
    r->splits = tern_alloc(count * r->rank_count * TERN_SHARD_AXES * sizeof *r->splits);
    tern_shards_prove(&r->checkpoint, &r->layers, r->ranks, r->rank_count, r->splits);
    failed += say(r, "TP_SHARD", tern_reconcile_shard_text);
    if (r->options.json)
        tern_reconcile_print_json(r);
    return failed;
}

static enum tern_status reconcile_run(int argc, char **argv, struct tern_error *err) {
    struct reconcile *r = tern_alloc_zero(1, sizeof *r);
    const char *path[1];
    enum tern_status status = parse(argc, argv, r, path, err);
    if (!status)
        status = open_both(r, path[0], err);
    if (!status && strcmp(r->options.backend, "emu") == 0) /* before the long work, not behind it */
        status = tern_file_check_writable_dir(r->options.cache, err);
    if (!status) {
        const int failed = prove(r);
        if (failed)
            status = tern_error_set(err, TERN_FAILED, "%s: %d of 3 checks failed", path[0], failed);
    }
    free(r->unpacked);
    free(r->splits);
    free(r->ranks);
    tern_linears_free(&r->layers);
    tern_linears_free(&r->other_layers);
    tern_checkpoint_close(&r->checkpoint);
    tern_checkpoint_close(&r->other);
    free(r);
    return status;
}

const struct tern_command tern_command_reconcile = {"reconcile", "prove that a checkpoint is read right, and cut right",
                                                    reconcile_run, reconcile_help};
