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

local function valid(p, problem, gpu)
    local k_tiles = (problem.k + 127) // 128
    local row_blocks = (problem.n + 16 * p.ROW_TILES - 1) // (16 * p.ROW_TILES)
    local blocks = gpu.sms * p.CTAS
    if problem.m <= p.M_TILE // 2 then return false, "M_TILE is twice M or more" end
    if problem.m > p.M_TILE then return false, "more than one pass over the weights" end
    if p.CLUSTER_K > gpu.sms - p.IDLE_SMS then return false, "fewer multiprocessors than blocks of a cluster" end
    if p.CLUSTER_K > 1 and gpu.cc < 90 then return false, "clusters need cc 9.0" end
    if p.IDLE_SMS > 0 and p.CLUSTER_K < 4 then return false, "small clusters fit anywhere" end
    if p.IDLE_SMS > 0 and row_blocks * p.CLUSTER_K <= (gpu.sms - p.IDLE_SMS) * p.CTAS then
        return false, "few row blocks: the same grid without"
    end
    if p.X_CHUNK > 0 and p.X_CHUNK * p.CLUSTER_K >= k_tiles then return false, "x fits in one chunk" end
    if 32 * p.WARPS * p.CTAS > gpu.threads_sm then return false, "more threads than an SM holds" end
    if p.WARPS * p.CTAS > 32 or p.WARPS * p.CTAS < 8 then return false, "8 to 32 warps an SM" end
    if p.WARPS * p.CTAS * p.ROW_TILES * p.PREFETCH * problem.bits * 256 < 12 * 1024 then
        return false, "less than 12 KB in flight an SM"
    end
    if registers(p, problem) > math.min(255, 65536 // (32 * p.WARPS * p.CTAS)) then return false, "too many registers" end
    if not fits(p, problem, gpu, p.X_CHUNK, p.WAVES) then return false, "x and sums do not fit in shared memory" end
    if p.X_CHUNK > 0 and fits(p, problem, gpu, 0, p.WAVES) then return false, "all of x fits: no chunks" end
    if p.WAVES > 1 and fits(p, problem, gpu, p.X_CHUNK, p.WAVES == 8 and 2 or 1) then return false, "fewer waves fit" end
    if p.CLUSTER_K > 1 and row_blocks >= 4 * blocks then return false, "enough row blocks without splitting K" end
    if p.CLUSTER_K > k_tiles then return false, "fewer K tiles than blocks of a cluster" end
    return true
end

return {
    name = "simt-decode",
    op = "linear-a16",
    summary = "decode on CUDA cores: codes to exact halves to fp32, fp32 fused multiply-adds, scales on group sums",
    families = { "ternary", "gptq" },
    bits = { 2, 3, 4, 8 },
    activation = "f16",
    min_cc = 75,
    m = { 1, 8 },
    layout = "frag16x128",
    unit = "f32",
    entry = "tern_simt_decode",
    efficiency = 0.4,
    exact_weights = true,
    params = {
        { name = "WARPS", values = { 4, 8, 16 }, default = 8,
          doc = "warps of a block; they split the block's weights evenly" },
        { name = "ROW_TILES", values = { 1, 2, 4 }, default = 1,
          doc = "tiles of 16 rows that share one load of x from shared memory" },
        { name = "PREFETCH", values = { 1, 2, 3, 4 }, default = 2,
          doc = "K tiles of 128 in flight in registers, each of ROW_TILES tiles" },
        { name = "M_TILE", values = { 1, 2, 4, 8 }, default = 1,
          doc = "rows of x a pass: sums a lane keeps" },
        { name = "CTAS", values = { 1, 2, 4 }, default = 2,
          doc = "blocks that an SM holds at a time (launch bounds)" },
        { name = "WAVES", values = { 1, 2, 8 }, default = 1,
          doc = "times CTAS blocks an SM make the grid; more waves, fewer sums in shared memory" },
        { name = "CLUSTER_K", values = { 1, 2, 4, 8 }, default = 1,
          doc = "blocks of a cluster that split K (cc 9.0 and later if over 1)" },
        { name = "IDLE_SMS", values = { 0, 4 }, default = 0,
          doc = "multiprocessors left out of the grid, so that whole clusters fit in each GPC" },
        { name = "X_CHUNK", values = { 0, 16 }, default = 0,
          doc = "K tiles of x in shared memory at a time, two buffers; 0: all of the block's K" },
    },
    valid = valid,
    launch = {
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
