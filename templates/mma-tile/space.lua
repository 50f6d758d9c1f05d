-- mma-tile: tiled mma.sync kernel for M = 16 up to prefill. See kernel.cu for what the parameters mean to it.

-- Bytes of shared memory: the rings of x and of weight tiles (codes, and 48 bytes of scales and zeros a group), or the
-- output tile, or the sums of the further k-warp groups, whichever is largest.
local smem = "max(max(WARPS_K*(2*STAGES*BLOCK_M*BLOCK_K+(STAGES*BLOCK_K/128+128/BLOCK_K-1)*BLOCK_N*(16*BITS"
    .. "+3*((GROUP*2+95)/GROUP))),BLOCK_M*((CLUSTER_K>1?4:2)*BLOCK_N+16)),4*(WARPS_K-1)*BLOCK_N*BLOCK_M)"

-- Who multiplies by the scale. Ternary weights stay exact when scaled in binary16; gptq weights, and all in bfloat16, are
-- rounded once.
local function scale_rule(p, problem)
    if problem.groups == 1 and p.SCALE_WEIGHTS == 1 then
        return "one scale a row: applied once in the epilogue"
    end
    local bf16 = problem.activation == "bf16"
    if bf16 and p.SCALE_WEIGHTS == 1 and problem.bits == 8 then
        return "8-bit codes times a binary16 scale would be rounded twice in bfloat16"
    end
    local rounds = (bf16 or problem.family == "gptq") and p.SCALE_WEIGHTS or 0
    if p.ROUND_WEIGHTS ~= rounds then
        return "ROUND_WEIGHTS names what SCALE_WEIGHTS does to these weights"
    end
end

-- k in the ring: enough bytes in flight, and no more shared memory than they need.
local function ring_rule(p)
    local k = p.BLOCK_K * p.STAGES
    local least = p.BLOCK_M >= 128 and 192 or 256
    if k < least or k > 384 then
        return "STAGES * BLOCK_K is not within 256 (192 for large tiles) and 384"
    end
end

-- A split over a cluster is for problems with too few tiles to fill the GPU.
local function cluster_rule(p, problem, gpu)
    if p.CLUSTER_K == 1 then
        return nil
    end
    if gpu.cc < 90 then
        return "clusters need cc 9.0"
    end
    local tiles = (problem.n + p.BLOCK_N - 1) // p.BLOCK_N * ((problem.m + p.BLOCK_M - 1) // p.BLOCK_M)
    local warps = p.BLOCK_N // p.WARP_N * (p.BLOCK_M // p.WARP_M) * p.WARPS_K
    if tiles * p.CLUSTER_K * warps > 10 * gpu.sms then
        return "CLUSTER_K above 1 is for few tiles"
    end
    if 256 * p.CLUSTER_K * p.WARPS_K > problem.k or p.CLUSTER_K * p.WARPS_K > 8 then
        return "CLUSTER_K splits K too fine"
    end
end

-- Warps and registers of one CTA.
local function warp_rule(p, problem)
    if p.WARP_N > p.BLOCK_N or p.WARP_M > p.BLOCK_M then
        return "warp tile larger than the CTA tile"
    end
    local warps = p.BLOCK_N // p.WARP_N * (p.BLOCK_M // p.WARP_M) * p.WARPS_K
    if warps ~= 4 and warps ~= 8 then
        return "a CTA has 4 or 8 warps"
    end
    -- fp32 sums, a second set while a group is open, 16 bytes of x a column tile; codes, a fragment, zeros a row tile
    local tile = p.WARP_N * p.WARP_M // 32
    local sums = tile
    if p.SCALE_WEIGHTS == 0 and problem.groups > 1 then
        sums = 2 * tile
    end
    local row_tile = 12
    if not problem.sym then
        row_tile = problem.bits <= 3 and 16 or 14
    end
    local registers = sums + p.WARP_M // 2 + p.WARP_N // 16 * row_tile + 38
    if registers > 255 or registers * 32 * p.SM_WARPS > 65536 then
        return "registers"
    end
    if registers <= 110 and p.SM_WARPS < 16 then
        return "same build as SM_WARPS = 16"
    end
end

-- A middling tile that is right for every shape, so that there is always an answer.
local default = { BLOCK_N = 64, BLOCK_M = 64, WARP_N = 32, WARP_M = 32, WARPS_K = 1, CLUSTER_K = 1,
    BLOCK_K = 64, STAGES = 4 }

