-- mma-decode: parameter space of the tensor-core decode kernel (kernel.cu says what the parameters do).

-- Registers a thread needs, roughly: the ring, sets of sums (one where a row has one scale), fragments, addresses.
local function registers(p, problem)
    local spans = problem.group % 128 == 0 and 1 or problem.group % 64 == 0 and 2 or 4
    local per_tile = 2 * problem.bits + spans * (problem.sym and 1 or 2)
    local places = p.M_TILE >= 32 and 1 or (p.M_TILE == 16 or problem.bits == 4) and 2 or 4
    local accumulators = p.M_TILE >= 8 and places or math.max(places * p.M_TILE // 8, 1)
    local sets = p.RAW_CODES == 1 and 1 + accumulators or (problem.groups == 1 or p.SCALE_WEIGHTS == 1) and 1 or 2
    local sums = p.ROW_TILES * math.max(p.M_TILE, 8) / 2 * sets
    return (p.RING == 1 and 1 or p.PREFETCH) * p.ROW_TILES * per_tile + sums + 8 * p.ROW_TILES + p.M_TILE // 4 + 3 * spans + 39
end

-- Whether CTAS blocks fit in an SM's shared memory with these values: the smem expression below.
local function fits(p, problem, gpu, x_chunk, waves)
    local function ceil_div(a, b) return (a + b - 1) // b end
    local clusters = math.max(gpu.sms * p.CTAS * waves // p.CLUSTER_K, 1)
    local tiles = x_chunk > 0 and 2 * x_chunk or ceil_div(problem.k, 128 * p.CLUSTER_K)
    local x = tiles * 256 + 128
    local slots = p.WARPS * (ceil_div(problem.n, 16 * p.ROW_TILES * p.WARPS * clusters) + 1) * (64 * p.ROW_TILES + 16)
    local spans = problem.group % 128 == 0 and 1 or 4
    local sums_of_x = p.RAW_CODES * (256 + tiles * spans * ceil_div(p.M_TILE, 8) * 32)
    local ring = p.RING * p.WARPS * p.PREFETCH * p.ROW_TILES * (256 * problem.bits + (problem.group % 128 == 0 and 48 or 192))
    local shared = math.min(problem.m, p.M_TILE) * (x + slots) + 16 + ring + sums_of_x
    return shared <= gpu.smem_block_bytes and p.CTAS * (shared + 1024) <= gpu.smem_sm_bytes
end

-- In the order in which the parameters are declared: a refusal that reads the first few only is not asked again for the rest.
local function valid(p, problem, gpu)
    local raw, m_tile = p.RAW_CODES, p.M_TILE
    local k_tiles = (problem.k + 127) // 128
    local bf16 = problem.activation == "bf16"
    if raw == 1 and bf16 then return false, "subnormal codes are of binary16" end
    local least = raw == 0 and 8 or problem.bits == 4 and 4 or 2
    if raw == 1 and problem.bits == 8 then return false, "8 bits: memory bounds, and sums of raw codes are less exact" end
    if raw == 1 and m_tile > 8 then return false, "sums of raw codes over many columns are less exact" end
    if m_tile < least then return false, "fewer columns save nothing" end
    if m_tile > least and problem.m <= m_tile // 2 then return false, "M_TILE is twice M or more" end
    if problem.m > (m_tile >= 16 and 2 or 1) * m_tile then return false, "too many passes over the weights" end
    local ring = p.RING
    if ring == 1 and gpu.cc < 80 then return false, "asynchronous copies need cc 8.0" end
    if ring == 1 and problem.bits == 8 then return false, "8 bits: loads into registers stream faster" end
    local x_chunk = p.X_CHUNK
    if ring == 1 and x_chunk > 0 then return false, "x in chunks would wait for the ring" end
    if raw == 1 and x_chunk > 0 then return false, "raw codes need all of x" end
    local x_bulk = p.X_BULK
    if x_bulk == 1 and gpu.cc < 90 then return false, "bulk copies need cc 9.0" end
    if x_bulk == 1 and problem.m < 8 then return false, "x is small: cp.async serves" end
    if x_bulk == 0 and x_chunk == 0 and problem.m >= 16 and gpu.cc >= 90 then return false, "x is large: bulk copies serve" end
    if x_bulk == 1 and x_chunk > 0 then return false, "bulk copies take x in one piece" end
    local scale = p.SCALE_WEIGHTS
    if raw == 1 and scale == 1 then return false, "raw codes are scaled in their sums" end
    if scale == 1 and (bf16 or problem.family ~= "ternary") then return false, "scaling is exact for ternary in binary16 only" end
    if scale == 1 and (problem.groups == 1 or m_tile < 32) then return false, "group sums cost little here" end
    local cluster_k = p.CLUSTER_K
    if cluster_k > 1 and gpu.cc < 90 then return false, "clusters need cc 9.0" end
    if cluster_k > k_tiles then return false, "fewer K tiles than blocks of a cluster" end
    if x_chunk > 0 and x_chunk * cluster_k >= k_tiles then return false, "x fits in one chunk" end
    local warps, ctas = p.WARPS, p.CTAS
    if 32 * warps * ctas > gpu.threads_sm then return false, "more threads than an SM holds" end
    if warps * ctas > 32 or warps * ctas < 8 then return false, "8 to 32 warps an SM" end
    local row_blocks, blocks = (problem.n + 16 * p.ROW_TILES - 1) // (16 * p.ROW_TILES), gpu.sms * ctas
    if cluster_k > 1 and m_tile < 16 and row_blocks >= 4 * blocks then return false, "enough row blocks without splitting K" end
    if warps * ctas * p.ROW_TILES * p.PREFETCH * problem.bits * 256 < 12 * 1024 then return false, "less than 12 KB in flight an SM" end
    if registers(p, problem) > math.min(255, 65536 // (32 * warps * ctas)) then return false, "too many registers" end
    if not fits(p, problem, gpu, x_chunk, p.WAVES) then return false, "x and sums do not fit in shared memory" end
    if x_chunk > 0 and fits(p, problem, gpu, 0, p.WAVES) then return false, "all of x fits: no chunks" end
    if p.WAVES > 1 and fits(p, problem, gpu, x_chunk, p.WAVES == 8 and 2 or 1) then return false, "fewer waves fit" end
    return true
end

return {
    name = "mma-decode",
    ops = { "linear-a16", "linear-bf16" },
    summary = "decode on tensor cores: weights as the 16-row operand of mma.m16n8k16, scales on fp32 group sums",
    families = { "ternary", "gptq" },
    bits = { 2, 3, 4, 8 },
    min_cc = 75,
    m = { 1, 64 },
    layout = "frag16x128",
    unit = "mma-f16",
    entry = "tern_mma_decode",
    efficiency = 0.6,
    exact_weights = true,
    params = {
        { name = "RAW_CODES", values = { 0, 1 }, default = 0,
          doc = "1: multiply the codes themselves, as subnormals of binary16, and take the zero point off the group sums" },
        { name = "M_TILE", values = { 2, 4, 8, 16, 32 }, default = 8,
          doc = "rows of x a pass: columns of the fragments; under 8 the other columns hold sums of other powers of two" },
        { name = "RING", values = { 0, 1 }, default = 0,
          doc = "where weights in flight go: 0 registers, 1 shared memory, by asynchronous copies (cc 8.0)" },
        { name = "X_CHUNK", values = { 0, 16 }, default = 0,
          doc = "K tiles of x in shared memory at a time, two buffers; 0: all of the block's K" },
        { name = "X_BULK", values = { 0, 1 }, default = 0,
          doc = "1: x by bulk copies ahead of the weights (cc 9.0); 0: cp.async behind them" },
        { name = "SCALE_WEIGHTS", values = { 0, 1 }, default = 0,
          doc = "1: scale the weights (exact: ternary, f16) instead of group sums in fp32" },
        { name = "CLUSTER_K", values = { 1, 2 }, default = 1,
          doc = "blocks of a cluster that split K (cc 9.0 and later if over 1)" },
        { name = "WARPS", values = { 8, 16 }, default = 8,
          doc = "warps of a block; they split the block's weights evenly" },
        { name = "CTAS", values = { 1, 2, 4 }, default = 2,
          doc = "blocks that an SM holds at a time (launch bounds)" },
        { name = "ROW_TILES", values = { 1, 2 }, default = 1,
          doc = "tiles of 16 rows that share one load of x from shared memory" },
        { name = "PREFETCH", values = { 2, 3, 4 }, default = 4,
          doc = "K tiles of 128 in flight for each warp, each of ROW_TILES tiles" },
        { name = "WAVES", values = { 1, 2, 8 }, default = 1,
          doc = "times CTAS blocks an SM make the grid; more waves, fewer sums in shared memory" },
    },
    valid = valid,
    launch = {
        dependent = true,
        grid = {
            "max(min(ceil_div(N,16*ROW_TILES)*CLUSTER_K,SMS*CTAS*WAVES)/CLUSTER_K,1)*CLUSTER_K",
            "ceil_div(M,M_TILE)",
        },
        block = "32*WARPS",
        -- x (128: two pitches' 64 spare bytes), the warps' slots, the barrier, the rings: tern/decode.cuh;
        smem = "min(M,M_TILE)*((X_CHUNK>0?2*X_CHUNK:ceil_div(K,128*CLUSTER_K))*256+128"
            .. "+WARPS*(ceil_div(N,16*ROW_TILES*WARPS*max(SMS*CTAS*WAVES/CLUSTER_K,1))+1)*(64*ROW_TILES+16))+16"
            .. "+RING*WARPS*PREFETCH*ROW_TILES*(256*BITS+(GROUP%128==0?48:192))"
            -- raw codes: zeros, sums of x over spans of 32 k or (groups of 128 and more) of 128 k
            .. "+RAW_CODES*(256+ceil_div(K,128*CLUSTER_K)*(GROUP%128==0?1:4)*ceil_div(M_TILE,8)*32)",
        workspace = "0",
        cluster = "CLUSTER_K",
    },
}
