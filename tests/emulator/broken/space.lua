-- broken: a right kernel with one bug at a time (kernel.cu), for the tests of worker/check.c.
return {
    name = "broken",
    ops = { "linear-a16" },
    summary = "deliberate bugs, one a value of BUG",
    families = { "ternary", "gptq" },
    bits = { 2, 3, 4, 8 },
    min_cc = 75,
    m = { 1, 64 },
    layout = "frag16x128",
    unit = "f32",
    entry = "tern_broken",
    efficiency = 0.01,
    exact_weights = true,
    params = {
        { name = "BUG", values = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }, default = 0, doc = "which bug; 0: none" },
        { name = "THREADS", values = { 32 }, default = 32, doc = "threads of a block" },
        { name = "ROWS", values = { 1 }, default = 1, doc = "rows of x a thread" },
    },
    valid = function(p, problem, gpu)
        if p.BUG == 12 then
            return false, "never valid"
        end
        return true
    end,
    launch = {
        grid = { "ceil_div(N,THREADS)" },
        block = "THREADS",
        smem = "BUG==11?300000:0",
        workspace = "256",
    },
}
