-- planted: faults for tests on a real GPU (kernel.cu), one a value of FAULT.
return {
    name = "planted",
    ops = { "linear-a16" },
    summary = "deliberate faults",
    families = { "ternary", "gptq" },
    bits = { 2, 4 },
    min_cc = 75,
    m = { 1, 64 },
    layout = "frag16x128",
    unit = "f32",
    entry = "tern_planted",
    efficiency = 0.01,
    exact_weights = true,
    params = {
        { name = "FAULT", values = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 }, default = 0, doc = "which fault; 0: none" },
        { name = "WHERE", values = { 0, 1 }, default = 0, doc = "0: everywhere; 1: only where N is 256 and more" },
        { name = "THREADS", values = { 128 }, default = 128, doc = "threads of a block, one row of W each" },
        { name = "ROWS", values = { 1 }, default = 1, doc = "rows of x a thread multiplies by each decoded weight" },
    },
    -- 24 of them: a problem has 48 candidates compiled at most, half of them of another template.
    valid = function(p, problem, gpu)
        local everywhere = p.FAULT <= 5 or p.FAULT >= 11
        local large = p.FAULT >= 1 and p.FAULT <= 13 and p.FAULT ~= 12
        if (p.WHERE == 0 and not everywhere) or (p.WHERE == 1 and not large) then
            return false, "nothing new: the check has tests of its own, or the fault does not depend on the shape"
        end
        return true
    end,
    launch = {
        grid = { "ceil_div(N,THREADS)" },
        block = "FAULT==12?1024:THREADS",
        workspace = "256",
    },
}
