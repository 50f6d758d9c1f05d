-- mma-resident: parameter space of the decode kernel that keeps x in registers (kernel.cu says what the parameters do).

local default = { FRAGMENTS = 2, CLUSTER_K = 1, WARPS_K = 14, K_TILES = 2, WARPS_R = 1, ROW_TILES = 1, STAGES = 2, PHASE = 2 }

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
    return p.K_TILES * (p.FRAGMENTS * (16 + 2 * spans) + p.ROW_TILES * tile) + 8 * p.ROW_TILES * p.FRAGMENTS + 20
end

-- Row blocks of a cluster at most.
local function most_rows(p, problem, gpu)
    return ceil_div(problem.n, 16 * p.ROW_TILES * math.max(gpu.sms // p.CLUSTER_K, 1))
end

-- In the order in which the parameters are declared: a refusal that reads the first few only is not asked again for the rest.
local function valid(p, problem, gpu)
    local fragments = p.FRAGMENTS
    if problem.m > 8 * fragments then return false, "more rows of x than fragments" end
    if is_default(p) and problem.k <= 128 * p.WARPS_K * p.K_TILES then return true end
    if problem.m <= 8 * (fragments - 1) then return false, "a fragment without rows of x" end
    local cluster_k, k_tiles = p.CLUSTER_K, ceil_div(problem.k, 128)
    if cluster_k > k_tiles then return false, "fewer K tiles than blocks of a cluster" end
    local tiles = ceil_div(k_tiles, cluster_k)
    local warps_k, k_tiles_warp = p.WARPS_K, p.K_TILES
    if warps_k * k_tiles_warp < tiles then return false, "the warps do not hold all of the block's x" end
    if tiles < 0.85 * warps_k * k_tiles_warp then return false, "warps without K tiles" end
    local warps = warps_k * p.WARPS_R
    if warps > 28 or warps < 14 then return false, "14 to 28 warps hide latencies" end
    if registers(p, problem) > 65536 // (32 * warps + 32) // 8 * 8 then return false, "too many registers" end
    if p.STAGES % p.WARPS_R ~= 0 then return false, "a stage has its warps" end
    local bytes = tiles * p.ROW_TILES * (256 * problem.bits + 48)
    if p.STAGES > 2 and p.STAGES * bytes > 100000 then return false, "more than 100 KB in flight" end
    if problem.n <= 64 then return true end -- small shapes check what large ones use
    local rows = most_rows(p, problem, gpu)
    if p.WARPS_R > rows then return false, "fewer row blocks than warps that take turns" end
    if p.STAGES < rows and p.STAGES * bytes < 40000 then return false, "less than 40 KB in flight" end
    if p.STAGES >= 2 * rows then return false, "fewer stages hold all" end
    local own = ceil_div(rows, p.WARPS_R) -- row blocks of a warp
    if own > 1 and p.PHASE < 2 then return false, "a sum over the warps for each row block" end
    if p.PHASE >= 2 * own and p.PHASE > 1 then return false, "one phase holds all row blocks" end
    return true
end

local clusters = "max(SMS/CLUSTER_K,1)"
local most = "ceil_div(N,16*ROW_TILES*" .. clusters .. ")" -- row blocks of a cluster

return {
    name = "mma-resident",
    op = "linear-a16",
    summary = "decode on tensor cores, x in registers, rows of W pass by: M up to 16",
    families = { "ternary", "gptq" },
    bits = { 2, 4 },
    activation = "f16",
    min_cc = 90,
    m = { 1, 16 },
    layout = "frag16x128",
    unit = "mma-f16",
    entry = "tern_mma_resident",
    efficiency = 0.8,
    exact_weights = true,
    params = {
        { name = "FRAGMENTS", values = { 1, 2 }, default = default.FRAGMENTS,
          doc = "fragments of 8 rows of x" },
        { name = "CLUSTER_K", values = { 1, 2 }, default = default.CLUSTER_K,
          doc = "blocks of a cluster that split K" },
        { name = "WARPS_K", values = { 7, 10, 14, 16, 20, 28 }, default = default.WARPS_K,
          doc = "warps that split the block's K" },
        { name = "K_TILES", values = { 1, 2 }, default = default.K_TILES,
          doc = "K tiles of 128 whose x a warp keeps in registers" },
        { name = "WARPS_R", values = { 1, 2, 4 }, default = default.WARPS_R,
          doc = "warps that take row blocks of the same K in turn" },
        { name = "ROW_TILES", values = { 1, 2 }, default = default.ROW_TILES,
          doc = "tiles of 16 rows that a warp multiplies side by side: a row block" },
        { name = "STAGES", values = { 2, 3, 4, 6, 8 }, default = default.STAGES,
          doc = "row blocks of W in flight" },
        { name = "PHASE", values = { 1, 2, 4, 9 }, default = default.PHASE,
          doc = "row blocks of a warp between two sums over the warps" },
    },
    valid = valid,
    launch = {
        grid = { "min(ceil_div(N,16*ROW_TILES)," .. clusters .. ")*CLUSTER_K" },
        block = "32*(WARPS_K*WARPS_R+1)",
        -- the ring and its barriers; slots; what the blocks of a cluster send each other: kernel.cu, tern_places.
        smem = "STAGES*(ROW_TILES*WARPS_K*K_TILES*(256*BITS+48*(GROUP%128==0?1:GROUP%64==0?2:4))+16)+16"
            .. "+max(M*(ceil_div(K,128*CLUSTER_K)*256+64),ROW_TILES*FRAGMENTS*512*(" .. most .. ">PHASE*WARPS_R?2:1)*PHASE*WARPS_R*WARPS_K)"
            .. "+(CLUSTER_K>1?ceil_div(" .. most .. ",CLUSTER_K)*CLUSTER_K*ROW_TILES*FRAGMENTS*512:0)",
        cluster = "CLUSTER_K",
    },
}
