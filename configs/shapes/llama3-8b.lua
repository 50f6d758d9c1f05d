-- Llama-3-8B: linear layers with q, k, v fused into one product and gate, up into one. N = rows of the weight, K = columns.
return {
    title = "Llama-3-8B",
    source = "config.json of meta-llama/Meta-Llama-3-8B: hidden 4096, 32 heads, 8 key-value heads of 128, intermediate 14336, 32 layers",
    layers = {
        { name = "qkv", n = 6144, k = 4096, count = 32 },
        { name = "o", n = 4096, k = 4096, count = 32 },
        { name = "gate_up", n = 28672, k = 4096, count = 32 },
        { name = "down", n = 4096, k = 14336, count = 32 },
    },
    decode = { 1, 2, 4, 8, 16, 32, 64 },
    prefill = { 128, 256, 512, 1024, 2048, 4096, 8192 },
    formats = { "ternary-g128", "gptq4-g128" },
}
