-- wgmma-decode: wgmma kernel for M = 16 to 64 on sm_90a. See kernel.cu for what the parameters mean to it.

-- Bytes of shared memory: the ring of x, those of the weights (codes, and 48 bytes of scales and zeros a group), output
-- slots, barriers.
local smem = "WARPS_K*STAGES*256*BLOCK_M+4*WARPS_N*WARPS_K*SLOTS*ROW_BLOCKS*(256*BITS"
    .. "+48*(GROUP%128==0?1:1+ceil_div(96,GROUP)))+8328*WARPS_N+24*STAGES"

local function weight_bytes(p, problem) -- in the rings of all warps
    local groups = problem.group % 128 == 0 and 1 or 1 + (96 + problem.group - 1) // problem.group
    return 4 * p.WARPS_N * p.WARPS_K * p.SLOTS * p.ROW_BLOCKS * (256 * problem.bits + 48 * groups)
end

-- Who multiplies by the scale. Ternary weights stay exact when scaled in binary16; gptq weights, and all in bfloat16, are
-- rounded once.
local function scale_rule(p, problem)
    if problem.groups == 1 and p.SCALE_WEIGHTS == 1 then
        return "one scale a row: applied once in the epilogue"
    end
    if p.SCALE_WEIGHTS == 1 and p.BLOCK_M <= 32 then
        return "few sums are quicker to scale than weights"
    end
    local bf16 = problem.activation == "bf16"
    if bf16 and p.SCALE_WEIGHTS == 1 and problem.bits == 8 then
        return "8-bit codes times a binary16 scale would be rounded twice in bfloat16"
    end
    if p.ROUND_WEIGHTS ~= ((bf16 or problem.family == "gptq") and p.SCALE_WEIGHTS or 0) then
        return "ROUND_WEIGHTS names what SCALE_WEIGHTS does to these weights"
    end
end

