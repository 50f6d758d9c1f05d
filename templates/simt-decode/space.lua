-- simt-decode: parameter space of the CUDA-core decode kernel (kernel.cu says what the parameters do).

-- Registers a thread needs, roughly: the ring, two sets of sums (one where a row has one scale), x as floats, fragments,
-- addresses.
local function registers(p, problem)
    local spans = problem.group % 128 == 0 and 1 or problem.group % 64 == 0 and 2 or 4
    local per_tile = 2 * problem.bits + spans * (problem.sym and 1 or 2)
    local sums = p.ROW_TILES * p.M_TILE * 2 * (problem.groups == 1 and 1 or 2)
    return p.PREFETCH * p.ROW_TILES * per_tile + sums + 8 * p.M_TILE + 52
end

-- Whether CTAS blocks fit in an SM's shared memory with these values: the smem expression below.
local function fits(p, problem, gpu, x_chunk, waves)
    local function ceil_div(a, b) return (a + b - 1) // b end
    local clusters = math.max((gpu.sms - p.IDLE_SMS) * p.CTAS * waves // p.CLUSTER_K, 1)
    local tiles = x_chunk > 0 and 2 * x_chunk or ceil_div(problem.k, 128 * p.CLUSTER_K)
    local x = tiles * 256 + 128
    local slots = p.WARPS * (ceil_div(problem.n, 16 * p.ROW_TILES * p.WARPS * clusters) + 1) * (64 * p.ROW_TILES + 16)
    local shared = math.min(problem.m, p.M_TILE) * (x + slots) + 16
    return shared <= gpu.smem_block_bytes and p.CTAS * (shared + 1024) <= gpu.smem_sm_bytes
end

-- In the order in which the parameters are declared: a refusal that reads the first few only is not asked again for the rest.
local function valid(p, problem, gpu)
    local m_tile, k_tiles = p.M_TILE, (problem.k + 127) // 128
    if problem.m <= m_tile // 2 then return false, "M_TILE is twice M or more" end
    if problem.m > m_tile then return false, "more than one pass over the weights" end
    local cluster_k = p.CLUSTER_K
    if cluster_k > 1 and gpu.cc < 90 then return false, "clusters need cc 9.0" end
    if cluster_k > k_tiles then return false, "fewer K tiles than blocks of a cluster" end
    local x_chunk = p.X_CHUNK
    if x_chunk > 0 and x_chunk * cluster_k >= k_tiles then return false, "x fits in one chunk" end
    local idle = p.IDLE_SMS
    if idle > 0 and cluster_k < 4 then return false, "small clusters fit anywhere" end
    if cluster_k > gpu.sms - idle then return false, "fewer multiprocessors than blocks of a cluster" end
    local warps, ctas = p.WARPS, p.CTAS
    if 32 * warps * ctas > gpu.threads_sm then return false, "more threads than an SM holds" end
    if warps * ctas > 32 or warps * ctas < 8 then return false, "8 to 32 warps an SM" end
    local row_blocks, blocks = (problem.n + 16 * p.ROW_TILES - 1) // (16 * p.ROW_TILES), gpu.sms * ctas
    if idle > 0 and row_blocks * cluster_k <= (gpu.sms - idle) * ctas then return false, "few row blocks: the same grid without" end
    if cluster_k > 1 and row_blocks >= 4 * blocks then return false, "enough row blocks without splitting K" end
    if warps * ctas * p.ROW_TILES * p.PREFETCH * problem.bits * 256 < 12 * 1024 then return false, "less than 12 KB in flight an SM" end
    if registers(p, problem) > math.min(255, 65536 // (32 * warps * ctas)) then return false, "too many registers" end
    if not fits(p, problem, gpu, x_chunk, p.WAVES) then return false, "x and sums do not fit in shared memory" end
    if x_chunk > 0 and fits(p, problem, gpu, 0, p.WAVES) then return false, "all of x fits: no chunks" end
    if p.WAVES > 1 and fits(p, problem, gpu, x_chunk, p.WAVES == 8 and 2 or 1) then return false, "fewer waves fit" end
    return true
end

return {
    name = "simt-decode",
    ops = { "linear-a16", "linear-bf16" },
    summary = "decode on CUDA cores: codes to exact halves to fp32, fp32 fused multiply-adds, scales on group sums",
    families = { "ternary", "gptq" },
    bits = { 2, 3, 4, 8 },
    min_cc = 75,
    m = { 1, 8 },
    layout = "frag16x128",
    unit = "f32",
    entry = "tern_simt_decode",
    efficiency = 0.4,
    exact_weights = true,
    params = {
        { name = "M_TILE", values = { 1, 2, 4, 8 }, default = 1,
          doc = "rows of x a pass: sums a lane keeps" },
        { name = "CLUSTER_K", values = { 1, 2, 4, 8 }, default = 1,
          doc = "blocks of a cluster that split K (cc 9.0 and later if over 1)" },
        { name = "X_CHUNK", values = { 0, 16 }, default = 0,
          doc = "K tiles of x in shared memory at a time, two buffers; 0: all of the block's K" },
        { name = "IDLE_SMS", values = { 0, 4 }, default = 0,
          doc = "multiprocessors left out of the grid, so that whole clusters fit in each GPC" },
        { name = "WARPS", values = { 4, 8, 16 }, default = 8,
          doc = "warps of a block; they split the block's weights evenly" },
        { name = "CTAS", values = { 1, 2, 4 }, default = 2,
          doc = "blocks that an SM holds at a time (launch bounds)" },
        { name = "ROW_TILES", values = { 1, 2, 4 }, default = 1,
          doc = "tiles of 16 rows that share one load of x from shared memory" },
        { name = "PREFETCH", values = { 1, 2, 3, 4 }, default = 2,
          doc = "K tiles of 128 in flight in registers, each of ROW_TILES tiles" },
        { name = "WAVES", values = { 1, 2, 8 }, default = 1,
          doc = "times CTAS blocks an SM make the grid; more waves, fewer sums in shared memory" },
    },
    valid = valid,
    launch = {
        dependent = true,
        grid = {
            "min(ceil_div(N,16*ROW_TILES),max((SMS-IDLE_SMS)*CTAS*WAVES/CLUSTER_K,1))*CLUSTER_K",
            "ceil_div(M,M_TILE)",
        },
        block = "32*WARPS",
        -- x (128: two pitches' 64 spare bytes), the warps' slots, the barrier: tern/decode.cuh
        smem = "min(M,M_TILE)*((X_CHUNK>0?2*X_CHUNK:ceil_div(K,128*CLUSTER_K))*256+128"
            .. "+WARPS*(ceil_div(N,16*ROW_TILES*WARPS*max((SMS-IDLE_SMS)*CTAS*WAVES/CLUSTER_K,1))+1)*(64*ROW_TILES+16))+16",
        workspace = "0",
        cluster = "CLUSTER_K",
    },
}
