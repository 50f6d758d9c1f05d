/* libFuzzer target: opens a checkpoint, finds its layers, decodes and counts them all, and groups them into a model. Input: two bytes
 * with the length of a configuration, the configuration, a file of weights. */
#include "formats/census.h"
#include "formats/model.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tern_checkpoint checkpoint;
    struct tern_linears layers = {0};
    struct tern_model model = {0};
    struct tern_error err = {0};
    char path[PATH_MAX];
    size_t config;
    if (!fuzz_split(&data, &size, &config))
        return 0;
    fuzz_write("quantize_config.json", data, config, path);
    fuzz_write("model.safetensors", data + config, size - config, path);
    enum tern_status status = tern_checkpoint_open(path, &checkpoint, &err);
    fuzz_judge(status, &err);
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
    if (!status)
        fuzz_judge(tern_model_find(&checkpoint, &layers, false, &model, &err), &err);
    tern_model_free(&model);
    tern_linears_free(&layers);
    tern_checkpoint_close(&checkpoint);
    return 0;
}
