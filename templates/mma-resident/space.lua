-- mma-resident: parameter space of the decode kernel that keeps x in registers (kernel.cu says what the parameters do).

local default = { FRAGMENTS = 2, CLUSTER_K = 1, WARPS_K = 14, K_TILES = 2, TOGETHER = 0, ADDERS = 1, ROW_TILES = 1, STAGES = 2 }

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

-- Registers a multiplying thread needs, roughly.
local function registers(p, problem)
    local spans = problem.group % 128 == 0 and 1 or problem.group % 64 == 0 and 2 or 4
    local tile = 2 * problem.bits + spans * (problem.sym and 1 or 2)
    local entries = problem.group % 128 == 0 and problem.group <= 128 and 0 or p.K_TILES * spans
    local tiles = p.K_TILES * p.ROW_TILES -- side by side
    local chains = tiles * p.FRAGMENTS < 4 and 2 or 1
    return p.K_TILES * p.FRAGMENTS * (16 + 2 * spans) + entries + tiles * tile + 4 * chains * tiles * p.FRAGMENTS + 14
end

-- Whether the other warps leave registers to the multiplying ones (kernel.cu, MOVED).
local function moved(p)
    return p.WARPS_K % 4 == 0 and p.WARPS_K < 24 and p.ADDERS > 0 and p.ADDERS < 4 and p.K_TILES * p.FRAGMENTS > 2
end

