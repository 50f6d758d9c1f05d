/* libFuzzer target: opens a checkpoint, finds its layers and decodes them all. Input: two bytes with the length of a configuration,
 * the configuration, a file of weights. $FUZZ_DIR is an empty folder, best in memory. */
#include "formats/census.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_file(const char *name, const uint8_t *data, size_t size, char path[PATH_MAX]) {
    tern_str_format(path, PATH_MAX, "%s/%s", getenv("FUZZ_DIR"), name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tern_checkpoint checkpoint;
    struct tern_linears layers = {0};
    struct tern_error err = {0};
    char path[PATH_MAX];
    if (size < 2)
        return 0;
    size_t config = data[0] | (size_t)data[1] << 8;
    data += 2;
    size -= 2;
    config = config < size ? config : size;
    write_file("quantize_config.json", data, config, path);
    write_file("model.safetensors", data + config, size - config, path);
    enum tern_status status = tern_checkpoint_open(path, &checkpoint, &err);
    if (status && !err.text[0])
        abort(); /* an error without a fact */
    if (!status)
        tern_linears_find(&checkpoint, &layers);
    for (size_t i = 0; i < layers.count; i++) {
        struct tern_linears one = {&layers.items[i], 1}; /* alone: no threads */
        struct tern_census census;
        struct tern_str detail = {0};
        tern_census_take(&one, &census);
        tern_census_judge(&layers.items[i], &census, &detail);
        tern_str_free(&detail);
    }
    tern_linears_free(&layers);
    tern_checkpoint_close(&checkpoint);
    return 0;
}
