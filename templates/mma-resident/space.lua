-- mma-resident: parameter space of the decode kernel that keeps x in registers (kernel.cu says what the parameters do).

local default = { FRAGMENTS = 2, WARPS_K = 14, K_TILES = 2, ADDERS = 1, ROW_TILES = 1, STAGES = 2 }

local function is_default(p)
    for name, value in pairs(default) do
        if p[name] ~= value then
            return false
        end
    end
    return true
end

local function ceil_div(a, b)
    return (a + b - 1) // b
end

-- Registers a thread needs, roughly.
local function registers(p, problem)
    local spans = problem.group % 128 == 0 and 1 or problem.group % 64 == 0 and 2 or 4
    local tile = 2 * problem.bits + spans * (problem.sym and 1 or 2)
    return p.K_TILES * (p.FRAGMENTS * (16 + 2 * spans) + p.ROW_TILES * tile) + 8 * p.ROW_TILES * p.FRAGMENTS + 16
end

-- In the order in which the parameters are declared: a refusal that reads the first few only is not asked again for the rest.
local function valid(p, problem, gpu)
    local fragments, k_tiles = p.FRAGMENTS, ceil_div(problem.k, 128)
    if problem.m > 8 * fragments then return false, "more rows of x than fragments" end
    local served = problem.m <= 8 * (fragments - 1) and "a fragment without rows of x"
        or fragments > 1 and problem.n > 64 and problem.n < 128 * gpu.sms and "few rows of W for the x of two fragments"
    if served and not is_default(p) then return false, served end
    local held = p.WARPS_K * p.K_TILES
    if held < k_tiles then return false, "the warps do not hold all of x" end
    if is_default(p) then return true end
    if problem.k > 2048 and k_tiles < 0.88 * held then return false, "warps without K tiles" end
    local warps = ceil_div(p.WARPS_K + 1 + p.ADDERS, 4) -- of a scheduler
    if registers(p, problem) > 16384 // (32 * warps) // 8 * 8 then return false, "too many registers" end
    local bytes = k_tiles * p.ROW_TILES * (256 * problem.bits + 48)
    if p.STAGES > 2 and p.STAGES * bytes > 110000 then return false, "more than 110 KB in flight" end
    if problem.n <= 64 then return true end -- small shapes check what large ones use
    local rows = ceil_div(problem.n, 16 * p.ROW_TILES * gpu.sms)
    if p.STAGES < rows and p.STAGES * bytes < 40000 then return false, "less than 40 KB in flight" end
    if p.STAGES > 2 and p.STAGES > rows then return false, "fewer stages hold all" end
    if p.ROW_TILES > 1 and rows < 2 then return false, "one row block" end
    if p.ROW_TILES == 1 and fragments == 1 and problem.bits == 2 and rows > 8 then return false, "row tiles for two side by side" end
    if p.ADDERS > 1 and rows * p.ROW_TILES < 3 then return false, "little to add up" end
    return true
end

return {
    name = "mma-resident",
    ops = { "linear-a16" },
    summary = "decode on tensor cores, x in registers, rows of W pass by: M = 2 to 16, K up to 6144",
    families = { "ternary", "gptq" },
    bits = { 2, 4 },
    min_cc = 90,
    m = { 2, 16 },
    layout = "frag16x128",
    unit = "mma-f16",
    entry = "tern_mma_resident",
    efficiency = 0.8,
    exact_weights = true,
    params = {
        { name = "FRAGMENTS", values = { 1, 2 }, default = default.FRAGMENTS,
          doc = "fragments of 8 rows of x" },
        { name = "WARPS_K", values = { 14, 16, 20, 24, 28 }, default = default.WARPS_K,
          doc = "warps that split K" },
        { name = "K_TILES", values = { 1, 2 }, default = default.K_TILES,
          doc = "K tiles of 128 whose x a warp keeps in registers" },
        { name = "ADDERS", values = { 1, 2 }, default = default.ADDERS,
          doc = "warps that add up the sums of the others" },
        { name = "ROW_TILES", values = { 1, 2 }, default = default.ROW_TILES,
          doc = "tiles of 16 rows that a warp multiplies side by side: a row block" },
        { name = "STAGES", values = { 2, 3 }, default = default.STAGES,
          doc = "row blocks of W in flight" },
    },
    valid = valid,
    launch = {
        dependent = true,
        grid = { "min(ceil_div(N,16*ROW_TILES),SMS)" },
        block = "32*(WARPS_K+1+ADDERS)",
        smem = "STAGES*ROW_TILES*WARPS_K*K_TILES*(256*BITS+48*(GROUP%128==0?1:GROUP%64==0?2:4))"
            .. "+3*WARPS_K*ROW_TILES*FRAGMENTS*512+16*(STAGES+3)",
    },
}
