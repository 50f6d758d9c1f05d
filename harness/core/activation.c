/* Types of activations: names, ops and host conversions. */
#include "core/activation.h"

#include "core/half.h"

#include <string.h>

static const struct {
    const char *name, *op;
} activations[TERN_ACTIVATION_COUNT] = {
    [TERN_F16] = {"f16", "linear-a16"},
    [TERN_BF16] = {"bf16", "linear-bf16"},
    [TERN_INT8] = {"int8", "linear-a8"},
    [TERN_E4M3] = {"e4m3", "linear-e4m3"},
};

const char *tern_activation_name(enum tern_activation a) {
    return activations[a].name;
}

const char *tern_activation_op(enum tern_activation a) {
    return activations[a].op;
}

enum tern_status tern_activation_parse(const char *name, enum tern_activation *a, struct tern_error *err) {
    for (int i = 0; i < TERN_ACTIVATION_COUNT; i++)
        if (strcmp(activations[i].name, name) == 0) {
            *a = (enum tern_activation)i;
            return TERN_OK;
        }
    return tern_error_set(err, TERN_USAGE, "'%s' is no type of activations: f16, bf16, int8 or e4m3", name);
}

bool tern_activation_of_op(const char *op, enum tern_activation *a) {
    for (int i = 0; i < TERN_ACTIVATION_COUNT; i++)
        if (strcmp(activations[i].op, op) == 0) {
            *a = (enum tern_activation)i;
            return true;
        }
    return false;
}

uint16_t tern_activation_from_double(enum tern_activation a, double value) {
    return a == TERN_BF16 ? tern_bf16_from_double(value) : tern_half_from_double(value);
}

double tern_activation_to_double(enum tern_activation a, uint16_t bits) {
    return (double)(a == TERN_BF16 ? tern_bf16_to_float(bits) : tern_half_to_float(bits));
}
