-- Llama-3-70B: linear layers with q, k, v fused into one product and gate, up into one. N = rows of the weight, K = columns.
return {
    title = "Llama-3-70B",
    source = "config.json of meta-llama/Meta-Llama-3-70B: hidden 8192, 64 heads, 8 key-value heads of 128, intermediate 28672, 80 layers",
    layers = {
        { name = "qkv", n = 10240, k = 8192, count = 80 },
        { name = "o", n = 8192, k = 8192, count = 80 },
        { name = "gate_up", n = 57344, k = 8192, count = 80 },
        { name = "down", n = 8192, k = 28672, count = 80 },
    },
    decode = { 1, 2, 4, 8, 16, 32, 64 },
    prefill = { 128, 256, 512, 1024, 2048, 4096, 8192 },
    formats = { "ternary-g128", "gptq4-g128" },
}
