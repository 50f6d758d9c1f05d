-- imma-decode: parameter space of the integer tensor-core decode kernel (kernel.cu says what the parameters do).

local default = { M_TILE = 4, BULK = 0, CLUSTER_K = 1, WARPS = 16, TILES = 2, STAGES = 2 }

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

-- Bytes of shared memory, as the smem expression below.
local function shared(p, problem, gpu)
    local most = ceil_div(problem.n, 16 * math.max(gpu.sms // p.CLUSTER_K, 1))
    local tiles = ceil_div(problem.k, 128 * p.CLUSTER_K)
    local spans = problem.group % 128 == 0 and 1 or 4
    return p.WARPS * (p.STAGES * (p.TILES * (256 * problem.bits + 48 * spans) + 8) + 4)
        + tiles * spans * ceil_div(6 * p.M_TILE, 8) * 16 + (most * p.M_TILE + p.CLUSTER_K) * 64
        + p.WARPS * (most // p.WARPS + 2) * problem.m * 288 + problem.m * (tiles * 1024 + 384)
end

-- In the order in which the parameters are declared: a refusal that reads the first few only is not asked again for the rest.
local function valid(p, problem, gpu)
    local m_tile = p.M_TILE
    if problem.m > m_tile then return false, "M_TILE is less than M" end
    if problem.m <= m_tile // 2 and not is_default(p) then return false, "M_TILE is twice M or more" end
    if p.BULK == 1 and gpu.cc < 90 then return false, "bulk copies need cc 9.0" end
    local cluster_k, k_tiles = p.CLUSTER_K, ceil_div(problem.k, 128)
    if cluster_k > 1 and gpu.cc < 90 then return false, "clusters need cc 9.0" end
    if cluster_k > k_tiles then return false, "fewer K tiles than blocks of a cluster" end
    if cluster_k > 1 and ceil_div(problem.n, 16) >= 4 * gpu.sms then return false, "enough row tiles without splitting K" end
    if p.TILES * p.STAGES > 8 then return false, "4 to 8 tiles in flight a warp" end
    if shared(p, problem, gpu) > gpu.smem_block_bytes then return false, "x and the rings do not fit in shared memory" end
    return true
end

local tiles = "ceil_div(K,128*CLUSTER_K)"
local spans = "(GROUP%128==0?1:4)"
local most = "ceil_div(N,16*max(SMS/CLUSTER_K,1))" -- row tiles of a cluster

return {
    name = "imma-decode",
    ops = { "linear-a16" },
    summary = "decode on integer tensor cores: x as six exact 8-bit digits, codes masked and not converted",
    families = { "ternary", "gptq" },
    bits = { 2, 4 },
    min_cc = 80,
    m = { 1, 4 },
    layout = "frag16x128",
    unit = "mma-s8",
    entry = "tern_imma_decode",
    efficiency = 0.75,
    exact_weights = true,
    params = {
        { name = "M_TILE", values = { 1, 2, 4 }, default = default.M_TILE,
          doc = "rows of x; six columns of the fragments each" },
        { name = "BULK", values = { 0, 1 }, default = default.BULK,
          doc = "how weights come: 0 cp.async by all lanes, 1 bulk copies by one (cc 9.0)" },
        { name = "CLUSTER_K", values = { 1, 2 }, default = default.CLUSTER_K,
          doc = "blocks of a cluster that split K (cc 9.0 and later if over 1)" },
        { name = "WARPS", values = { 16, 32 }, default = default.WARPS,
          doc = "warps of a block; they split the block's weights evenly" },
        { name = "TILES", values = { 2, 4 }, default = default.TILES,
          doc = "K tiles of 128 in a stage, at most" },
        { name = "STAGES", values = { 2, 3 }, default = default.STAGES,
          doc = "stages of each warp's ring" },
    },
    valid = valid,
    launch = {
        dependent = true,
        -- 0, no launch, beyond M_TILE rows of x: an exported table asks for sizes that valid() never saw
        grid = { "max(min(ceil_div(N,16),SMS/CLUSTER_K),1)*CLUSTER_K*(M<=M_TILE)" },
        block = "32*WARPS",
        -- rings, their barriers, specials; sums of x; outputs of a cluster; slots; x and its digits: kernel.cu, tern_places.
        smem = "WARPS*(STAGES*(TILES*(256*BITS+48*" .. spans .. ")+8)+4)+" .. tiles .. "*" .. spans
            .. "*ceil_div(6*M_TILE,8)*16+(" .. most .. "*M_TILE+CLUSTER_K)*64+WARPS*(" .. most .. "/WARPS+2)*M*288"
            .. "+M*(" .. tiles .. "*1024+384)",
        cluster = "CLUSTER_K",
    },
}