-- Registers a multiplying thread has.
local function share(p)
    if moved(p) then
        return (2048 // (p.WARPS_K + 4) // 8 * 8 * (p.WARPS_K + 4) - 4 * 32) // p.WARPS_K // 8 * 8
    end
    return 16384 // (32 * ceil_div(p.WARPS_K + 1 + p.ADDERS, 4)) // 8 * 8
end

-- Clusters resident at once: of 4 and 8 blocks 10/11 of what would fill the GPU (the occupancy query says 30 and 15 on an H200).
local function clusters(p, gpu)
    return math.max((p.CLUSTER_K > 2 and gpu.sms * 10 // 11 or gpu.sms) // p.CLUSTER_K, 1)
end

local function fits(p, problem)
    return registers(p, problem) <= share(p)
end

-- Whether more warps may add up without taking registers that x needs.
local function fits_adders(p, problem, adders)
    local block = { FRAGMENTS = p.FRAGMENTS, WARPS_K = p.WARPS_K, K_TILES = p.K_TILES, ADDERS = adders, ROW_TILES = p.ROW_TILES }
    return fits(block, problem)
end

local warp_values, tile_values = { 7, 8, 12, 14, 16, 20, 24 }, { 1, 2 }

-- Most K tiles that the warps of a block can hold.
local function most_tiles(p, problem)
    local most = 0
    for _, warps in ipairs(warp_values) do
        for _, tiles in ipairs(tile_values) do
            local block = { FRAGMENTS = p.FRAGMENTS, WARPS_K = warps, K_TILES = tiles, ADDERS = 1, ROW_TILES = 1 }
            if fits(block, problem) then most = math.max(most, warps * tiles) end
        end
    end
    return most
end

-- What is hopeless with many rows of W. tiles: K tiles of a block.
local function walk_rule(p, problem, gpu, tiles)
    local rows = ceil_div(problem.n, 16 * p.ROW_TILES * clusters(p, gpu)) -- row blocks of a cluster
    local bytes = p.STAGES * tiles * p.ROW_TILES * (256 * problem.bits + 48)
    -- with few rows what x costs decides: a smaller part of it is there earlier
    local few = rows * p.ROW_TILES <= (p.FRAGMENTS > 1 and 20 or 12)
    if p.CLUSTER_K > 1 and not few and 2 * tiles <= most_tiles(p, problem) then return "half the cluster holds x" end
    if p.CLUSTER_K == 1 and p.FRAGMENTS > 1 and rows <= 4 then return "few rows of W for the x of two fragments" end
    if p.TOGETHER == 1 and p.ADDERS > 0 and problem.k <= 4096 then return "nothing gained with a short K" end
    if p.ADDERS > 2 * p.FRAGMENTS * p.ROW_TILES then return "more adders than there is to add up" end
    if p.ADDERS == 3 and p.WARPS_K % 4 > 0 then return "three adders and no whole warpgroup" end
    if p.ADDERS == 1 and fits_adders(p, problem, 2) then return "one adder where two fit" end
    if p.STAGES > 2 and p.STAGES > rows then return "fewer stages hold all" end
    if p.STAGES > 2 and bytes > 140000 then return "more than 140 KB in flight" end
    if p.STAGES < rows and bytes < (few and 15000 or 30000) then return "too little in flight" end
    if p.ROW_TILES > 1 and rows < 2 then return "one row block" end
end

-- In the order in which the parameters are declared: a refusal that reads the first few only is not asked again for the rest.
local function valid(p, problem, gpu)
    if problem.m > 8 * p.FRAGMENTS then return false, "more rows of x than fragments" end
    if problem.m <= 8 * (p.FRAGMENTS - 1) and not is_default(p) then return false, "a fragment without rows of x" end
    if p.ADDERS == 0 and (p.CLUSTER_K > 1 or p.FRAGMENTS == 1) then return false, "too much for the copying warp" end
    if p.ADDERS == 0 and p.TOGETHER == 0 then return false, "stages are the copying warp's" end
    if p.TOGETHER == 1 and p.STAGES < 3 then return false, "too few stages to wait for sums" end
    local k_tiles = ceil_div(problem.k, 128)
    if p.CLUSTER_K > k_tiles then return false, "fewer K tiles than blocks of a cluster" end
    local tiles, held = ceil_div(k_tiles, p.CLUSTER_K), p.WARPS_K * p.K_TILES -- of a block
    if held < tiles then return false, "the warps do not hold all of x" end
    if is_default(p) then return true end
    -- 16 warps of two tiles hold 28 as well as 14 do, and four schedulers then have as much to do
    local least = p.K_TILES > 1 and p.FRAGMENTS == 1 and 0.87 or 0.88
    if problem.k > 2048 and tiles < least * held then return false, "warps without K tiles" end
    if problem.k > 2048 and p.K_TILES > 1 and p.WARPS_K < 12 then return false, "few warps of several tiles" end
    if not fits(p, problem) then return false, "too many registers" end
    if p.ADDERS > 3 * p.FRAGMENTS * p.ROW_TILES then return false, "an adder two laps ahead" end
    if problem.n <= 136 then return true end -- small shapes check what large ones use
    local reason = walk_rule(p, problem, gpu, tiles)
    return reason == nil, reason
end

return {
    name = "mma-resident",
    ops = { "linear-a16" },
    summary = "decode on tensor cores, x in registers, rows of W pass by: M = 5 to 16",
    families = { "ternary", "gptq" },
    bits = { 2, 3, 4 },
    min_cc = 90,
    m = { 5, 16 },
    layout = "frag16x128",
    unit = "mma-f16",
    entry = "tern_mma_resident",
    efficiency = 0.8,
    exact_weights = true,
    params = {
        { name = "FRAGMENTS", values = { 1, 2 }, default = default.FRAGMENTS,
          doc = "fragments of 8 rows of x" },
        { name = "CLUSTER_K", values = { 1, 2, 4, 8 }, default = default.CLUSTER_K,
          doc = "blocks of a cluster that split K: each keeps its part of x, their sums meet" },
        { name = "WARPS_K", values = warp_values, default = default.WARPS_K,
          doc = "warps that split the block's K" },
        { name = "K_TILES", values = tile_values, default = default.K_TILES,
          doc = "K tiles of 128 whose x a warp keeps in registers" },
        { name = "TOGETHER", values = { 0, 1 }, default = default.TOGETHER,
          doc = "1: stages are given back with their sums" },
        { name = "ADDERS", values = { 0, 1, 2, 3, 4 }, default = default.ADDERS,
          doc = "warps that add up the sums of the others; 0: the copying warp does" },
        { name = "ROW_TILES", values = { 1, 2 }, default = default.ROW_TILES,
          doc = "tiles of 16 rows that a warp multiplies side by side: a row block" },
        { name = "STAGES", values = { 2, 3 }, default = default.STAGES,
          doc = "row blocks of W in flight" },
    },
    valid = valid,
    launch = {
        dependent = true,
        -- clusters of 4 and 8: as many as are resident at once, see clusters
        -- 0, no launch, where the warps do not hold all of x, or a block none of it: an exported table asks for sizes that valid() never saw
        grid = { "min(ceil_div(N,16*ROW_TILES),max((CLUSTER_K>2?SMS*10/11:SMS)/CLUSTER_K,1))*CLUSTER_K"
            .. "*(M<=8*FRAGMENTS)*(CLUSTER_K<=ceil_div(K,128))*(ceil_div(K,128*CLUSTER_K)<=WARPS_K*K_TILES)" },
        block = "32*(WARPS_K+((WARPS_K%4==0)*(WARPS_K<24)*(ADDERS>0)*(ADDERS<4)*(K_TILES*FRAGMENTS>2)?4:1+ADDERS))", -- moved()
        smem = "STAGES*ROW_TILES*WARPS_K*K_TILES*(256*BITS+48*(GROUP%128==0?1:GROUP%64==0?2:4))"
            .. "+(STAGES==2?4:STAGES)*(WARPS_K*ROW_TILES*FRAGMENTS*512+16)+16*STAGES"
            -- sums of the cluster's other blocks: tern/cluster_meet.cuh
            .. "+(CLUSTER_K>1?(CLUSTER_K-1)*2048+(CLUSTER_K+1)*32:0)",
        cluster = "CLUSTER_K",
    },
}
