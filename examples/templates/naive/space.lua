-- naive: the smallest template, for reading and copying. What each key means stands in docs/adding-a-kernel.md.
return {
    name = "naive",
    ops = { "linear-a16" },
    summary = "one thread for a few elements of y, weights decoded one at a time; an example",
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
        { name = "THREADS", values = { 32, 64, 128, 256 }, default = 128, doc = "threads of a block, one row of W each" },
        { name = "ROWS", values = { 1, 2, 4, 8 }, default = 1, doc = "rows of x a thread multiplies by each decoded weight" },
    },
    valid = function(p, problem, gpu)
        if p.ROWS > problem.m then
            return false, "more ROWS than M"
        end
        return true
    end,
    launch = {
        grid = { "ceil_div(N,THREADS)", "ceil_div(M,ROWS)" },
        block = "THREADS",
    },
}