-- Registers a consumer thread has: setmaxnreg hands it what the producers leave of the launch's equal share (kernel.cu).
local function register_rule(p, problem)
    local warpgroups = p.WARPS_N * p.WARPS_K
    local entry = 512 // (warpgroups + 1) // 8 * 8
    local producer = warpgroups > 3 and 32 or 56
    local budget = math.min((entry * (warpgroups + 1) - producer) // warpgroups // 8 * 8, 240)
    -- fp32 sums, a second set while a group is open, A fragments, codes, the rest
    local sums = p.ROW_BLOCKS
    if p.SCALE_WEIGHTS == 0 and problem.groups > 1 then
        sums = sums + 1
    end
    local zeros = problem.sym and 0 or 4
    if sums * p.BLOCK_M // 2 + 32 + 2 * problem.bits + zeros + 34 + 4 * p.ROW_BLOCKS > budget then
        return "registers"
    end
end

-- Tiles that fit M and N: x rows not wasted, and every row block of a share at once. Problems that leave most of the GPU idle
-- are for checking: they take any tile.
local function shape_rule(p, problem, gpu)
    local ctas = gpu.sms // p.CLUSTER_K
    if p.CLUSTER_K >= 3 then
        ctas = ctas * 7 // 8
    end
    local row_blocks = (problem.n + 63) // 64
    if 4 * row_blocks < ctas then
        return nil
    end
    if p.BLOCK_M < problem.m or p.BLOCK_M >= problem.m + 16 then
        return "x is delivered once: BLOCK_M holds all of M, and no more than that"
    end
    local share = (row_blocks + ctas - 1) // math.max(ctas, 1)
    local blocks = p.WARPS_N * p.ROW_BLOCKS
    if blocks > 1 and blocks >= 2 * share then
        return "the tile has room for twice a CTA's share"
    end
    if blocks < share and (p.CLUSTER_K > 1 or 2 * blocks < share) then
        return "the tile is small for a CTA's share"
    end
    if 3 * p.CLUSTER_K * p.WARPS_K * 128 > problem.k then
        return "fewer than three k tiles for each part of K"
    end
    if p.CLUSTER_K >= 3 and row_blocks > gpu.sms then
        return "enough row blocks without splitting K"
    end
end

-- The rings: bytes of weights in flight that a multiprocessor wants, and slices of x as deep as shared memory allows.
local function ring_rule(p, problem, gpu)
    local weights = weight_bytes(p, problem)
    if weights < 24576 or weights > 98304 or p.SLOTS > 4 and weights >= 2 * 24576 then
        return "between 24 and 96 KB of weights in flight are wanted, in the fewest slots"
    end
    local room = gpu.smem_block_bytes - weights - 8328 * p.WARPS_N
    local stage = 256 * p.BLOCK_M * p.WARPS_K + 24
    if p.STAGES * stage > room then
        return "the rings do not fit in shared memory"
    end
    if p.STAGES < 6 and (p.STAGES + 1) * stage <= room then
        return "a deeper ring of x fits"
    end
    local units = p.ROW_BLOCKS * (p.BLOCK_M // 16) -- of 16 rows of x that a warpgroup has
    local own = (units + p.CLUSTER_K - 1) // p.CLUSTER_K
    if 4096 * p.WARPS_N * (units * (p.WARPS_K - 1) + own * (p.CLUSTER_K - 1)) > p.STAGES * p.WARPS_K * 256 * p.BLOCK_M then
        return "sums do not fit in the ring of x"
    end
end

-- A tile that is right for every shape, so that there is always an answer.
local default = { BLOCK_M = 64, WARPS_N = 2, WARPS_K = 1, ROW_BLOCKS = 1, CLUSTER_K = 1, SLOTS = 4,
    STAGES = 4, SCALE_WEIGHTS = 0, ROUND_WEIGHTS = 0 }

local function is_default(p)
    for name, value in pairs(default) do
        if p[name] ~= value then
            return false
        end
    end
    return true
end

local function valid(p, problem, gpu)
    if gpu.cc ~= 90 then
        return false, "wgmma exists on compute capability 9.0 (sm_90a) only"
    end
    if p.CLUSTER_K > 1 and p.BLOCK_M // 16 * p.WARPS_N * p.ROW_BLOCKS < p.CLUSTER_K then
        return false, "blocks of a cluster own 16 rows of x of a row block at least"
    end
    local warpgroups = p.WARPS_N * p.WARPS_K
    if warpgroups > 4 or warpgroups < 2 then
        return false, "two to four warpgroups a multiprocessor"
    end
    if is_default(p) then
        return true
    end
    local reason = scale_rule(p, problem) or register_rule(p, problem) or shape_rule(p, problem, gpu)
        or ring_rule(p, problem, gpu)
    if reason then
        return false, reason
    end
    return true
end

return {
    name = "wgmma-decode",
    ops = { "linear-a16", "linear-bf16" },
    summary = "tensor cores (wgmma, sm_90a), dequantised weights in registers, every warp streams its own weights: for M = 16 to 64",
    families = { "ternary", "gptq" },
    bits = { 2, 3, 4, 8 },
    min_cc = 90,
    m = { 16, 64 },
    layout = "frag16x128",
    unit = "mma-f16",
    entry = "tern_wgmma_decode",
    efficiency = 0.6,
    exact_weights = true,
    -- Declared in the order in which valid() asks: a refusal that reads the first few only is not asked again for the rest.
    params = {
        { name = "BLOCK_M", values = { 16, 32, 48, 64 }, default = default.BLOCK_M, doc = "rows of x a CTA owns: columns of the wgmma" },
        { name = "CLUSTER_K", values = { 1, 2, 3, 4 }, default = 1, doc = "CTAs of a cluster that split K" },
        { name = "WARPS_N", values = { 1, 2, 3, 4 }, default = default.WARPS_N, doc = "warpgroups side by side along N" },
        { name = "WARPS_K", values = { 1, 2, 3, 4 }, default = default.WARPS_K, doc = "warpgroups that split the CTA's K" },
        { name = "SCALE_WEIGHTS", values = { 0, 1 }, default = 0, doc = "1: group scale on the weights; 0: on fp32 sums of each group" },
        { name = "ROUND_WEIGHTS", values = { 0, 1 }, default = 0, doc = "1: scaled weights are rounded (SCALE_WEIGHTS with gptq or bfloat16)" },
        { name = "ROW_BLOCKS", values = { 1, 2, 3 }, default = default.ROW_BLOCKS, doc = "64-row blocks of W of each warpgroup" },
        { name = "SLOTS", values = { 4, 8 }, default = default.SLOTS, doc = "k tiles of weights in the ring of a warp" },
        { name = "STAGES", values = { 3, 4, 5, 6 }, default = default.STAGES, doc = "slices of x in its ring" },
    },
    valid = valid,
    -- a multiprocessor each; only 7 of 8 of the clusters of 3 or 4 that would fill the GPU: more are not resident at once
    launch = {
        grid = { "min(ceil_div(N,64)*ceil_div(M,BLOCK_M),max(SMS/CLUSTER_K*(8-min(CLUSTER_K/3,1))/8,1))*CLUSTER_K" },
        block = "128*(WARPS_N*WARPS_K+1)",
        smem = smem,
        cluster = "CLUSTER_K",
    },
}
