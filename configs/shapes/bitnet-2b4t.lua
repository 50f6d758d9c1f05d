-- BitNet b1.58 2B4T: linear layers with q, k, v fused into one product and gate, up into one. N = rows of the weight, K = columns.
-- Its checkpoint has one scale for each weight matrix. Fused matrices with several scales are split by whoever loads them.
return {
    title = "BitNet b1.58 2B4T",
    source = "config.json of microsoft/bitnet-b1.58-2B-4T: hidden 2560, 20 heads, 5 key-value heads of 128, intermediate 6912, 30 layers",
    layers = {
        { name = "qkv", n = 3840, k = 2560, count = 30 },
        { name = "o", n = 2560, k = 2560, count = 30 },
        { name = "gate_up", n = 13824, k = 2560, count = 30 },
        { name = "down", n = 2560, k = 6912, count = 30 },
    },
    decode = { 1, 2, 4, 8, 16, 32, 64 },
    prefill = { 128, 256, 512, 1024, 2048, 4096, 8192 },
    formats = { "ternary-tensor" },
}
