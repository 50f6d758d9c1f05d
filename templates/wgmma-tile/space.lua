-- wgmma-tile: warp-specialised wgmma kernel for prefill on sm_90a. See kernel.cu for what the parameters mean to it.

-- Bytes of shared memory: the rings of x (whole slices, or halves of wide shared tiles) and of codes (with 48 bytes of scales and zeros a
-- tile and group), output slots of the warpgroups, barriers, map. Slots are shorter where that is more than a block may have.
local smem = "min(128*BLOCK_M*(2*STAGES-(PAIR==3)*(BLOCK_M>192)*X_COPY)"
    .. "+STAGES*(4*(CONSUMERS/K_PARTS*ROW_BLOCKS+(PAIR>1))*(256*BITS+48*(GROUP%128==0?1:1+ceil_div(96,GROUP)))+24)+360"
    .. "+8320*(CONSUMERS+(PAIR>1)),232448)"

local function shared_bytes(p, problem, stages, slots)
    local groups = problem.group % 128 == 0 and 1 or 1 + (96 + problem.group - 1) // problem.group
    local odd = p.PAIR > 1 and 1 or 0
    local tiles = 4 * (p.CONSUMERS // p.K_PARTS * p.ROW_BLOCKS + odd)
    local halves = 2 * stages - (p.PAIR == 3 and p.BLOCK_M > 192 and p.X_COPY or 0)
    return 128 * p.BLOCK_M * halves + stages * (tiles * (256 * problem.bits + 48 * groups) + 24) + 360 + slots * (p.CONSUMERS + odd)
end

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
    if p.SCALE_WEIGHTS == 0 and problem.group % (16 * p.CHUNK) ~= 0 then
        return "a chunk lies inside a scale group"
    end
    if p.ROUND_WEIGHTS ~= rounds then
        return "ROUND_WEIGHTS names what SCALE_WEIGHTS does to these weights"
    end
end

-- Registers a thread of the producers, and of the warpgroup of the shared row block.
local function other_registers(p)
    local columns = (p.BLOCK_M // 2 + 15) // 16 * 16
    if p.PAIR < 2 then
        return 56
    elseif p.PAIR == 4 then
        return 56 + 80
    elseif p.PAIR == 3 then
        return 32 + (columns <= 80 and 80 or columns // 2 + 56)
    end
    return p.ROW_BLOCKS == 1 and 32 + 160 or p.BLOCK_M > 112 and 24 + 104 or 32 + 112
end

-- Registers a consumer thread has: setmaxnreg hands it what the others leave of the launch's equal share. kernel.cu asserts the same sum,
-- so that no build can wait for registers that do not come.
local function register_rule(p, problem)
    local odd = p.PAIR > 1
    local warpgroups = p.CONSUMERS + (odd and 2 or 1)
    local share = 65536 // (128 * warpgroups) // 8 * 8
    local budget = math.min((share * warpgroups - other_registers(p)) // p.CONSUMERS // 8 * 8, 240)
    -- fp32 sums, a second set while a group is open, A fragments, codes, scales and zero points, addresses of slots
    local sums = p.ROW_BLOCKS * p.BLOCK_M // 2
    if p.SCALE_WEIGHTS == 0 and problem.groups > 1 then
        sums = 2 * sums
    end
    local zeros = problem.sym and 0 or 4
    local sets = (odd and p.PAIR < 4 or p.ROW_BLOCKS * p.BLOCK_M > (p.CONSUMERS < 3 and 256 or 128)) and 2 or 4 -- of A fragments, as in kernel.cu
    local words = problem.bits == 3 and 8 or 0 -- of three bits none can wait to be loaded
    local needed = sums + p.ROW_BLOCKS * (4 * sets * p.CHUNK + 2 * problem.bits + 2 + zeros) + words + (odd and 26 or 40) + (p.STREAM_K > 0 and 16 or 0)
    if needed > budget then
        return "registers"
    end
end

-- Kernels are checked on small odd shapes and timed on others. What is merely slow is refused on the others only, so that every
-- candidate has shapes to be checked on.
local function is_small(problem)
    return problem.n * problem.k < 1048576
end

-- Warpgroups that take slices in turn: where a block has one row block, or two for each.
local function part_rule(p, problem, gpu)
    if p.K_PARTS == 1 then
        return nil
    end
    if p.CONSUMERS % p.K_PARTS ~= 0 or p.STREAM_K > 0 then
        return "parts of K are for whole tiles and equally many warpgroups"
    end
    if is_small(problem) then
        return nil
    end
    if 4 * p.K_PARTS * p.CLUSTER_K * 128 > problem.k then
        return "few k tiles for each part of K"
    end
    if (problem.n + 63) // 64 * ((problem.m + p.BLOCK_M - 1) // p.BLOCK_M) > 4 * gpu.sms then
        return "enough row blocks without parts of K"
    end
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
    local sums = 256 * p.CONSUMERS // p.K_PARTS * p.ROW_BLOCKS * p.BLOCK_M * (p.CLUSTER_K - 1) // p.CLUSTER_K
    if sums > p.STAGES * 256 * (p.BLOCK_M + 4 * p.CONSUMERS // p.K_PARTS * p.ROW_BLOCKS * problem.bits) then
        return "sums of a cluster do not fit in the ring"
    end
    if 3 * p.CLUSTER_K * 128 > problem.k then
        return "fewer than three k tiles for each block of a cluster"
    end
    if (problem.n + 63) // 64 * ((problem.m + p.BLOCK_M - 1) // p.BLOCK_M) > 3 * gpu.sms then
        return "enough row blocks without splitting K"
    end
end

-- A tile that is right for every shape, so that there is always an answer.
local default = {
    BLOCK_M = 64, CONSUMERS = 2, K_PARTS = 1, ROW_BLOCKS = 1, STAGES = 4, CHUNK = 1, GROUP_M = 8, CLUSTER_K = 1, PAIR = 0, X_COPY = 0, STREAM_K = 0,
}

local function is_default(p)
    for name, value in pairs(default) do
        if p[name] ~= value then
            return false
        end
    end
    return true
end

-- Row blocks of 64 times tiles of x (of two blocks that share x, those of one), the clusters that are resident, and the row blocks that
-- each takes at a time.
local row_blocks = "ceil_div(M,BLOCK_M)*ceil_div(N,64*(1+X_COPY/2))"
local cluster = "(CLUSTER_K+(PAIR%4>0)+X_COPY/2)" -- blocks that work together
local clusters = "SMS/" .. cluster .. "*(8-(CLUSTER_K>3))/8"
local held = "(CONSUMERS/K_PARTS*ROW_BLOCKS)"

-- Elements of y that the busiest block computes. Warpgroups without a row block leave the tensor cores to the others, but not the
-- time that dequantising takes: what is free in the last turn counts a quarter.
local share = "ceil_div(" .. row_blocks .. ",max(" .. clusters .. ",1))"
-- PAIR 4, as tern/spread.cuh deals: blocks with the same tile of x, their own row blocks, and parts of those left over. A part takes as long as
-- 64 columns, for its weights must be dequantised.
local spread = "max(min(ceil_div(N,64),SMS/CLUSTER_K/ceil_div(M,BLOCK_M)),1)"
local spread_columns = "(ceil_div(N,64)/" .. spread .. "*BLOCK_M+64*ceil_div(ceil_div(N,64)%" .. spread .. "*8," .. spread .. "))"
local busiest_block = "M==0?0:PAIR==4?64*" .. spread_columns .. "*ceil_div(ceil_div(M,BLOCK_M),max(SMS/CLUSTER_K,1))/CLUSTER_K:STREAM_K>0?64*BLOCK_M*"
    .. row_blocks .. "/SMS:16*BLOCK_M*(3*" .. share .. "+" .. held .. "*ceil_div(" .. share .. "," .. held .. "))/" .. cluster

-- What the busiest multiprocessor multiplies, in row blocks times rows of x, as tern/sweep.cuh deals them out. A warpgroup of one
-- row block is busy in a tile that is not full as well, and below about 144 rows of x dequantising takes as long.
local function busiest(p, problem, gpu, block_m)
    local blocks = p.CONSUMERS // p.K_PARTS * p.ROW_BLOCKS
    local row_blocks, tiles_m = (problem.n + 63) // 64, (problem.m + block_m - 1) // block_m
    local share
    if row_blocks * tiles_m <= gpu.sms * blocks * 6 then
        share = (row_blocks * tiles_m + gpu.sms - 1) // gpu.sms
        if p.PAIR > 0 then
            local pairs = gpu.sms // 2
            share = ((row_blocks * tiles_m + pairs - 1) // pairs) / 2
        elseif p.ROW_BLOCKS == 1 then
            share = (share + blocks - 1) // blocks * blocks
        end
    else
        share = ((row_blocks + blocks - 1) // blocks * tiles_m + gpu.sms - 1) // gpu.sms * blocks
    end
    return share * math.max(block_m, 144)
end

-- Row blocks that are left over, of which all blocks have a part beside one of their own.
local function spread_rule(p, problem, gpu)
    if p.CONSUMERS * p.ROW_BLOCKS > 1 or p.BLOCK_M % 128 ~= 0 then
        return "a block has one row block and an eighth of the columns of another"
    end
    if p.CLUSTER_K > 2 then
        return "sums of the other row block are two blocks'"
    end
    if p.SCALE_WEIGHTS == 0 and problem.groups > 1 then
        return "registers for one set of sums"
    end
    if is_small(problem) then
        return nil
    end
    if p.X_COPY == 0 then
        return "warps that copy x are in the way of two warpgroups with different row blocks"
    end
    local row_blocks, tiles_m = (problem.n + 63) // 64, (problem.m + p.BLOCK_M - 1) // p.BLOCK_M
    local workers = gpu.sms // p.CLUSTER_K
    local count = workers // math.min(tiles_m, workers)
    if row_blocks <= count or row_blocks > count + count // 8 then
        return "not one row block for all, or too many left over"
    end
end

-- Two blocks that divide an odd row block between them: where that leaves the busiest less to do.
local function pair_rule(p, problem, gpu)
    if p.PAIR == 0 then
        return nil
    end
    if p.STREAM_K > 0 or p.K_PARTS > 1 or p.PAIR < 4 and p.CLUSTER_K > 1 or gpu.sms < 2 then
        return "one way to divide K at a time"
    end
    if p.PAIR == 4 then
        return spread_rule(p, problem, gpu)
    end
    if p.PAIR > 1 and (p.CONSUMERS ~= 2 or p.SCALE_WEIGHTS == 0 and problem.groups > 1) then
        return "PAIR 2 and 3 have registers for two warpgroups, one more and one set of sums"
    end
    if p.PAIR > 1 and p.BLOCK_M > 192 and p.BLOCK_M % 32 ~= 0 then
        return "columns of two products that are no multiple of 16"
    end
    if is_small(problem) then
        return nil
    end
    if p.PAIR > 1 and p.X_COPY == 0 then
        return "warps that copy x are in the way of three warpgroups that multiply"
    end
    local row_blocks = (problem.n + 63) // 64 * ((problem.m + p.BLOCK_M - 1) // p.BLOCK_M)
    local pairs = gpu.sms // 2
    if (row_blocks + pairs - 1) // pairs > 1.9 * ((row_blocks + gpu.sms - 1) // gpu.sms) then
        return "whole row blocks come out as even"
    end
    if row_blocks > (p.PAIR > 1 and 3 or 6) * gpu.sms * p.CONSUMERS * p.ROW_BLOCKS then
        return "half a row block is little of a long share"
    end
end

-- Two blocks of a cluster with the same rows of x: where tiles are many, since both wait for the slower one.
local function share_rule(p, problem, gpu)
    if p.X_COPY < 2 then
        return nil
    end
    if p.CLUSTER_K > 1 or p.K_PARTS > 1 or p.PAIR > 0 or p.STREAM_K > 0 or gpu.sms < 2 then
        return "a cluster is for one thing at a time, and shared x for whole tiles"
    end
    if is_small(problem) then
        return nil
    end
    if (problem.n + 63) // 64 * ((problem.m + p.BLOCK_M - 1) // p.BLOCK_M) < 8 * gpu.sms then
        return "few tiles for two blocks at a time"
    end
end

-- How K is divided, and heights that are no power of two: where whole tiles leave multiprocessors idle.
local function balance_rule(p, problem, gpu)
    if is_small(problem) then
        return nil
    end
    local blocks = p.CONSUMERS // p.K_PARTS * p.ROW_BLOCKS
    local tiles = (problem.n + 64 * blocks - 1) // (64 * blocks) * ((problem.m + p.BLOCK_M - 1) // p.BLOCK_M)
    local rest = tiles % gpu.sms
    if p.STREAM_K == 1 and (tiles * 3 < gpu.sms or rest == 0 or 20 * (gpu.sms - rest) < tiles + gpu.sms - rest) then
        return "few tiles share a tile's K, or whole tiles come out even"
    end
    if p.STREAM_K == 2 then
        local workers = gpu.sms // p.CLUSTER_K
        local last = tiles % workers
        local helpers, k_tiles = (workers - last) * p.CLUSTER_K, (problem.k + 127) // 128
        local cost = 3 + 512 // (blocks * p.BLOCK_M) -- this and the span as in tern/tile_plan.cuh and stream_k.cuh
        local span = (k_tiles * helpers - cost * (last + helpers) * p.CLUSTER_K) // (last * p.CLUSTER_K + helpers)
        if p.CLUSTER_K > 2 or tiles > 8 * workers or 3 * last < workers or 10 * span < k_tiles then
            return "few blocks help, many share a tile's K, or it is too short to be shared"
        end
    end
    if p.BLOCK_M > 128 and p.BLOCK_M < 256 and problem.m > p.BLOCK_M then
        if p.STREAM_K > 0 and p.BLOCK_M ~= 176 and p.BLOCK_M ~= 192 or p.CLUSTER_K > 1 then
            return "heights between 128 and 256 are for whole tiles"
        end
        local plain = math.min(busiest(p, problem, gpu, 128), busiest(p, problem, gpu, 256))
        if p.STREAM_K == 0 and busiest(p, problem, gpu, p.BLOCK_M) > 0.96 * plain then
            return "BLOCK_M does not balance the tiles"
        end
    end
end

-- Tiles that fit M and the machine: x rows not wasted, tiles large where there are many.
local function shape_rule(p, problem, gpu)
    local rows = 64 * p.CONSUMERS // p.K_PARTS * p.ROW_BLOCKS
    local tiles = (problem.n + rows - 1) // rows * ((problem.m + p.BLOCK_M - 1) // p.BLOCK_M)
    if p.BLOCK_M == 136 and (p.PAIR ~= 2 and p.PAIR ~= 3 or problem.m <= 128 and not is_small(problem)) then
        return "BLOCK_M 136 is for what is a little more than 128"
    end
    if p.CONSUMERS == 1 and p.PAIR ~= 4 then
        return "one warpgroup alone is for blocks that share row blocks left over"
    end
    if p.BLOCK_M >= 2 * problem.m then
        return "BLOCK_M is twice M or more"
    end
    if p.BLOCK_M == 96 and (problem.m > 96 or problem.m <= 64) or p.BLOCK_M == 112 and (problem.m > 112 or problem.m <= 96) then
        return "BLOCK_M 96 and 112 are for an M that they just hold"
    end
    if p.BLOCK_M > 128 and p.BLOCK_M < 256 and problem.m <= p.BLOCK_M - 16 and not is_small(problem) then
        return "a lower tile holds M"
    end
    if p.BLOCK_M > 96 and p.CHUNK > 1 then
        return "long chunks are for short products"
    end
    if p.BLOCK_M == 64 and problem.m > 64 then
        return "dequantising takes longer than products of 64 columns"
    end
    if rows * p.BLOCK_M < 16384 and tiles >= 8 * gpu.sms then
        return "CTA tile is small for the problem"
    end
    local reason = part_rule(p, problem, gpu) or cluster_rule(p, problem, gpu) or pair_rule(p, problem, gpu)
        or share_rule(p, problem, gpu) or balance_rule(p, problem, gpu)
    if reason then
        return reason
    end
    local exact = problem.family == "ternary" and problem.activation == "f16"
    if exact and problem.groups > 1 and p.SCALE_WEIGHTS == 0 and problem.m > 64 then
        return "scaled ternary weights are exact and need no second set of sums"
    end
end

-- The ring: as deep as shared memory allows, of the values that STAGES has.
local function ring_rule(p, problem, gpu)
    local room = gpu.smem_block_bytes
    if shared_bytes(p, problem, p.STAGES, p.STAGES > 3 and 8320 or 4224) > room then
        return "the ring does not fit in shared memory"
    end
    if p.STAGES % p.K_PARTS ~= 0 then
        return "a stage is for slices of one turn"
    end
    local deeper = p.STAGES + p.K_PARTS
    if deeper <= 6 and shared_bytes(p, problem, deeper, 8320) <= room and not is_default(p) then
        return "a deeper ring fits"
    end
end

local function valid(p, problem, gpu)
    if gpu.cc ~= 90 then
        return false, "wgmma exists on compute capability 9.0 (sm_90a) only"
    end
    local reason = scale_rule(p, problem) or register_rule(p, problem)
    if not reason and not is_default(p) then
        reason = shape_rule(p, problem, gpu)
    end
    reason = reason or ring_rule(p, problem, gpu)
    if reason then
        return false, reason
    end
    return true
end

return {
    name = "wgmma-tile",
    ops = { "linear-a16", "linear-bf16" },
    summary = "tensor cores (wgmma, sm_90a), dequantised weights in registers, producer warps, persistent: for prefill",
    families = { "ternary", "gptq" },
    bits = { 2, 3, 4, 8 },
    min_cc = 90,
    m = { 65, 1048576 },
    layout = "frag16x128",
    unit = "mma-f16",
    entry = "tern_wgmma_tile",
    efficiency = 0.85,
    exact_weights = true,
    params = {
        { name = "BLOCK_M", values = { 64, 96, 112, 128, 136, 144, 160, 176, 192, 208, 224, 240, 256 }, default = default.BLOCK_M, doc = "rows of x a CTA owns: columns of the wgmma" },
        { name = "CONSUMERS", values = { 1, 2, 3 }, default = default.CONSUMERS, doc = "warpgroups that multiply; one more produces" },
        { name = "K_PARTS", values = { 1, 2 }, default = default.K_PARTS, doc = "of them that share rows and take slices of K in turn" },
        { name = "ROW_BLOCKS", values = { 1, 2 }, default = default.ROW_BLOCKS, doc = "64-row blocks of W of each of them" },
        { name = "STAGES", values = { 3, 4, 5, 6 }, default = default.STAGES, doc = "slices of 128 k in the ring" },
        { name = "CHUNK", values = { 1, 2 }, default = default.CHUNK, doc = "k-steps of 16 dequantised and committed together" },
        { name = "GROUP_M", values = { 8 }, default = default.GROUP_M, doc = "BLOCK_M tiles swept together at most, for reuse in L2" },
        { name = "CLUSTER_K", values = { 1, 2, 4, 8 }, default = 1, doc = "blocks of a cluster that split K" },
        { name = "PAIR", values = { 0, 1, 2, 3, 4 }, default = 0, doc = "two blocks share a row block, half of K each, 1: at last, 2: beside the others, 3: half of the columns each; 4: all share what is left over, by columns" },
        { name = "X_COPY", values = { 0, 1, 2 }, default = 0, doc = "x by 0: cp.async, 1: the copy engine, 2: it, half of a slice for both by each of two blocks of a cluster" },
        { name = "STREAM_K", values = { 0, 1, 2 }, default = 0, doc = "1: tiles are cut along K so that all blocks have equally much to do, 2: blocks without a tile in the last turn take a part of the others' K" },
        { name = "SCALE_WEIGHTS", values = { 0, 1 }, default = 0, doc = "1: group scale on the weights; 0: on fp32 sums of each group" },
        { name = "ROUND_WEIGHTS", values = { 0, 1 }, default = 0, doc = "1: scaled weights are rounded (SCALE_WEIGHTS with gptq or bfloat16)" },
    },
    valid = valid,
    -- a multiprocessor each; only 7 of 8 of the clusters of 4 or 8 that would fill the GPU: more are not resident at once.
    -- STREAM_K: each block has a k tile at least. Workspace: a tensor map a block, counters and two slots of sums.
    launch = {
        grid = { "min(ceil_div(M,BLOCK_M)*(STREAM_K?ceil_div(N,64*CONSUMERS*ROW_BLOCKS)*ceil_div(K,128):ceil_div(N,64)),"
            .. clusters .. ")*" .. cluster },
        block = "128*(CONSUMERS+1+(PAIR>1))",
        smem = smem,
        cluster = "CLUSTER_K+(PAIR>0)*(PAIR<3)+X_COPY/2",
        busiest = busiest_block,
        workspace = "X_COPY+STREAM_K==0?0:SMS*(128+(STREAM_K>0)*CONSUMERS*(16+512*ROW_BLOCKS*BLOCK_M))",
    },
}
