/* libFuzzer target: both containers, in memory. Input: a file; what begins with GGUF is read as that, all else as safetensors. Every
 * tensor's bytes are touched: an offset that passes the file shows. */
#include "formats/checkpoint.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tern_checkpoint checkpoint = {0};
    struct tern_error err = {0};
    struct tern_mapping file = {(char *)"input", data, (int64_t)size};
    const struct tern_container *container =
        size >= 4 && memcmp(data, "GGUF", 4) == 0 ? &tern_container_gguf : &tern_container_safetensors;
    fuzz_judge(container->read(&checkpoint, &file, &err), &err);
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < checkpoint.tensor_count; i++)
        for (int64_t at = 0; at < checkpoint.tensors[i].bytes; at++)
            sum = (uint8_t)(sum + tern_tensor_data(&checkpoint.tensors[i])[at]);
    tern_checkpoint_close(&checkpoint);
    return 0;
}
