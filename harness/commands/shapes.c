/* `tune shapes`: writes the shapes file of a model from its checkpoint, so that no sizes are typed by hand. */
#include "commands/commands.h"

#include "commands/model_shapes.h"
#include "core/file.h"
#include "core/log.h"
#include "core/options.h"

#include <stdio.h>
#include <string.h>

#define SHAPES_OPTION_COUNT 2

struct shapes_options {
    const char *output;
    bool accept_suspect;
};

static void list_options(struct shapes_options *o, struct tern_option list[SHAPES_OPTION_COUNT]) {
    list[0] = (struct tern_option){
        "output", 'o', TERN_OPTION_TEXT, &o->output, "FILE", "where to write (default: standard output)", 0, 0};
    list[1] = (struct tern_option){"accept-suspect",
                                   0,
                                   TERN_OPTION_FLAG,
                                   &o->accept_suspect,
                                   NULL,
                                   "write what the tensors say where config.json says otherwise",
                                   0,
                                   0};
}

static void shapes_help(void) {
    struct shapes_options o = {0};
    struct tern_option options[SHAPES_OPTION_COUNT];
    list_options(&o, options);
    printf("usage: tune shapes MODEL_DIR [-o FILE] [--accept-suspect]\n\n"
           "Writes the shapes file of a model for --shapes: its linear layers as an engine\n"
           "runs them (q, k and v in one, gate and up in one), how often each occurs, and\n"
           "their formats; from config.json and the tensors. If these contradict each other,\n"
           "it says where (exit 1).\n\n");
    tern_options_help(options, SHAPES_OPTION_COUNT);
    printf("\nexample: tune shapes models/qwen2.5-7b-gptq -o qwen.lua\n         tune --gpu h200 --shapes qwen.lua\n");
}

static enum tern_status write_shapes(const struct tern_shapes *shapes, const char *output, struct tern_error *err) {
    struct tern_str text = {0};
    tern_shapes_text(shapes, &text);
    enum tern_status status = output ? tern_file_write(output, text.data, text.length, err) : TERN_OK;
    if (!output)
        fputs(text.data, stdout);
    tern_str_free(&text);
    return status;
}

static enum tern_status shapes_run(int argc, char **argv, struct tern_error *err) {
    struct shapes_options o = {0};
    struct tern_option options[SHAPES_OPTION_COUNT];
    struct tern_model_file file;
    struct tern_shapes shapes;
    struct tern_strs notes = {0};
    const char *path[1];
    size_t count = 0;
    list_options(&o, options);
    enum tern_status status = tern_options_parse(options, SHAPES_OPTION_COUNT, argc, argv, path, 1, &count, err);
    if (status)
        return status;
    if (count == 0) {
        tern_error_set(err, TERN_USAGE, "shapes needs the folder of a model");
        tern_error_hint(err, "for example: tune shapes models/qwen2.5-7b-gptq -o qwen.lua");
        return TERN_USAGE;
    }
    status = tern_model_open(path[0], o.accept_suspect, &file, err);
    if (!status)
        status = tern_model_shapes(&file, &shapes, &notes, err);
    for (size_t i = 0; i < file.model.notes.count; i++)
        tern_log_warn(NULL, "%s", file.model.notes.items[i]);
    for (size_t i = 0; i < notes.count; i++)
        tern_log_warn(NULL, "%s", notes.items[i]);
    if (!status)
        status = write_shapes(&shapes, o.output, err);
    tern_strs_free(&notes);
    tern_model_close(&file);
    return status;
}

const struct tern_command tern_command_shapes = {"shapes", "write the shapes file of a model from its checkpoint",
                                                 shapes_run, shapes_help};
