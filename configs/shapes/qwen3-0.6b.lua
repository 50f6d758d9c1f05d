-- Qwen3-0.6B: linear layers with q, k, v fused into one product and gate, up into one. N = rows of the weight, K = columns.
return {
    title = "Qwen3-0.6B",
    source = "config.json of Qwen/Qwen3-0.6B: hidden 1024, 16 heads, 8 key-value heads of 128, intermediate 3072, 28 layers",
    layers = {
        { name = "qkv", n = 4096, k = 1024, count = 28 },
        { name = "o", n = 1024, k = 2048, count = 28 },
        { name = "gate_up", n = 6144, k = 1024, count = 28 },
        { name = "down", n = 1024, k = 3072, count = 28 },
    },
    decode = { 1, 2, 4, 8, 16, 32, 64 },
    prefill = { 128, 256, 512, 1024, 2048, 4096, 8192 },
    formats = { "ternary-g128", "gptq4-g128" },
}
