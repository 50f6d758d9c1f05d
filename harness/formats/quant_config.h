/* What the JSON files beside the weights declare about quantisation, for each module by its name in the checkpoint.
 * Read from quantize_config.json, quant_config.json or config.json["quantization_config"], the first that exists. */
#ifndef TERN_FORMATS_QUANT_CONFIG_H
#define TERN_FORMATS_QUANT_CONFIG_H

#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>

struct tern_quant_config;

/* What is not declared is 0, "" or, for the two choices, TERN_UNDECLARED. */
enum tern_declared { TERN_UNDECLARED, TERN_DECLARED_NO, TERN_DECLARED_YES };

struct tern_quant_settings {
    char method[32];       /* gptq, awq, compressed-tensors, ... */
    char format[32];       /* gptq, gptq_v2, gptq_p, gemm, pack-quantized, ... */
    char linear_class[32]; /* of bitnet: bitlinear, autobitlinear */
    int64_t bits;
    int64_t group; /* -1: one group */
    enum tern_declared sym, act_order;
    bool skip; /* declared as not quantised */
};

/* *config is NULL where no file declares anything; the caller frees it. */
enum tern_status tern_quant_config_find(const char *folder, struct tern_quant_config **config, struct tern_error *err);
void tern_quant_config_free(struct tern_quant_config *config);

/* Settings of one module, after `dynamic` rules (negative ones first, then the first match in file order), `config_groups` and
 * lists of modules that are left out. Rules speak of checkpoint names: a module that holds fused parts (qkv_proj, gate_up_proj)
 * and is not named itself gets what its parts get, TERN_FAILED if they differ. A NULL config declares nothing. */
enum tern_status tern_quant_config_module(const struct tern_quant_config *config, const char *module,
                                          struct tern_quant_settings *settings, struct tern_error *err);

#endif
