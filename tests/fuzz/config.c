/* libFuzzer target: the JSON files beside the weights. Input: two bytes with the length of a module's name, the name, a file, which is
 * read as quantize_config.json and as config.json. */
#include "formats/model.h"
#include "formats/quant_config.h"
#include "fuzz.h"

#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const files[] = {"quantize_config.json", "config.json"};
    struct tern_quant_settings settings;
    struct tern_error err = {0};
    struct tern_model model = {0};
    char path[PATH_MAX], name[256];
    size_t length;
    if (!fuzz_split(&data, &size, &length))
        return 0;
    tern_str_format(name, sizeof name, "%.*s", (int)(length < 200 ? length : 200), (const char *)data);
    for (int i = 0; i < 2; i++) {
        struct tern_quant_config *config = NULL;
        fuzz_write(files[i], data + length, size - length, path);
        enum tern_status status = tern_quant_config_find(getenv("FUZZ_DIR"), &config, &err);
        fuzz_judge(status, &err);
        if (!status)
            fuzz_judge(tern_quant_config_module(config, name, &settings, &err), &err);
        if (!status)
            fuzz_judge(tern_quant_config_module(config, "model.layers.0.self_attn.qkv_proj", &settings, &err), &err);
        tern_quant_config_free(config);
        if (i == 1)
            fuzz_judge(tern_model_check_config(getenv("FUZZ_DIR"), false, &model, &err), &err);
        tern_model_free(&model);
        unlink(path);
    }
    return 0;
}
