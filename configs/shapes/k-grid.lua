-- Layers of no model: the K of common hidden and intermediate sizes at one N. Kernels for few rows of x keep all of a row's K, so that each suits
-- some K only: a table that has these layers answers those of other models better (docs/dispatch.md).
return {
    title = "grid of K",
    source = "K: hidden and intermediate sizes of Llama, Qwen, Mistral and Phi models; N: 5120, one of them",
    layers = {
        { name = "k2048", n = 5120, k = 2048, count = 1 },
        { name = "k4096", n = 5120, k = 4096, count = 1 },
        { name = "k5120", n = 5120, k = 5120, count = 1 },
        { name = "k11008", n = 5120, k = 11008, count = 1 },
        { name = "k14336", n = 5120, k = 14336, count = 1 },
    },
    decode = { 1, 2, 4, 8, 16, 32, 64 },
    prefill = { 128, 256, 512, 1024, 2048, 4096, 8192 },
    formats = { "ternary-g128", "gptq4-g128" },
}
