/* ggml types: ids, names and sizes of their blocks, and ids that only other programs know.
 * A row here makes tensors of a type listed and measured; decoding is ternary.c's. */
#include "formats/gguf.h"

static const struct tern_ggml_type ggml_types[] = {
    {0, "F32", 1, 4},
    {1, "F16", 1, 2},
    {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},
    {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},
    {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},
    {12, "Q4_K", 256, 144},
    {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},
    {15, "Q8_K", 256, 292},
    {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98},
    {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},
    {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136},
    {24, "I8", 1, 1},
    {25, "I16", 1, 2},
    {26, "I32", 1, 4},
    {27, "I64", 1, 8},
    {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},
    {TERN_GGML_TQ1_0, "TQ1_0", 256, 54},
    {TERN_GGML_TQ2_0, "TQ2_0", 256, 66},
    {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},
    {TERN_GGML_Q2_0, "Q2_0", 64, 18},
};

/* Ids that files in the wild carry and upstream ggml cannot read. */
static const struct {
    uint32_t id;
    const char *what;
} foreign_types[] = {
    {4, "Q4_2, removed from ggml"},      {5, "Q4_3, removed from ggml"},
    {31, "Q4_0_4_4, removed from ggml"}, {32, "Q4_0_4_8, removed from ggml"},
    {33, "Q4_0_8_8, removed from ggml"}, {36, "I2_S of bitnet.cpp? Its block order depends on the machine that wrote it"},
    {37, "I8_S of bitnet.cpp?"},         {38, "TL1 of bitnet.cpp? Its tile order is in a kernel_config.ini beside it"},
};

const struct tern_ggml_type *tern_ggml_type_find(uint32_t id) {
    for (size_t i = 0; i < sizeof ggml_types / sizeof ggml_types[0]; i++)
        if (ggml_types[i].id == id)
            return &ggml_types[i];
    return NULL;
}

const char *tern_ggml_type_foreign(uint32_t id) {
    for (size_t i = 0; i < sizeof foreign_types / sizeof foreign_types[0]; i++)
        if (foreign_types[i].id == id)
            return foreign_types[i].what;
    return NULL;
}
