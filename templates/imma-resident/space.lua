-- imma-resident: parameter space of the integer decode kernel that keeps x in registers (kernel.cu says what the parameters do).

local default = { FRAGMENTS = 2, CLUSTER_K = 1, WARPS_K = 16, K_TILES = 2, ROW_TILES = 1, STAGES = 2 }

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

-- Registers a thread needs, roughly: x, offsets of scales, tiles loaded, sums.
local function registers(p, problem, spans)
    local x = p.FRAGMENTS * (p.K_TILES * (8 + 4 * spans) + 1)
    local entries = problem.group % 128 == 0 and problem.group <= 128 and 0 or p.ROW_TILES * p.K_TILES * spans
    local tile = 2 * problem.bits + spans * (problem.sym and 1 or 2)
    return x + entries + math.min(p.K_TILES, 2) * (p.ROW_TILES * tile + 4) + 4 * p.ROW_TILES * p.FRAGMENTS
        + (problem.bits == 3 and 4 or 0) + (p.K_TILES > 2 and 8 or 0) -- joined words; what spilled without it
end

-- Warps of a block: kernel.cu has a second one that adds up where there is more to add.
local function warps(p)
    return p.WARPS_K + (p.CLUSTER_K * p.ROW_TILES * p.FRAGMENTS > 1 and 3 or 2)
end

-- Whether the registers of a scheduler serve its warps.
local function fits(p, problem)
    local spans = problem.group % 128 == 0 and 1 or problem.group % 64 == 0 and 2 or 4 -- scales of a K tile
    if p.K_TILES > 2 and (p.ROW_TILES > 1 or spans > 1) then return false end -- spilled
    return registers(p, problem, spans) <= 16384 // (32 * ceil_div(warps(p), 4)) // 8 * 8
end

-- Clusters resident at once: of 4 and 8 blocks 10/11 of what would fill the GPU (the occupancy query says 30 and 15 on an H200).
local function clusters(p, gpu)
    return math.max((p.CLUSTER_K > 2 and gpu.sms * 10 // 11 or gpu.sms) // p.CLUSTER_K, 1)
end

-- What is hopeless with many rows of W. tiles: K tiles of a block.
local function walk_rule(p, problem, gpu, tiles)
    local rows = ceil_div(problem.n, 16 * p.ROW_TILES * clusters(p, gpu)) -- row blocks of a cluster
    local bytes = p.STAGES * tiles * p.ROW_TILES * (256 * problem.bits + 48)
    if p.ROW_TILES > 1 and problem.n <= 16 * clusters(p, gpu) then return "row blocks for half of the clusters" end
    if p.STAGES > 2 and p.STAGES > rows then return "fewer stages hold all" end
    if p.STAGES > 2 and bytes > 140000 then return "more than 140 KB in flight" end
    if p.STAGES < rows and bytes < 30000 then return "less than 30 KB in flight" end
end

local enough = { [4] = 64, [8] = 160 } -- K tiles of W; more want the cluster

-- In the order in which the parameters are declared: a refusal that reads the first few only is not asked again for the rest.
local function valid(p, problem, gpu)
    if problem.m > 2 * p.FRAGMENTS then return false, "more rows of x than fragments hold" end
    if problem.m <= 2 * (p.FRAGMENTS - 1) and not is_default(p) then return false, "a fragment without rows of x" end
    local k_tiles = ceil_div(problem.k, 128)
    if p.CLUSTER_K > k_tiles then return false, "fewer K tiles than blocks of a cluster" end
    if p.CLUSTER_K > 2 and k_tiles > 16 and k_tiles <= enough[p.CLUSTER_K] then return false, "half the cluster holds x" end
    local tiles, held = ceil_div(k_tiles, p.CLUSTER_K), p.WARPS_K * p.K_TILES -- of a block
    if held < tiles then return false, "the warps do not hold all of x" end
    if is_default(p) then return true end
    if problem.k > 2048 and tiles < 0.87 * held then return false, "warps without K tiles" end
    if not fits(p, problem) then return false, "too many registers" end
    if problem.n <= 64 then return true end -- small shapes check what large ones use
    local reason = walk_rule(p, problem, gpu, tiles)
    return reason == nil, reason
end

return {
    name = "imma-resident",
    ops = { "linear-a16", "linear-bf16" },
    summary = "decode on integer tensor cores, x as digits in registers, rows of W pass by: M = 1 to 4",
    families = { "ternary", "gptq" },
    bits = { 2, 3, 4 },
    min_cc = 90,
    m = { 1, 4 },
    layout = "frag16x128",
    unit = "mma-s8",
    entry = "tern_imma_resident",
    efficiency = 0.85,
    exact_weights = true,
    params = {
        { name = "FRAGMENTS", values = { 1, 2 }, default = default.FRAGMENTS,
          doc = "of columns, two rows of x each" },
        { name = "CLUSTER_K", values = { 1, 2, 4, 8 }, default = default.CLUSTER_K,
          doc = "blocks of a cluster that split K: each keeps its part of x, their sums meet" },
        { name = "WARPS_K", values = { 7, 13, 14, 16, 20, 22, 28 }, default = default.WARPS_K,
          doc = "warps that split the block's K" },
        { name = "K_TILES", values = { 1, 2, 3 }, default = default.K_TILES,
          doc = "K tiles of 128 whose x a warp keeps in registers" },
        { name = "ROW_TILES", values = { 1, 2 }, default = default.ROW_TILES,
          doc = "tiles of 16 rows that a warp multiplies side by side: a row block" },
        { name = "STAGES", values = { 2, 3, 4 }, default = default.STAGES,
          doc = "row blocks of W in flight" },
    },
    valid = valid,
    launch = {
        dependent = true,
        -- clusters of 4 and 8: as many as are resident at once, see clusters
        -- 0, no launch, where the warps do not hold all of x, or a block none of it: an exported table asks for sizes that valid() never saw
        grid = { "min(ceil_div(N,16*ROW_TILES),max((CLUSTER_K>2?SMS*10/11:SMS)/CLUSTER_K,1))*CLUSTER_K"
            .. "*(M<=2*FRAGMENTS)*(CLUSTER_K<=ceil_div(K,128))*(ceil_div(K,128*CLUSTER_K)<=WARPS_K*K_TILES)" },
        block = "32*(WARPS_K+(CLUSTER_K*ROW_TILES*FRAGMENTS>1?3:2))",
        -- stages; slots; barriers; sums of the cluster's other blocks: tern/resident.cuh, tern/cluster_meet.cuh
        smem = "STAGES*ROW_TILES*WARPS_K*K_TILES*(256*BITS+48*(GROUP%128==0?1:GROUP%64==0?2:4))"
            .. "+(ROW_TILES*FRAGMENTS==1?4:3*ROW_TILES*FRAGMENTS)*WARPS_K*256+16*(STAGES+4)"
            .. "+(CLUSTER_K>1?FRAGMENTS*(CLUSTER_K-1)*1024+(CLUSTER_K+1)*32:0)",
        cluster = "CLUSTER_K",
    },
}
