/* libFuzzer target: converts a checkpoint into every format. Input as in checkpoint.c. A conversion either succeeds, which means that
 * what it wrote was read back equal, or names a fact of the input; a difference when read back, and anything left behind, is a fault. */
#include "core/file.h"
#include "formats/convert.h"
#include "formats/target.h"
#include "fuzz.h"

#include <unistd.h>

static void remove_folder(const char *path) {
    struct tern_strs names = {0};
    if (tern_file_list(path, "", &names, NULL) == TERN_OK)
        for (size_t i = 0; i < names.count; i++) {
            char file[PATH_MAX];
            tern_str_format(file, sizeof file, "%.2000s/%s", path, names.items[i]);
            unlink(file);
        }
    tern_strs_free(&names);
    rmdir(path);
}

static void check_nothing_left(void) {
    struct tern_strs names = {0};
    char path[PATH_MAX];
    fuzz_path("", path);
    if (tern_file_list(path, "", &names, NULL) != TERN_OK || names.count != 2)
        abort();
    tern_strs_free(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tern_error err = {0};
    char path[PATH_MAX], out[PATH_MAX];
    size_t config;
    if (!fuzz_split(&data, &size, &config))
        return 0;
    fuzz_write("quantize_config.json", data, config, path);
    fuzz_write("model.safetensors", data + config, size - config, path);
    fuzz_path("out", out);
    for (size_t i = 0; i < tern_target_count; i++) {
        const struct tern_convert_request request = {
            .in = path, .out = out, .to = tern_targets[i].name, .accept_suspect = true};
        struct tern_convert_summary summary;
        enum tern_status status = tern_convert(&request, &summary, &err);
        fuzz_judge(status, &err);
        tern_strs_free(&summary.notes);
        if (!status)
            remove_folder(out);
        check_nothing_left();
    }
    return 0;
}
