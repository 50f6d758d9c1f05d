-- Qwen2.5-0.5B: linear layers with q, k, v fused into one product and gate, up into one. N = rows of the weight, K = columns.
return {
    title = "Qwen2.5-0.5B",
    source = "config.json of Qwen/Qwen2.5-0.5B: hidden 896, 14 heads, 2 key-value heads of 64, intermediate 4864, 24 layers",
    layers = {
        { name = "qkv", n = 1152, k = 896, count = 24 },
        { name = "o", n = 896, k = 896, count = 24 },
        { name = "gate_up", n = 9728, k = 896, count = 24 },
        { name = "down", n = 896, k = 4864, count = 24 },
    },
    decode = { 1, 2, 4, 8, 16, 32, 64 },
    prefill = { 128, 256, 512, 1024, 2048, 4096, 8192 },
    formats = { "ternary-g128", "gptq4-g128" },
}
