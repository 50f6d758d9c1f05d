-- mma-decode: parameter space of the tensor-core decode kernel (kernel.cu says what the parameters do).

-- Registers a thread needs, roughly: the ring, two sets of sums (one where a row has one scale), fragments, addresses.
local function registers(p, problem)
    local spans = problem.group % 128 == 0 and 1 or problem.group % 64 == 0 and 2 or 4
    local per_tile = 2 * problem.bits + spans * (problem.sym and 1 or 2)
    local sums = p.ROW_TILES * p.M_TILE / 2 * (problem.groups == 1 and 1 or 2)
    return p.PREFETCH * p.ROW_TILES * per_tile + sums + 8 * p.ROW_TILES + 36
end

-- Bytes of shared memory of a block: the smem expression below.
local function shared_bytes(p, problem, gpu)
    local function ceil_div(a, b) return (a + b - 1) // b end
    local clusters = math.max(gpu.sms * p.CTAS // p.CLUSTER_K, 1)
    local x = (p.X_CHUNK > 0 and 2 * p.X_CHUNK or ceil_div(problem.k, 128 * p.CLUSTER_K)) * 256 + (p.X_CHUNK > 0 and 128 or 64)
    local slots = p.WARPS * (ceil_div(problem.n, 16 * p.ROW_TILES * p.WARPS * clusters) + 1) * (64 * p.ROW_TILES + 16)
    return math.min(problem.m, p.M_TILE) * (x + slots) + 16
end

local function valid(p, problem, gpu)
    local k_tiles = (problem.k + 127) // 128
    local row_blocks = (problem.n + 16 * p.ROW_TILES - 1) // (16 * p.ROW_TILES)
    local blocks = gpu.sms * p.CTAS
    if p.M_TILE > 8 and problem.m <= p.M_TILE // 2 then return false, "M_TILE is twice M or more" end
    if problem.m > 2 * p.M_TILE then return false, "more than two passes over the weights" end
    if p.CLUSTER_K > 1 and gpu.cc < 90 then return false, "clusters need cc 9.0" end
    if p.X_BULK == 1 and gpu.cc < 90 then return false, "bulk copies need cc 9.0" end
    if p.X_BULK == 1 and p.X_CHUNK > 0 then return false, "bulk copies take x in one piece" end
    if p.X_CHUNK > 0 and p.X_CHUNK * p.CLUSTER_K >= k_tiles then return false, "x fits in one chunk" end
    if p.X_CHUNK > 0 and problem.m * problem.k * 2 <= 96 * 1024 then return false, "x is small: no chunks" end
    if 32 * p.WARPS * p.CTAS > gpu.threads_sm then return false, "more threads than an SM holds" end
    if p.WARPS * p.CTAS > 32 or p.WARPS * p.CTAS < 8 then return false, "8 to 32 warps an SM" end
    if registers(p, problem) > math.min(255, 65536 // (32 * p.WARPS * p.CTAS)) then return false, "too many registers" end
    local shared = shared_bytes(p, problem, gpu)
    if shared > gpu.smem_block_bytes then return false, "x and sums do not fit in shared memory" end
    if p.CTAS > 1 and p.CTAS * (shared + 1024) > gpu.smem_sm_bytes then return false, "fewer than CTAS blocks fit on an SM" end
    if p.CLUSTER_K > 1 and row_blocks >= 4 * blocks then return false, "enough row blocks without splitting K" end
    if p.CLUSTER_K > k_tiles then return false, "fewer K tiles than blocks of a cluster" end
    return true
end

return {
    name = "mma-decode",
    op = "linear-a16",
    summary = "decode on tensor cores: weights as the 16-row operand of mma.m16n8k16, scales on fp32 group sums",
    families = { "ternary", "gptq" },
    bits = { 2, 3, 4, 8 },
    activation = "f16",
    min_cc = 75,
    m = { 1, 64 },
    layout = "frag16x128",
    unit = "mma-f16",
    entry = "tern_mma_decode",
    efficiency = 0.6,
    exact_weights = true,
    params = {
        { name = "WARPS", values = { 4, 8, 16 }, default = 8, doc = "warps of a block; they split the block's weights evenly" },
        { name = "ROW_TILES", values = { 1, 2, 4 }, default = 2, doc = "tiles of 16 rows that share one load of x from shared memory" },
        { name = "PREFETCH", values = { 2, 3, 4, 6 }, default = 3, doc = "K tiles of 128 in flight in registers, each of ROW_TILES tiles" },
        { name = "M_TILE", values = { 8, 16, 32, 64 }, default = 8, doc = "rows of x a pass: columns of the fragments" },
        { name = "CTAS", values = { 1, 2, 4 }, default = 2, doc = "blocks an SM: persistent grid and launch bounds" },
        { name = "CLUSTER_K", values = { 1, 2, 4, 8 }, default = 1, doc = "blocks of a cluster that split K (cc 9.0 and later if over 1)" },
        { name = "X_CHUNK", values = { 0, 8, 32 }, default = 0, doc = "K tiles of x in shared memory at a time, two buffers; 0: all of the block's K" },
        { name = "X_BULK", values = { 0, 1 }, default = 0, doc = "1: x by bulk copies ahead of the weights (cc 9.0); 0: cp.async behind them" },
    },
    valid = valid,
    launch = {
        grid = { "min(ceil_div(N,16*ROW_TILES),max(SMS*CTAS/CLUSTER_K,1))*CLUSTER_K", "ceil_div(M,M_TILE)" },
        block = "32*WARPS",
        -- x, then the warps' slots, then the barrier: tern/decode.cuh
        smem = "min(M,M_TILE)*((X_CHUNK>0?2*X_CHUNK:ceil_div(K,128*CLUSTER_K))*256+(X_CHUNK>0?128:64)"
            .. "+WARPS*(ceil_div(N,16*ROW_TILES*WARPS*max(SMS*CTAS/CLUSTER_K,1))+1)*(64*ROW_TILES+16))+16",
        workspace = "0",
        cluster = "CLUSTER_K",
    },
}
