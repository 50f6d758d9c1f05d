-- Qwen2.5-1.5B: linear layers with q, k, v fused into one product and gate, up into one. N = rows of the weight, K = columns.
return {
    title = "Qwen2.5-1.5B",
    source = "config.json of Qwen/Qwen2.5-1.5B: hidden 1536, 12 heads, 2 key-value heads of 128, intermediate 8960, 28 layers",
    layers = {
        { name = "qkv", n = 2048, k = 1536, count = 28 },
        { name = "o", n = 1536, k = 1536, count = 28 },
        { name = "gate_up", n = 17920, k = 1536, count = 28 },
        { name = "down", n = 1536, k = 8960, count = 28 },
    },
    decode = { 1, 2, 4, 8, 16, 32, 64 },
    prefill = { 128, 256, 512, 1024, 2048, 4096, 8192 },
    formats = { "ternary-g128", "gptq4-g128" },
}
