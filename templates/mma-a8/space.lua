-- mma-a8: int8 activations, tiled mma.sync kernel for M = 16 up to prefill. See kernel.cu for what the parameters mean to it.

-- Bytes of shared memory: the ring (x, codes, and 48 bytes of scales and zeros a tile and group), or the output tile.
local smem = "max(STAGES*(128*BLOCK_M+BLOCK_N/16*(256*BITS+48*(GROUP%128==0?1:1+ceil_div(96,GROUP)))),BLOCK_M*(2*BLOCK_N+16))"

local function ceil_div(a, b)
    return (a + b - 1) // b
end

local function shared_bytes(p, problem, stages)
    local groups = problem.group % 128 == 0 and 1 or 1 + ceil_div(96, problem.group)
    local ring = stages * (128 * p.BLOCK_M + p.BLOCK_N // 16 * (256 * problem.bits + 48 * groups))
    return math.max(ring, p.BLOCK_M * (2 * p.BLOCK_N + 16))
end

-- What the numbers of the format allow.
local function format_rule(problem)
    if problem.bits == 8 and not problem.sym then
        return "q - z of 8 bits with zero points has 9 bits"
    end
    if problem.groups == 1 and problem.k > 131072 then
        return "s32 sums over all of K"
    end
end

-- A middling tile that is right for every shape, so that there is always an answer.
local default = { BLOCK_M = 64, BLOCK_N = 64, WARP_M = 32, WARP_N = 32, STAGES = 3 }

local function is_default(p)
    for name, value in pairs(default) do
        if p[name] ~= value then
            return false
        end
    end
    return true
end

-- Tiles that fit M: less than half of the x tile wasted, and large where M is large.
local function block_rule(p, problem, gpu)
    if gpu.cc == 90 and problem.m > 64 then
        return "wgmma-a8 serves this M on cc 9.0"
    end
    if p.BLOCK_M > 16 and p.BLOCK_M >= 2 * problem.m then
        return "BLOCK_M is twice M or more"
    end
    if p.BLOCK_M < math.min(problem.m, 64) then
        return "BLOCK_M is small for M"
    end
    if p.BLOCK_M * p.BLOCK_N < math.min(8 * problem.m, 8192) or p.BLOCK_M * p.BLOCK_N > 32768 then
        return "CTA tile is small for M, or has too many sums"
    end
end

-- Warps and registers of one CTA.
local function warp_rule(p, problem)
    if p.WARP_N > p.BLOCK_N or p.WARP_M > p.BLOCK_M then
        return "warp tile larger than the CTA tile"
    end
    local warps = p.BLOCK_N // p.WARP_N * (p.BLOCK_M // p.WARP_M)
    if warps ~= 4 and warps ~= 8 then
        return "a CTA has 4 or 8 warps"
    end
    if p.WARP_M < p.WARP_N and p.WARP_M < p.BLOCK_M then
        return "warps side by side in M decode the same weights"
    end
    -- sums; of a row tile: A of a piece, sums of a group, codes, scales and zeros
    local grouped = problem.groups > 1
    local piece = not grouped and 2 or problem.group % 128 == 0 and 4 or problem.group % 64 == 0 and 2 or 1
    local row_tile = 4 * piece + (grouped and 8 or 0) + problem.bits + (problem.sym and 4 or 6)
    if p.WARP_N * p.WARP_M // 32 + p.WARP_N // 16 * row_tile + 4 * piece + 56 > 250 then
        return "registers"
    end
end

-- Three slices or more, if they fit.
local function ring_rule(p, problem, gpu)
    if shared_bytes(p, problem, p.STAGES) > gpu.smem_block_bytes then
        return "the ring does not fit in shared memory"
    end
    if p.STAGES == 2 and shared_bytes(p, problem, 3) <= gpu.smem_block_bytes then
        return "a deeper ring fits"
    end
end

return {
    name = "mma-a8",
    ops = { "linear-a8" },
    summary = "tensor cores (mma.sync s8), weights decoded to bytes in registers, x quantised to int8: for M = 16 up to prefill",
    families = { "ternary", "gptq" },
    bits = { 2, 4, 8 },
    min_cc = 80,
    m = { 16, 1048576 },
    layout = "frag16x128",
    unit = "mma-s8",
    entry = "tern_mma_a8",
    efficiency = 0.5,
    exact_weights = true,
    params = {
        { name = "BLOCK_M", values = { 16, 32, 64, 128, 256 }, default = default.BLOCK_M, doc = "rows of x a CTA owns" },
        { name = "BLOCK_N", values = { 64, 128, 256 }, default = default.BLOCK_N, doc = "rows of W a CTA owns" },
        { name = "WARP_M", values = { 16, 32, 64 }, default = default.WARP_M, doc = "rows of x a warp owns" },
        { name = "WARP_N", values = { 16, 32, 64 }, default = default.WARP_N, doc = "rows of W a warp owns" },
        { name = "STAGES", values = { 2, 3, 4, 6 }, default = default.STAGES, doc = "slices of 128 k in the ring" },
    },
    valid = function(p, problem, gpu)
        local reason = format_rule(problem)
        if not reason and not is_default(p) then
            reason = block_rule(p, problem, gpu) or warp_rule(p, problem) or ring_rule(p, problem, gpu)
        end
        if reason then
            return false, reason
        end
        return true
    end,
    -- Workspace: quantised x and its scales.
    launch = {
        grid = { "ceil_div(N,BLOCK_N)*ceil_div(M,BLOCK_M)" },
        block = "32*(BLOCK_N/WARP_N)*(BLOCK_M/WARP_M)",
        smem = smem,
        workspace = "1024*(ceil_div(M,8)*ceil_div(K,128)+ceil_div(M,256)+1)",
        prologue = { entry = "tern_mma_a8_quantise", grid = "M", block = 256 },
    },
}
