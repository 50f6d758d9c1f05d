/* Reads scales of three types; nothing is rounded. */
#include "formats/scales.h"

#include "core/half.h"

#include <string.h>

bool tern_scales_readable(const struct tern_tensor *tensor) {
    return strcmp(tensor->dtype, "F16") == 0 || strcmp(tensor->dtype, "BF16") == 0 || strcmp(tensor->dtype, "F32") == 0;
}

void tern_scales_read(const struct tern_tensor *tensor, int64_t first, int64_t count, float *out) {
    const int size = strcmp(tensor->dtype, "F32") == 0 ? 4 : 2;
    const bool half = strcmp(tensor->dtype, "F16") == 0;
    const uint8_t *data = tern_tensor_data(tensor) + first * size;
    if (size == 4) {
        memcpy(out, data, (size_t)count * sizeof *out);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits = (uint16_t)(data[2 * i] | data[2 * i + 1] << 8);
        out[i] = half ? tern_half_to_float(bits) : tern_bf16_to_float(bits);
    }
}