local function is_default(p)
    for name, value in pairs(default) do
        if p[name] ~= value then
            return false
        end
    end
    return true
end

-- Tiles that fit M: less than half of the x tile wasted, and large where M is large.
local function shape_rule(p, problem, gpu)
    local m = math.max(problem.m, 16)
    if p.BLOCK_M ~= default.BLOCK_M and p.BLOCK_M >= 2 * m then
        return "BLOCK_M is twice M or more"
    end
    if p.BLOCK_M < math.min(m, 64) then
        return "CTA tile is small for M"
    end
    if is_default(p) then
        return nil
    end
    if gpu.cc == 90 and (problem.m > 32 or p.BLOCK_N > 128 or p.WARP_N > 32 or p.WARPS_K == 1) then
        return "on cc 9.0 the wgmma templates are quicker: never within 10 % of the best there"
    end
    if p.BLOCK_M >= 2 * m then
        return "BLOCK_M is twice M or more"
    end
    if p.BLOCK_M * p.BLOCK_N < math.min(8 * m, 8192) then
        return "CTA tile is small for M"
    end
    if p.WARPS_K > 1 and (m > 256 or p.BLOCK_M > 64) then
        return "WARPS_K above 1 is for small M"
    end
    if p.WARPS_K * 128 > problem.k then
        return "WARPS_K has more groups than K has tiles"
    end
    if p.WARP_N * p.WARP_M < math.min(16 * m, 2048) then
        return "warp tile is small for M"
    end
    if p.WARP_M < p.WARP_N and p.WARP_M < p.BLOCK_M then
        return "warps side by side in M decode the same weights"
    end
end

return {
    name = "mma-tile",
    ops = { "linear-a16", "linear-bf16" },
    summary = "tensor cores (mma.sync), x and weights through shared memory, for M = 16 up to prefill",
    families = { "ternary", "gptq" },
    bits = { 2, 3, 4, 8 },
    min_cc = 80,
    m = { 16, 1048576 },
    layout = "frag16x128",
    unit = "mma-f16",
    entry = "tern_mma_tile",
    efficiency = 0.6,
    exact_weights = true,
    -- Declared in the order in which valid() asks: a refusal that reads the first few only is not asked again for the rest.
    params = {
        { name = "SCALE_WEIGHTS", values = { 0, 1 }, default = 0, doc = "1: scale the weights; 0: the sums of a group" },
        { name = "ROUND_WEIGHTS", values = { 0, 1 }, default = 0, doc = "1: scaled weights are rounded (gptq, bfloat16)" },
        { name = "BLOCK_M", values = { 16, 32, 64, 128, 256 }, default = default.BLOCK_M, doc = "rows of x a CTA owns" },
        { name = "BLOCK_K", values = { 64, 128 }, default = default.BLOCK_K, doc = "k of one slice of x in shared memory" },
        { name = "STAGES", values = { 2, 3, 4, 6 }, default = default.STAGES, doc = "slices in the ring" },
        { name = "BLOCK_N", values = { 32, 64, 128, 256 }, default = default.BLOCK_N, doc = "rows of W a CTA owns" },
        { name = "WARP_N", values = { 32, 64 }, default = default.WARP_N, doc = "rows of W a warp owns" },
        { name = "WARP_M", values = { 16, 32, 64 }, default = default.WARP_M, doc = "rows of x a warp owns" },
        { name = "WARPS_K", values = { 1, 2, 4 }, default = default.WARPS_K, doc = "split-K over groups of warps" },
        { name = "CLUSTER_K", values = { 1, 2, 4 }, default = 1, doc = "CTAs of a cluster that split K (cc 9.0 if over 1)" },
        { name = "GROUP_M", values = { 8 }, default = 8, doc = "BLOCK_M tiles swept together for L2" },
        { name = "SM_WARPS", values = { 8, 16 }, default = 8, doc = "warps a multiprocessor by registers" },
    },
    valid = function(p, problem, gpu)
        local reason = scale_rule(p, problem) or ring_rule(p) or shape_rule(p, problem, gpu) or warp_rule(p, problem)
            or cluster_rule(p, problem, gpu)
        if reason then
            return false, reason
        end
        return true
    end,
    launch = {
        dependent = true,
        grid = { "ceil_div(N,BLOCK_N)*ceil_div(M,BLOCK_M)*CLUSTER_K" },
        block = "32*(BLOCK_N/WARP_N)*(BLOCK_M/WARP_M)*WARPS_K",
        smem = smem,
        cluster = "CLUSTER_K",
    },
}
