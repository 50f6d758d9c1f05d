-- mma-stream: parameter space of the lean tensor-core decode kernel (kernel.cu says what the parameters do).

local default = { RAW_CODES = 0, BULK = 0, CLUSTER_K = 1, WARPS = 16, ROW_TILES = 1, TILES = 2, STAGES = 2 }

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
    local most = ceil_div(problem.n, 16 * p.ROW_TILES * math.max(gpu.sms // p.CLUSTER_K, 1))
    local spans = problem.group % 128 == 0 and 1 or 4
    return p.WARPS * p.STAGES * (p.TILES * p.ROW_TILES * (256 * problem.bits + 48 * spans) + 8)
        + p.RAW_CODES * ceil_div(problem.k, 128 * p.CLUSTER_K) * spans * 32 + (most * 8 + p.CLUSTER_K) * 64 * p.ROW_TILES
        + problem.m * (p.WARPS * (most // p.WARPS + 2) * (64 * p.ROW_TILES + 16) + ceil_div(problem.k, 128 * p.CLUSTER_K) * 256 + 64)
end

-- In the order in which the parameters are declared: a refusal that reads the first few only is not asked again for the rest.
local function valid(p, problem, gpu)
    local bf16 = problem.activation == "bf16"
    if p.RAW_CODES == 1 and bf16 then return false, "subnormal codes are of binary16" end
    if problem.m <= 2 and not bf16 and not is_default(p) then return false, "imma-decode serves one or two rows of x" end
    if p.BULK == 1 and gpu.cc < 90 then return false, "bulk copies need cc 9.0" end
    local cluster_k, k_tiles = p.CLUSTER_K, ceil_div(problem.k, 128)
    if cluster_k > 1 and gpu.cc < 90 then return false, "clusters need cc 9.0" end
    if cluster_k > k_tiles then return false, "fewer K tiles than blocks of a cluster" end
    if cluster_k > 1 and ceil_div(problem.n, 16) >= 8 * gpu.sms then return false, "enough row tiles without splitting K" end
    local flying = p.WARPS * p.TILES * p.STAGES * p.ROW_TILES
    if p.WARPS * p.ROW_TILES < 16 then return false, "8 warps have registers for two row tiles" end
    if p.WARPS * p.ROW_TILES > 32 then return false, "32 warps have registers for one row tile" end
    if flying < 64 or flying > 8 * math.max(p.WARPS, 16) then return false, "4 to 8 tiles in flight a warp" end
    local bytes = shared(p, problem, gpu)
    if bytes > gpu.smem_block_bytes then return false, "x and the rings do not fit in shared memory" end
    return true
end

local blocks = "ceil_div(N,16*ROW_TILES)"
local most = "ceil_div(N,16*ROW_TILES*max(SMS/CLUSTER_K,1))" -- row blocks of a cluster

return {
    name = "mma-stream",
    ops = { "linear-a16", "linear-bf16" },
    summary = "decode on tensor cores, few instructions ahead of the first load: M up to 8",
    families = { "ternary", "gptq" },
    bits = { 2, 4 },
    min_cc = 80,
    m = { 1, 8 },
    layout = "frag16x128",
    unit = "mma-f16",
    entry = "tern_mma_stream",
    efficiency = 0.7,
    exact_weights = true,
    params = {
        { name = "RAW_CODES", values = { 0, 1 }, default = default.RAW_CODES,
          doc = "1: multiply the codes themselves, as subnormals of binary16, and take the zero point off the group sums" },
        { name = "BULK", values = { 0, 1 }, default = default.BULK,
          doc = "how weights come: 0 cp.async by all lanes, 1 bulk copies by one (cc 9.0)" },
        { name = "CLUSTER_K", values = { 1, 2 }, default = default.CLUSTER_K,
          doc = "blocks of a cluster that split K (cc 9.0 and later if over 1)" },
        { name = "WARPS", values = { 8, 16, 32 }, default = default.WARPS,
          doc = "warps of a block; they split the block's weights evenly" },
        { name = "ROW_TILES", values = { 1, 2 }, default = default.ROW_TILES,
          doc = "tiles of 16 rows that share one load of x from shared memory" },
        { name = "TILES", values = { 2, 4 }, default = default.TILES,
          doc = "K tiles of 128 in a stage, at most" },
        { name = "STAGES", values = { 2, 3 }, default = default.STAGES,
          doc = "stages of each warp's ring" },
    },
    valid = valid,
    launch = {
        dependent = true,
        grid = { "max(min(" .. blocks .. ",SMS/CLUSTER_K),1)*CLUSTER_K" },
        block = "32*WARPS",
        -- rings and their barriers; sums of x; outputs of a cluster; slots and x: kernel.cu, tern_places.
        smem = "WARPS*STAGES*(TILES*ROW_TILES*(256*BITS+48*(GROUP%128==0?1:4))+8)+RAW_CODES*ceil_div(K,128*CLUSTER_K)*(GROUP%128==0?1:4)*32+(" .. most .. "*8+CLUSTER_K)*64*ROW_TILES"
            .. "+M*(WARPS*(" .. most .. "/WARPS+2)*(64*ROW_TILES+16)+ceil_div(K,128*CLUSTER_K)*256+64)",
        cluster = "CLUSTER_K",
    },
}
