-- wgmma-turn: wgmma kernel for M = 16 to 64 and large N on sm_90a. See kernel.cu for what the parameters mean to it.

-- Bytes of shared memory: the ring (x, codes, scales and zeros), output slots, sums from the other CTA, barriers. 64-row blocks times groups of a k tile
-- have 128 bytes of scales and 64 of zeros each.
local smem = "STAGES*(256*BLOCK_M+1024*WARPS_N*ROW_BLOCKS*BITS+128*ceil_div((2+HAS_ZEROS)*WARPS_N*ROW_BLOCKS*(GROUP%128==0?1:1+ceil_div(96,GROUP)),2)+28)+8328*WARPS_N*WARPS_K+((4-WARPS_N%2*2)*PAIR+(CLUSTER_K-1)*WARPS_N*ROW_BLOCKS)*128*BLOCK_M"

local function stage_bytes(p, problem)
    local groups = problem.group % 128 == 0 and 1 or 1 + (96 + problem.group - 1) // problem.group
    local blocks = p.WARPS_N * p.ROW_BLOCKS
    return 256 * p.BLOCK_M + 1024 * blocks * problem.bits + 128 * (((problem.sym and 2 or 3) * blocks * groups + 1) // 2) + 28
end

-- Code and scale in two operations a register (tern/short_scale.cuh), where SCALE_WEIGHTS asks for scaled weights.
local function short_way(p, problem)
    return p.SCALE_WEIGHTS == 1 and problem.bits == 2 and problem.sym and problem.activation ~= "bf16"
end

-- Who multiplies by the scale. Ternary weights stay exact when scaled in binary16; gptq weights, and all in bfloat16, are
-- rounded once.
local function scale_rule(p, problem)
    if problem.groups == 1 and p.SCALE_WEIGHTS == 1 then
        return "one scale a row: applied once in the epilogue"
    end
    local bf16 = problem.activation == "bf16"
    if p.SCALE_WEIGHTS == 1 and not short_way(p, problem) and (p.BLOCK_M <= 32 or problem.bits == 2) then
        return "few sums are quicker to scale than weights, and so are those of 2 bits"
    end
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
    if warpgroups < 2 or warpgroups > 4 or p.WARPS_N > 1 and p.WARPS_K > 1 then
        return "two to four warpgroups, side by side or in turn"
    end
    local entry = 512 // (warpgroups + 1) // 8 * 8
    local budget = math.min((entry * (warpgroups + 1) - 56) // warpgroups // 8 * 8, 240)
    -- fp32 sums, a second set while a group is open, A fragments, codes, the rest
    local sums = p.ROW_BLOCKS
    if p.SCALE_WEIGHTS == 0 and problem.groups > 1 then
        sums = sums + 1
    end
    local zeros = problem.sym and 0 or 4
    local turns = p.WARPS_K > 1 and 8 or 0
    -- sums that stay in place while branches go past: what ptxas was found to want (else it serialises products, C7512)
    local short = short_way(p, problem) and 20 + (p.WARPS_N > 1 and 4 * p.ROW_BLOCKS or 0) or 0
    if sums * p.BLOCK_M // 2 + 32 + 2 * problem.bits + zeros + turns + short + 12 > budget or short > 0 and warpgroups > 3 then
        return "registers"
    end
end

local row_blocks_values = { 1, 2, 3, 4, 5, 7 }

-- A loop goes over all slots of a warpgroup, or all but the last (kernel.cu): so no slot is left empty where fewer hold the largest tile.
local function slot_rule(p, share)
    local function room(slots) return p.WARPS_N * slots * (1 + p.PAIR) - p.PAIR end
    local parts = (share + room(p.ROW_BLOCKS) - 1) // room(p.ROW_BLOCKS)
    for _, fewer in ipairs(row_blocks_values) do
        if fewer < p.ROW_BLOCKS and room(fewer) * parts >= share then
            return "fewer row blocks a warpgroup hold a CTA's share"
        end
    end
end

-- Tiles that fit M and N: x rows not wasted, and every row block of a share at once. Small N is for checking: it takes any tile.
local function shape_rule(p, problem, gpu)
    local ctas = gpu.sms // (p.CLUSTER_K * (1 + p.PAIR))
    local row_blocks = (problem.n + 63) // 64
    if p.PAIR == 1 and (p.CLUSTER_K > 1 or p.WARPS_K > 1) then
        return "a pair splits K of one row block only"
    end
    if problem.n < 512 then
        return nil
    end
    if row_blocks < 2 * gpu.sms then
        return "wgmma-decode is faster where a multiprocessor has fewer than two row blocks"
    end
    if p.BLOCK_M < problem.m or p.BLOCK_M >= problem.m + 16 then
        return "x is delivered once: BLOCK_M holds all of M, and no more than that"
    end
    local share = (row_blocks + ctas - 1) // math.max(ctas, 1)
    if p.PAIR == 1 and share % 2 == 0 then
        return "no odd row block to share"
    end
    local blocks = p.WARPS_N * p.ROW_BLOCKS * (1 + p.PAIR) - p.PAIR
    -- no tile has room for more than 7 row blocks of every size of x; x comes once a tile, and beside 8 bits it is little
    local whole = problem.bits < 8 and math.min(share, 7) or 1
    if blocks < share and (p.CLUSTER_K > 1 or p.PAIR == 1 or blocks < whole or 2 * blocks < share) then
        return "the tile is small for a CTA's share"
    end
    if 3 * p.CLUSTER_K * p.WARPS_K * 128 > problem.k then
        return "fewer than three k tiles for each CTA"
    end
    return slot_rule(p, share)
end

-- The ring: as many stages as shared memory holds.
local stages = { 4, 6, 8, 10, 12, 16 } -- two warps take turns at them
local function ring_rule(p, problem, gpu)
    local stage, room = stage_bytes(p, problem), gpu.smem_block_bytes - 8328 * p.WARPS_N * p.WARPS_K
        - ((4 - p.WARPS_N % 2 * 2) * p.PAIR + (p.CLUSTER_K - 1) * p.WARPS_N * p.ROW_BLOCKS) * 128 * p.BLOCK_M
    if p.STAGES * stage > room then
        return "the ring does not fit in shared memory"
    end
    if p.STAGES % p.WARPS_K ~= 0 or p.STAGES < 2 * p.WARPS_K then
        return "what takes turns at stages has stages of its own; a warpgroup one to use and one to wait for"
    end
    for _, more in ipairs(stages) do
        if more > p.STAGES and more % p.WARPS_K == 0 and more * stage <= room then
            return "a deeper ring fits"
        end
    end
    if (p.WARPS_K - 1) * p.WARPS_N * p.ROW_BLOCKS * 256 * p.BLOCK_M > p.STAGES * (256 * p.BLOCK_M + 1024 * problem.bits * p.WARPS_N * p.ROW_BLOCKS) then
        return "sums of parts do not fit in the ring"
    end
end

-- Elements of y that the busiest CTA computes; where warpgroups have different numbers of row blocks, a quarter of what is missing.
local cluster = "(CLUSTER_K*(1+PAIR))"
local share = "ceil_div(ceil_div(M,BLOCK_M)*ceil_div(N,64),max(SMS/" .. cluster .. ",1))"
local busiest = "16*BLOCK_M*(3*" .. share .. "+WARPS_N*ceil_div(" .. share .. ",WARPS_N))/" .. cluster

-- A tile that is right for every shape, so that there is always an answer.
local default = { BLOCK_M = 64, WARPS_N = 2, WARPS_K = 1, ROW_BLOCKS = 1, CLUSTER_K = 1, PAIR = 1, STAGES = 4,
    SCALE_WEIGHTS = 0, ROUND_WEIGHTS = 0 }

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
    if p.BLOCK_M % (16 * p.CLUSTER_K) ~= 0 then
        return false, "blocks of a cluster own equally many rows of x, 16 at a time"
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
    name = "wgmma-turn",
    ops = { "linear-a16", "linear-bf16" },
    summary = "tensor cores (wgmma, sm_90a), dequantised weights in registers, x turned to the order of the layout: for M = 16 to 64 and large N",
    families = { "ternary", "gptq" },
    bits = { 2, 3, 4, 8 },
    min_cc = 90,
    m = { 16, 64 },
    layout = "frag16x128",
    unit = "mma-f16",
    entry = "tern_wgmma_turn",
    efficiency = 0.6,
    exact_weights = true,
    -- Declared in the order in which valid() asks: a refusal that reads the first few only is not asked again for the rest.
    params = {
        { name = "BLOCK_M", values = { 16, 32, 48, 64 }, default = default.BLOCK_M, doc = "rows of x a CTA owns: columns of the wgmma" },
        { name = "CLUSTER_K", values = { 1, 2 }, default = 1, doc = "CTAs of a cluster that split K" },
        { name = "WARPS_N", values = { 1, 2, 3, 4 }, default = default.WARPS_N, doc = "warpgroups side by side along N" },
        { name = "WARPS_K", values = { 1, 2, 3, 4 }, default = default.WARPS_K, doc = "warpgroups that take k tiles in turn" },
        { name = "SCALE_WEIGHTS", values = { 0, 1 }, default = 0, doc = "1: group scale on the weights; 0: on fp32 sums of each group" },
        { name = "ROUND_WEIGHTS", values = { 0, 1 }, default = 0, doc = "1: scaled weights are rounded (SCALE_WEIGHTS with gptq or bfloat16)" },
        { name = "ROW_BLOCKS", values = row_blocks_values, default = default.ROW_BLOCKS, doc = "64-row blocks of W of each warpgroup" },
        { name = "PAIR", values = { 0, 1 }, default = default.PAIR, doc = "1: two CTAs share an odd row block, half of K each" },
        { name = "STAGES", values = stages, default = default.STAGES, doc = "k tiles in the ring" },
    },
    valid = valid,
    -- a multiprocessor each
    launch = {
        grid = { "min(ceil_div(N,64)*ceil_div(M,BLOCK_M),max(SMS/(CLUSTER_K*(1+PAIR)),1))*CLUSTER_K*(1+PAIR)" },
        block = "128*(WARPS_N*WARPS_K+1)",
        smem = smem,
        workspace = "SMS*512",
        cluster = cluster,
        busiest = busiest,
    },
}
