-- bomb: a right kernel that some values of BOMB make the compiler fail on (kernel.cu), for tests of the compile workers.
return {
    name = "bomb",
    ops = { "linear-a16" },
    summary = "endless, huge and refused compiles, one a value of BOMB",
    families = { "ternary", "gptq" },
    bits = { 2, 3, 4, 8 },
    min_cc = 75,
    m = { 1, 65535 },
    layout = "frag16x128",
    unit = "f32",
    entry = "tern_naive",
    efficiency = 0.01,
    exact_weights = true,
    params = {
        { name = "THREADS", values = { 32 }, default = 32, doc = "threads of a block, one row of W each" },
        { name = "ROWS", values = { 1 }, default = 1, doc = "rows of x a thread multiplies by each decoded weight" },
        { name = "BOMB", values = { 0, 1, 2, 3, 4 }, default = 0, doc = "how the compiler fails" },
    },
    valid = function(p, problem, gpu)
        return true
    end,
    launch = {
        grid = { "ceil_div(N,THREADS)", "ceil_div(M,ROWS)" },
        block = "THREADS",
    },
}
