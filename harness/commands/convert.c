/* `tune convert`: writes a checkpoint's quantised layers in another format, without loss, and proves it by reading back. */
#include "commands/commands.h"

#include "core/log.h"
#include "core/options.h"
#include "formats/convert.h"
#include "formats/target.h"
#include "worker/interrupt.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define CONVERT_OPTION_COUNT 2

static void list_options(struct tern_convert_request *r, struct tern_option list[CONVERT_OPTION_COUNT]) {
    list[0] = (struct tern_option){"to", 0, TERN_OPTION_TEXT, &r->to, "FORMAT", "how the layers are to be stored", 0, 0};
    list[1] = (struct tern_option){"accept-suspect",
                                   0,
                                   TERN_OPTION_FLAG,
                                   &r->accept_suspect,
                                   NULL,
                                   "convert what the bits say of layers whose declaration disagrees with them",
                                   0,
                                   0};
}

static void convert_help(void) {
    struct tern_convert_request r = {0};
    struct tern_option options[CONVERT_OPTION_COUNT];
    list_options(&r, options);
    printf("usage: tune convert IN OUT --to FORMAT [--accept-suspect]\n\n"
           "IN is a file of weights, or the folder of a model. Writes the new folder OUT:\n"
           "quantised layers in FORMAT, all other tensors and files as they are, and the\n"
           "declaration that loaders of FORMAT read. Nothing is rounded: what FORMAT cannot\n"
           "hold exactly is refused (exit 1). OUT appears whole, after every weight and byte\n"
           "was read back and compared.\n\n"
           "formats:\n");
    for (size_t i = 0; i < tern_target_count; i++)
        printf("  %-16s %s\n", tern_targets[i].name, tern_targets[i].help);
    printf("\n");
    tern_options_help(options, CONVERT_OPTION_COUNT);
    printf("\nexample: tune convert models/bitnet-2b-gptq models/bitnet-2b --to ternary-i\n");
}

static void print_summary(const struct tern_convert_request *r, const struct tern_convert_summary *s) {
    for (size_t i = 0; i < s->notes.count && i < 8; i++)
        tern_log_note("note: %s", s->notes.items[i]);
    if (s->notes.count > 8)
        tern_log_note("note: and %zu more", s->notes.count - 8);
    printf("%s: %zu layer%s from %s to %s, %zu other tensor%s carried over\n", r->out, s->layers, s->layers == 1 ? "" : "s",
           s->from, r->to, s->carried, s->carried == 1 ? "" : "s");
    printf("read back and compared: %" PRId64 " weights, equal; %" PRId64 " bytes in %zu file%s, were %" PRId64 "\n",
           s->weights, s->out_bytes, s->files, s->files == 1 ? "" : "s", s->in_bytes);
}

static enum tern_status convert_run(int argc, char **argv, struct tern_error *err) {
    struct tern_convert_request r = {.stopped = tern_interrupted};
    struct tern_option options[CONVERT_OPTION_COUNT];
    struct tern_convert_summary s = {0};
    const char *paths[2];
    size_t count = 0;
    list_options(&r, options);
    enum tern_status status = tern_options_parse(options, CONVERT_OPTION_COUNT, argc, argv, paths, 2, &count, err);
    if (status)
        return status;
    if (count < 2 || !r.to) {
        tern_error_set(err, TERN_USAGE, count < 2 ? "convert needs two paths, IN and OUT" : "convert needs --to FORMAT");
        tern_error_hint(err, "for example: tune convert models/bitnet-2b-gptq models/bitnet-2b --to ternary-i");
        return TERN_USAGE;
    }
    r.in = paths[0];
    r.out = paths[1];
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error with a message, and the rest is removed */
    tern_interrupt_install();
    status = tern_convert(&r, &s, err);
    if (!status)
        print_summary(&r, &s);
    tern_strs_free(&s.notes);
    return status;
}

const struct tern_command tern_command_convert = {"convert", "store a checkpoint's layers in another format, without loss",
                                                  convert_run, convert_help};
