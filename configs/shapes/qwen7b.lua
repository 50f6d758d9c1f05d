-- Qwen2.5-7B: linear layers with q, k, v fused into one product and gate, up into one. N = rows of the weight, K = columns.
return {
    title = "Qwen2.5-7B",
    source = "config.json of Qwen/Qwen2.5-7B: hidden 3584, 28 heads, 4 key-value heads of 128, intermediate 18944, 28 layers",
    layers = {
        { name = "qkv", n = 4608, k = 3584, count = 28 },
        { name = "o", n = 3584, k = 3584, count = 28 },
        { name = "gate_up", n = 37888, k = 3584, count = 28 },
        { name = "down", n = 3584, k = 18944, count = 28 },
    },
    decode = { 1, 2, 4, 8, 16, 32, 64 },
    prefill = { 128, 256, 512, 1024, 2048, 4096, 8192 },
    formats = { "ternary-g128", "gptq4-g128" },
}
