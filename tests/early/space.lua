-- early: faults of kernels that are launched dependently (kernel.cu), one a value of FAULT.
return {
    name = "early",
    ops = { "linear-a16" },
    summary = "deliberate faults of dependent launches",
    families = { "ternary", "gptq" },
    bits = { 2, 4 },
    min_cc = 75,
    m = { 1, 64 },
    layout = "frag16x128",
    unit = "f32",
    entry = "tern_early",
    efficiency = 0.01,
    exact_weights = true,
    params = {
        { name = "FAULT", values = { 0, 1, 2, 3, 4 }, default = 0, doc = "which fault; 0: none" },
        { name = "THREADS", values = { 64 }, default = 64, doc = "threads of a block, one row of W each" },
        { name = "ROWS", values = { 1 }, default = 1, doc = "rows of x a thread, of the naive kernel in front" },
    },
    valid = function(p, problem, gpu)
        return true
    end,
    launch = {
        dependent = true,
        grid = { "ceil_div(N,THREADS)" },
        block = "THREADS",
        workspace = "4*N",
    },
}
