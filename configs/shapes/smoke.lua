-- Two small layers for tests: tails everywhere (K = 320 is no multiple of 128, N = 264 none of 16, M odd).
return {
    title = "smoke test",
    source = "made up; serves no model",
    layers = {
        { name = "wide", n = 384, k = 256, count = 1 },
        { name = "tail", n = 264, k = 320, count = 1 },
    },
    decode = { 1, 3, 17 },
    formats = { "ternary-channel", "gptq4-g32" },
}
