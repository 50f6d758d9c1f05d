-- wgmma-a8: int8 activations, warp-specialised wgmma kernel for prefill on sm_90a. See kernel.cu for what the parameters mean to it.

-- Bytes of shared memory: the ring (x, codes, and 48 bytes of scales and zeros a tile and group), output slots, scales of
-- tokens, barriers.
local smem = "STAGES*(128*BLOCK_M+4*CONSUMERS*ROW_BLOCKS*(256*BITS+48*(GROUP%128==0?1:1+ceil_div(96,GROUP)))+24)+(8320+4*BLOCK_M)*CONSUMERS+8*(CLUSTER_K>1)"

local function shared_bytes(p, problem, stages)
    local groups = problem.group % 128 == 0 and 1 or 1 + (96 + problem.group - 1) // problem.group
    return stages * (128 * p.BLOCK_M + 4 * p.CONSUMERS * p.ROW_BLOCKS * (256 * problem.bits + 48 * groups) + 24)
        + (8320 + 4 * p.BLOCK_M) * p.CONSUMERS + (p.CLUSTER_K > 1 and 8 or 0)
end

-- Whether sums of parts of K (of scale groups; e4m3: of 128 k at most) are added up one by one.
local function adds_parts(p, problem)
    return problem.activation == "e4m3" or (problem.groups > 1 and p.ROUND_SCALES == 0)
end

-- What the numbers of the format allow.
local function format_rule(p, problem)
    local e4m3 = problem.activation == "e4m3"
    if problem.bits == 8 and (e4m3 or not problem.sym) then
        return e4m3 and "q - z of 8 bits is no e4m3 number" or "q - z of 8 bits with zero points has 9 bits"
    end
    if e4m3 and (p.ROUND_SCALES == 1 or p.BY_ADDING == 1) then
        return "for int8"
    end
    if p.ROUND_SCALES == 1 and (problem.family ~= "ternary" or problem.groups == 1 or problem.group % 128 ~= 0) then
        return "rounded scales are for ternary groups of a multiple of 128"
    end
    if p.BY_ADDING == 1 and not adds_parts(p, problem) then
        return "no sums of groups"
    end
    if not adds_parts(p, problem) and problem.k > 131072 then
        return "s32 sums over all of K"
    end
    if p.CHUNK == 2 and problem.group % 64 ~= 0 then
        return "a chunk lies inside a scale group"
    end
end

-- Registers a consumer thread has: setmaxnreg hands it what the producers (56) leave of the launch's equal share. kernel.cu
-- asserts the same sum, so that no build can wait for registers that do not come.
local function register_rule(p, problem)
    local share = 65536 // (128 * (p.CONSUMERS + 1)) // 8 * 8
    local budget = math.min((share * (p.CONSUMERS + 1) - 56) // p.CONSUMERS // 8 * 8, 240)
    local sums = p.ROW_BLOCKS * p.BLOCK_M // 2
    if adds_parts(p, problem) then
        sums = 2 * sums
    end
    local needed = sums + p.ROW_BLOCKS * (8 * p.CHUNK + 2 * problem.bits + 4 + 4 * p.ROUND_SCALES) + 40 + 16 * p.STREAM_K
    if needed > budget then
        return "registers"
    end
end

-- Kernels are checked on small odd shapes and timed on others. What is merely slow is refused on the others only, so that every
-- candidate has shapes to be checked on.
local function is_small(problem)
    return problem.n * problem.k < 1048576
end

local function ceil_div(a, b)
    return (a + b - 1) // b
end

-- A tile that is right for every shape, so that there is always an answer.
local default = { BLOCK_M = 128, CONSUMERS = 2, ROW_BLOCKS = 1, STAGES = 4, CHUNK = 1, GROUP_M = 8, CLUSTER_K = 1, STREAM_K = 0, ROUND_SCALES = 0, BY_ADDING = 0 }

local function is_default(p)
    for name, value in pairs(default) do
        if p[name] ~= value then
            return false
        end
    end
    return true
end

-- Splitting K over a cluster: its sums must fit in the ring, and there must be few row blocks a CTA without it.
local function cluster_rule(p, problem, gpu)
    if p.CLUSTER_K == 1 then
        return nil
    end
    if gpu.sms < 2 * p.CLUSTER_K then
        return "more blocks in a cluster than multiprocessors"
    end
    if p.STREAM_K == 1 then
        return "one way to divide the work at a time"
    end
    if p.BLOCK_M % (16 * p.CLUSTER_K) ~= 0 then
        return "blocks of a cluster own equally many rows of x, 16 at a time"
    end
    local sums = 256 * p.CONSUMERS * p.ROW_BLOCKS * p.BLOCK_M * (p.CLUSTER_K - 1) // p.CLUSTER_K
    if sums > p.STAGES * 128 * (p.BLOCK_M + 8 * p.CONSUMERS * p.ROW_BLOCKS * problem.bits) then
        return "sums of a cluster do not fit in the ring"
    end
    if 3 * p.CLUSTER_K * 128 > problem.k then
        return "fewer than three k tiles for each block of a cluster"
    end
    if ceil_div(problem.n, 64) * ceil_div(problem.m, p.BLOCK_M) > 3 * gpu.sms then
        return "enough row blocks without splitting K"
    end
end

-- Tiles that fit M and the machine: x rows not wasted, tiles large where there are many.
local function shape_rule(p, problem, gpu)
    local rows = 64 * p.CONSUMERS * p.ROW_BLOCKS
    local tiles = ceil_div(problem.n, rows) * ceil_div(problem.m, p.BLOCK_M)
    if p.BLOCK_M >= 2 * problem.m then
        return "BLOCK_M is twice M or more"
    end
    if is_small(problem) then
        return nil
    end
    if p.BLOCK_M < 128 and problem.m > p.BLOCK_M then
        return "low tiles are for an M that they hold"
    end
    local odd = p.BLOCK_M == 144 or (p.BLOCK_M == 160 and not adds_parts(p, problem)) -- who adds parts has no larger tile than 160
    if odd and problem.m > p.BLOCK_M and ceil_div(problem.m, p.BLOCK_M) * p.BLOCK_M >= ceil_div(problem.m, 128) * 128 then
        return "a tile of 128 wastes no more"
    end
    local rest = tiles % gpu.sms
    if p.STREAM_K == 1 and (tiles * 3 < gpu.sms or rest == 0 or 20 * (gpu.sms - rest) < tiles + gpu.sms - rest) then
        return "few tiles share a tile's K, or whole tiles come out even"
    end
end

-- The ring: as deep as shared memory allows, of the values that STAGES has.
local function ring_rule(p, problem, gpu)
    local room = gpu.smem_block_bytes
    if shared_bytes(p, problem, p.STAGES) > room then
        return "the ring does not fit in shared memory"
    end
    if p.STAGES < 8 and shared_bytes(p, problem, p.STAGES + 1) <= room and not is_default(p) then
        return "a deeper ring fits"
    end
end

local function valid(p, problem, gpu)
    if gpu.cc ~= 90 then
        return false, "wgmma exists on compute capability 9.0 (sm_90a) only"
    end
    local reason = format_rule(p, problem) or register_rule(p, problem)
    if not reason and not is_default(p) then
        reason = shape_rule(p, problem, gpu) or cluster_rule(p, problem, gpu)
    end
    reason = reason or ring_rule(p, problem, gpu)
    if reason then
        return false, reason
    end
    return true
end

return {
    name = "wgmma-a8",
    ops = { "linear-a8", "linear-e4m3" },
    summary = "tensor cores (wgmma s8 or e4m3, sm_90a), weights decoded to bytes in registers, x quantised to int8 or e4m3: for prefill",
    families = { "ternary", "gptq" },
    bits = { 2, 4, 8 },
    min_cc = 90,
    m = { 65, 1048576 },
    layout = "frag16x128",
    unit = "wgmma-s8",
    entry = "tern_wgmma_a8",
    efficiency = 0.7,
    exact_weights = true,
    params = {
        { name = "BLOCK_M", values = { 96, 128, 144, 160, 192, 224, 256 }, default = default.BLOCK_M, doc = "rows of x a CTA owns: columns of the wgmma" },
        { name = "CONSUMERS", values = { 2, 3 }, default = default.CONSUMERS, doc = "warpgroups that multiply; one more produces" },
        { name = "ROW_BLOCKS", values = { 1, 2 }, default = default.ROW_BLOCKS, doc = "64-row blocks of W of each of them" },
        { name = "CHUNK", values = { 1, 2 }, default = default.CHUNK, doc = "steps of 32 k decoded and committed together" },
        { name = "GROUP_M", values = { 8 }, default = default.GROUP_M, doc = "BLOCK_M tiles swept together for reuse in L2" },
        { name = "CLUSTER_K", values = { 1, 2, 4 }, default = default.CLUSTER_K, doc = "blocks of a cluster that split K" },
        { name = "STREAM_K", values = { 0, 1 }, default = default.STREAM_K, doc = "1: tiles are cut along K so that all blocks have equally much to do" },
        { name = "ROUND_SCALES", values = { 0, 1 }, default = default.ROUND_SCALES, doc = "1: group scales of ternary weights are rounded to 7 bits of the largest of the row" },
        { name = "BY_ADDING", values = { 0, 1 }, default = default.BY_ADDING, doc = "1: sums of groups become floats by two additions, not by a conversion" },
        { name = "STAGES", values = { 3, 4, 5, 6, 7, 8 }, default = default.STAGES, doc = "slices of 128 k in the ring" },
    },
    valid = valid,
    -- Workspace: quantised x and its scales; largest scales of the rows of W; counters and two slots of sums a block.
    launch = {
        grid = { "min(ceil_div(M,BLOCK_M)*(STREAM_K>0?ceil_div(N,64*CONSUMERS*ROW_BLOCKS)*ceil_div(K,128):ceil_div(N,64)),"
            .. "SMS/CLUSTER_K*(8-(CLUSTER_K>3))/8)*CLUSTER_K" },
        block = "128*(CONSUMERS+1)",
        smem = smem,
        cluster = "CLUSTER_K",
        workspace = "1024*(ceil_div(M,8)*ceil_div(K,128)+ceil_div(M,256)+1)+ROUND_SCALES*256*ceil_div(N,64)"
            .. "+STREAM_K*SMS*CONSUMERS*(16+512*ROW_BLOCKS*BLOCK_M)",
        prologue = { entry = "tern_wgmma_a8_quantise", grid = "M+ROUND_SCALES*ceil_div(N,128)", block = 256 },
    },
}
