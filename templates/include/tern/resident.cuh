// The frame of kernels that keep x in registers while rows of W pass by: how blocks and warps share W, the copying warp, the walk of
// the multiplying warps, the warps that add up. x and the arithmetic on a tile are the template's own. Compute capability 9.0.
//
// The including kernel has in front of it the format's constants (stream.cuh) and the parameters WARPS_K, K_TILES, ROW_TILES,
// STAGES, ADDERS, CLUSTER_K, WARPS = WARPS_K, BULK = 1, TILES = WARPS_K * K_TILES, and its constants
// UNITS (of a row block: what is added up at a time), UNIT_FLOATS (of a lane in a unit: 2 or 4), SLOTS (row blocks whose sums wait
// to be added up), TOGETHER (whether a stage is given back by the warps that add up its sums, not by those that multiply it: these then
// need not wait for slots either; SLOTS = STAGES), WEIGHTS_FIRST (whether the whole ring is asked for ahead of x, and so ahead of all else), FIRST (row blocks that
// are asked for ahead of x; STAGES where that is so).
//
// Each of WARPS_K warps owns K_TILES tiles of 128 k, WARPS_K apart. One more warp streams W by bulk copies, all of the block's K of a
// row block (ROW_TILES tiles of 16 rows) at a time. Sums of a row block go to a slot for each warp; ADDERS warps, or, where that is 0, the
// copying warp, add them up, in warp order, and hand the sums to the template. Barriers of copies (mbarrier) are all that ties the three kinds together.
#ifndef TERN_RESIDENT_CUH
#define TERN_RESIDENT_CUH

#include "tern/bias.cuh"
#include "tern/cluster_meet.cuh"
#include "tern/pipeline.cuh"
#include "tern/stream.cuh"

constexpr int UNIT_BYTES = UNIT_FLOATS * 128;
constexpr int SLOT_BYTES = UNITS * UNIT_BYTES; // sums of a row block from one warp
constexpr int WARP_BYTES = SLOTS * SLOT_BYTES; // a warp's slots lie together: until it walks they are its scratch
constexpr int UNIT_ROW = WARPS_K * UNIT_BYTES, SLOT_ROW = UNITS * UNIT_ROW; // or side by side: tern_rows_walk_at_once
constexpr int THREADS = 32 * (WARPS_K + 1 + ADDERS), READY = 1, X_HERE = 2; // of the block; named barriers
static_assert(ADDERS <= UNITS * SLOTS, "an adder two laps ahead: parity cannot tell");

// The K tiles of the whole of W that the block has: first .. first + count - 1; all: those of W.
struct tern_tiles {
    int first, count, all;
};

// The cluster's row blocks are first, first + step, ... of W: nothing is divided ahead of the first copy. Its blocks split K.
// Uniform.
struct tern_part {
    int first, step, row_blocks; // row_blocks: of W
    int rank;                    // in the cluster
    struct tern_tiles k;
};

__device__ __forceinline__ struct tern_part tern_part_make(const struct tern_args &args) {
    const unsigned rank = blockIdx.x % CLUSTER_K, tiles = ((unsigned)args.k + 127) / 128;
    const unsigned begin = rank * tiles / CLUSTER_K, end = (rank + 1) * tiles / CLUSTER_K;
    return {(int)(blockIdx.x / CLUSTER_K),
            (int)(gridDim.x / CLUSTER_K),
            (int)(((unsigned)args.n + 16 * ROW_TILES - 1) / (16 * ROW_TILES)),
            (int)rank,
            {(int)begin, (int)(end - begin), (int)tiles}};
}

// Shared memory of a block; all 16-byte aligned.
struct tern_places {
    unsigned char *ring;  // [STAGES][STAGE_BYTES]
    unsigned char *slots; // [WARPS_K][SLOTS][SLOT_BYTES]
    unsigned char *meet;  // what tern_meet needs
    unsigned char *barriers;
};
// Barriers: of a stage full and empty, of a slot full and empty, those of tern_meet.
constexpr int STAGE_EMPTY = STAGES * 8, SLOT_FULL = STAGES * 16, SLOT_EMPTY = SLOT_FULL + SLOTS * 8;
constexpr int MEET = SLOT_EMPTY + SLOTS * 8;
static_assert(TOGETHER ? SLOTS == STAGES : ADDERS > 0,
              "a slot for each stage; the copying warp adds up where it waits for nobody");

__device__ __forceinline__ struct tern_places tern_places_make(unsigned char *shared) {
    unsigned char *slots = shared + STAGES * STAGE_BYTES;
    unsigned char *meet = slots + WARPS_K * WARP_BYTES;
    return {shared, slots, meet, meet + tern_meet::bytes};
}

// A place in a ring, and the parity of its barriers' phase.
template <int LENGTH> struct tern_turn {
    int at, parity;
    __device__ __forceinline__ void step() {
        if (++at == LENGTH) {
            at = 0;
            parity ^= 1;
        }
    }
};

// What the copying lane starts for a row block: a run of K tiles of each row tile.
struct tern_run {
    int tiles, entries;
    const unsigned char *codes, *scales, *zeros; // of row tile 0
    long long codes_pitch, scales_pitch;         // from a row tile to the next; of zero points: half that of scales
};

__device__ __forceinline__ struct tern_run tern_run_make(const struct tern_part &s, const struct tern_args &args) {
    struct tern_run run;
    const int groups = (int)args.groups, entry = tern_span_group(s.k.first, 0, groups);
    run.tiles = s.k.count;
    run.entries = tern_span_group(s.k.first + s.k.count - 1, SPANS - 1, groups) - entry + 1;
    run.codes_pitch = (long long)s.k.all * TILE_BYTES;
    run.scales_pitch = args.groups * 32;
    run.codes = (const unsigned char *)args.codes + s.first * ROW_TILES * run.codes_pitch + s.k.first * TILE_BYTES;
    run.scales = (const unsigned char *)args.scales + s.first * ROW_TILES * run.scales_pitch + entry * 32;
    run.zeros = (const unsigned char *)args.zeros + s.first * ROW_TILES * run.scales_pitch / 2 + entry * 16;
    return run;
}

// Starts the copies of `present` row tiles into a stage. One lane.
__device__ __forceinline__ void tern_run_start(const struct tern_run &run, unsigned char *stage, void *full, int present) {
    tern_barrier_arrive_expect(full, present * (run.tiles * TILE_BYTES + run.entries * (32 + 16 * HAS_ZEROS)));
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++)
        if (ROW_TILES == 1 || r < present) {
            tern_bulk_copy(stage + r * RUN_BYTES, run.codes + r * run.codes_pitch, run.tiles * TILE_BYTES, full);
            tern_bulk_copy(stage + SCALES_AT + r * ENTRIES * 32, run.scales + r * run.scales_pitch, run.entries * 32, full);
            if (HAS_ZEROS)
                tern_bulk_copy(stage + ZEROS_AT + r * ENTRIES * 16, run.zeros + r * run.scales_pitch / 2, run.entries * 16,
                               full);
        }
}

// Brings into the L2 what the copying warp will ask for ahead of x. A warp that has nothing to do yet: it waits for no barrier, and takes
// nothing of the way from the L2 to the multiprocessor.
__device__ __forceinline__ void tern_first_prefetch(const struct tern_part &s, const struct tern_args &args, int lane) {
    struct tern_run run = tern_run_make(s, args);
    int present = (int)(((unsigned)args.n + 15) / 16) - s.first * ROW_TILES;
#pragma unroll 1
    for (int item = 0; item < FIRST && present > 0; item++) {
#pragma unroll
        for (int r = 0; r < ROW_TILES; r++)
            if (lane == 0 && (ROW_TILES == 1 || r < present)) {
                tern_bulk_prefetch(run.codes + r * run.codes_pitch, run.tiles * TILE_BYTES);
                tern_bulk_prefetch(run.scales + r * run.scales_pitch, run.entries * 32);
            }
        present -= s.step * ROW_TILES;
        run.codes += s.step * ROW_TILES * run.codes_pitch;
        run.scales += s.step * ROW_TILES * run.scales_pitch;
    }
}

// Waits until the barriers are prepared. The second wait is over at once: it keeps the compiler from drawing work on loads under way ahead
// of the first, where the fastest warp would wait for the slowest.
__device__ __forceinline__ void tern_ready_await(const struct tern_places &p) {
    tern_block_sync(READY, THREADS);
    tern_barrier_wait(p.barriers + SLOT_EMPTY, 1);
}

// The copying warp waits until x is there.
__device__ __forceinline__ void tern_x_await() {
    tern_block_sync(X_HERE, 32 * (WARPS_K + 1));
    if (CLUSTER_K > 1)
        tern_cluster_wait();
}

// The copying warp's walk.
struct tern_supply {
    struct tern_run run; // at the next row block
    struct tern_turn<STAGES> turn;
    int present; // row tiles from there on
};

// Starts the copies of a row block and steps. All lanes walk, so that the compiler knows the walk to be uniform: copies take their
// addresses from uniform registers.
__device__ __forceinline__ void tern_supply_step(struct tern_supply &w, const struct tern_part &s,
                                                 const struct tern_places &p, int lane) {
    if (lane == 0)
        tern_run_start(w.run, p.ring + w.turn.at * STAGE_BYTES, p.barriers + w.turn.at * 8,
                       tern_smaller(ROW_TILES, w.present));
    w.present -= s.step * ROW_TILES;
    w.run.codes += s.step * ROW_TILES * w.run.codes_pitch;
    w.run.scales += s.step * ROW_TILES * w.run.scales_pitch;
    w.run.zeros += s.step * ROW_TILES * w.run.scales_pitch / 2;
    w.turn.step();
}

constexpr int AT_ONCE = WEIGHTS_FIRST ? STAGES : 0; // row blocks that are asked for before all barriers are prepared

// The copying warp prepares the barriers. WEIGHTS_FIRST: those of the slots once the ring is on its way.
__device__ __forceinline__ struct tern_supply tern_supply_make(const struct tern_part &s, const struct tern_places &p,
                                                               const struct tern_args &args, int lane) {
    struct tern_supply w = {tern_run_make(s, args), {0, 0}, (int)(((unsigned)args.n + 15) / 16) - s.first * ROW_TILES};
    if (lane == 0) {
        tern_barriers_init(p.barriers, STAGES, 1);
        if (AT_ONCE > 0)
            tern_barriers_publish();
    }
    __syncwarp();
#pragma unroll
    for (int item = 0; item < AT_ONCE; item++)
        if (w.present > 0)
            tern_supply_step(w, s, p, lane);
    if (lane == 0) {
        tern_barriers_init(p.barriers + STAGE_EMPTY, STAGES, WARPS_K * TERN_WARP_ARRIVALS);
        tern_barriers_init(p.barriers + SLOT_FULL, SLOTS, WARPS_K * TERN_WARP_ARRIVALS);
        tern_barriers_init(p.barriers + SLOT_EMPTY, SLOTS, UNITS * TERN_WARP_ARRIVALS);
        tern_barriers_init(p.barriers + MEET, tern_meet::barriers, 1);
        tern_barriers_publish();
    }
    __syncwarp();
    tern_block_arrive(READY, THREADS);
    if (CLUSTER_K > 1)
        tern_cluster_arrive();
    return w;
}

// The copying warp keeps the ring full, up to row block `items`; ADDERS = 0: that is the ring's length.
__device__ __forceinline__ void tern_produce(struct tern_supply &w, const struct tern_part &s, const struct tern_places &p,
                                             int items, int lane) {
#pragma unroll 1
    for (int item = AT_ONCE; item < items && w.present > 0; item++) {
        if (item == FIRST)
            tern_x_await();
        if (item >= STAGES)
            tern_barrier_wait(p.barriers + (TOGETHER ? SLOT_EMPTY : STAGE_EMPTY) + w.turn.at * 8, w.turn.parity ^ 1);
        tern_supply_step(w, s, p, lane);
    }
    if (FIRST >= items || s.first + FIRST * s.step >= s.row_blocks)
        tern_x_await(); // not passed above
}

// Offsets of the lane's scales in a stage, from SCALES_AT, for the warp's K tiles. Where tiles and scales go together one register
// serves all tiles.
struct tern_entries {
    int offset[K_TILES][SPANS];
    // Their place; zero points lie half as far from ZEROS_AT. A pointer first and constants behind it: else each sum with a constant is
    // kept in a register of its own.
    __device__ __forceinline__ const unsigned char *at(const unsigned char *stage, int j, int span, int shift) const {
        return GROUP == 0     ? stage + (offset[0][0] >> shift)
               : ENTRY_A_TILE ? stage + (offset[0][0] >> shift) + (j * WARPS_K * 32 >> shift)
                              : stage + (offset[j][span] >> shift);
    }
};

__device__ __forceinline__ struct tern_entries tern_entries_make(const struct tern_tiles &k, int groups, int warp,
                                                                 int lane) {
    struct tern_entries e;
    const int first = tern_span_group(k.first, 0, groups);
#pragma unroll
    for (int j = 0; j < K_TILES; j++)
#pragma unroll
        for (int span = 0; span < SPANS; span++)
            e.offset[j][span] =
                tern_kept((tern_span_group(k.first + warp + j * WARPS_K, span, groups) - first) * 32 + lane / 4 * 4);
    return e;
}

// What the lane needs of a tile: codes, scales and zero points of rows g and g + 8.
struct tern_tile {
    unsigned words[tern_codes<BITS>::words], scales[SPANS], zeros[SPANS];
};

// Loads what the lane needs of the warp's K tile j of a row block. words: the lane's in the warp's first tile of the stage. A tile that is
// not there gets scales of 0, and whatever codes lie at its place: x is 0 for it.
__device__ __forceinline__ void tern_tile_load(struct tern_tile (&tiles)[ROW_TILES], const struct tern_entries &e,
                                               const unsigned char *words, const unsigned char *stage, int j, bool there,
                                               int lane) {
#pragma unroll
    for (int r = 0; r < ROW_TILES; r++) {
        tern_slot_words(words, r, j * WARPS_K, 0, tiles[r].words);
        if (BITS == 3) { // the plane of third bits lies behind the other one, 8 bytes a lane
            const uint2 thirds = tern_shared_load_8(words - lane * 8 + (r * RUN_BYTES + j * WARPS_K * TILE_BYTES + 512));
            tiles[r].words[BITS == 3 ? 4 : 0] = thirds.x;
            tiles[r].words[BITS == 3 ? 5 : 0] = thirds.y;
        }
#pragma unroll
        for (int span = 0; span < SPANS; span++) {
            tiles[r].scales[span] = tiles[r].zeros[span] = 0;
            if (there) {
                tiles[r].scales[span] = tern_shared_load_4(e.at(stage, j, span, 0) + (SCALES_AT + r * ENTRIES * 32));
                if (HAS_ZEROS)
                    tiles[r].zeros[span] = tern_shared_load_2(e.at(stage, j, span, 1) + (ZEROS_AT + r * ENTRIES * 16));
            }
        }
    }
}

// Sums of a row block: [unit][float of the lane].
struct tern_sums {
    float at[UNITS][UNIT_FLOATS];
};

// Moves a row block's sums to the lane's place in the warp's slot, units STEP bytes apart.
template <int STEP = UNIT_BYTES>
__device__ __forceinline__ void tern_slot_put(unsigned char *to, const struct tern_sums &sums) {
#pragma unroll
    for (int i = 0; i < UNITS; i++)
        tern_shared_store_floats(to + i * STEP, sums.at[i]);
}

// A row block of a multiplying warp: calls multiply(sums, tiles, j) for each of its K tiles and frees the stage. Tile j + 1 is loaded
// ahead of the products of tile j. words: the lane's in tile 0.
template <class MULTIPLY>
__device__ __forceinline__ void tern_row_block_multiply(struct tern_sums &sums, const struct tern_entries &e, int count,
                                                        const unsigned char *words, const unsigned char *stage, void *empty,
                                                        int lane, MULTIPLY multiply) {
    struct tern_tile tiles[2][ROW_TILES];
    tern_tile_load(tiles[0], e, words, stage, 0, true, lane);
#pragma unroll
    for (int j = 0; j < K_TILES; j++) {
        if (j + 1 < K_TILES && j + 1 < count)
            tern_tile_load(tiles[(j + 1) % 2], e, words, stage, j + 1, true, lane);
        if (j == (K_TILES > 1 ? K_TILES - 2 : 0))
            tern_warp_arrive(empty, lane); // all have read
        if (j == 0 || j < count)
            multiply(sums, tiles[j % 2], j);
    }
}

// The walk of a multiplying warp over the row blocks; multiply as above; finish(sums) is what goes to the slot.
template <class MULTIPLY, class FINISH>
__device__ __forceinline__ void tern_rows_walk(const struct tern_part &s, const struct tern_places &p,
                                               const struct tern_args &args, int warp, int lane, MULTIPLY multiply,
                                               FINISH finish) {
    const int words = tern_kept(warp * TILE_BYTES + lane * 16);
    const int count = (s.k.count - warp + WARPS_K - 1) / WARPS_K; // of the warp's K tiles
    const struct tern_entries entries = tern_entries_make(s.k, (int)args.groups, warp, lane);
    unsigned char *place = p.slots + warp * WARP_BYTES + lane * (UNIT_FLOATS * 4);
    tern_turn<STAGES> turn = {0, 0};
    tern_turn<SLOTS> slot = {0, 1};
    struct tern_sums sums = {};
#pragma unroll 1
    for (int row = s.first; row < s.row_blocks; row += s.step) {
        const unsigned char *stage = p.ring + turn.at * STAGE_BYTES;
        unsigned char *barrier = p.barriers + turn.at * 8;
        tern_barrier_wait(barrier, turn.parity);
        if (count > 0)
            tern_row_block_multiply(sums, entries, count, stage + words, stage, barrier + STAGE_EMPTY, lane, multiply);
        else
            tern_warp_arrive(barrier + STAGE_EMPTY, lane);
        tern_barrier_wait(p.barriers + SLOT_EMPTY + slot.at * 8, slot.parity); // the first time round at once
        tern_slot_put(place + slot.at * SLOT_BYTES, finish(sums));
        tern_warp_arrive(p.barriers + SLOT_FULL + slot.at * 8, lane); // all have written
        turn.step();
        slot.step();
    }
}

// The walk with all K tiles of a row block side by side: multiply(sums, tiles, count), where TOGETHER tiles behind count may have any scales. SLOTS is STAGES or twice that: one count of laps
// serves both. Stages are walked without counting. The wait for the slot stands ahead of the products, so that the compiler leaves
// what frees the stage ahead of them as well. TOGETHER: neither is needed, a stage is filled again when its sums have been read. Slots lie side by side, [SLOTS][UNITS][WARPS_K][UNIT_BYTES]: in 2 bits the lane's words and
// its sums are as far from the start of a stage and of the slots.
template <class MULTIPLY>
__device__ __forceinline__ void tern_rows_walk_at_once(const struct tern_part &s, const struct tern_places &p,
                                                       const struct tern_args &args, int warp, int lane, MULTIPLY multiply) {
    const int words = tern_kept(warp * TILE_BYTES + lane * 16);
    const int count = (s.k.count - warp + WARPS_K - 1) / WARPS_K; // of the warp's K tiles
    const struct tern_entries entries = tern_entries_make(s.k, (int)args.groups, warp, lane);
    const int place = UNIT_BYTES == TILE_BYTES ? words : tern_kept(warp * UNIT_BYTES + lane * (UNIT_FLOATS * 4));
    int row = s.first;
#pragma unroll 1
    for (int lap = 0;; lap++) {
        const int parity = lap & 1, second = SLOTS > STAGES ? lap & 1 : 0; // second: half of the slots
        const int slot_parity = (SLOTS > STAGES ? lap >> 1 & 1 : parity) ^ 1;
        unsigned char *slots = p.slots + second * (STAGES * SLOT_ROW) + place,
                      *slot_barriers = p.barriers + second * (STAGES * 8);
#pragma unroll
        for (int at = 0; at < STAGES; at++) {
            if (row >= s.row_blocks)
                return;
            row += s.step;
            const unsigned char *stage = p.ring + at * STAGE_BYTES;
            unsigned char *barriers = p.barriers + at * 8;
            struct tern_tile tiles[K_TILES][ROW_TILES];
            struct tern_sums sums;
            tern_barrier_wait(barriers, parity);
#pragma unroll
            for (int j = 0; j < K_TILES; j++)
                tern_tile_load(tiles[j], entries, stage + words, stage, j, TOGETHER || j < count, lane);
            if (!TOGETHER) {
                tern_warp_arrive(barriers + STAGE_EMPTY, lane);                      // all have read
                tern_barrier_wait(slot_barriers + SLOT_EMPTY + at * 8, slot_parity); // the first time round at once
            }
            multiply(sums, tiles, count);
            tern_slot_put<UNIT_ROW>(slots + at * SLOT_ROW, sums);
            tern_warp_arrive(slot_barriers + SLOT_FULL + at * 8, lane); // all have written
        }
    }
}

// An adding warp: takes units in turn, sums their slots in warp order, and stores the sum, or hands it to the block of the cluster
// that does: store(n, column, sum, bias), n the first of the lane's rows n and n + 8 of W, bias theirs, column of the unit's row tile.
// Bytes from slot to slot, unit to unit, warp to warp: a warp's slots lie together unless the template says otherwise.
template <int SLOT_STEP = SLOT_BYTES, int UNIT_STEP = UNIT_BYTES, int WARP_STEP = WARP_BYTES, class STORE>
__device__ __forceinline__ void tern_add_up(const struct tern_part &s, const struct tern_places &p,
                                            const struct tern_args &args, int adder, int lane, STORE store) {
    constexpr int COLUMNS = UNITS / ROW_TILES;
    tern_turn<SLOTS> turn = {0, 0};
    int unit = adder; // of the row block at hand
    struct tern_meet meet =
        tern_meet_make(p.meet, p.barriers + MEET, s.rank, adder, ((s.row_blocks - 1 - s.first) / s.step + 1) * UNITS);
    tern_block_sync(READY, THREADS);
    if (CLUSTER_K > 1)
        tern_cluster_wait();
#pragma unroll 1
    for (int row = s.first; row < s.row_blocks; row += s.step) {
        for (; unit < UNITS; unit += ADDERS) {
            const unsigned char *from = p.slots + turn.at * SLOT_STEP + unit * UNIT_STEP + lane * (UNIT_FLOATS * 4);
            const int n = (row * ROW_TILES + unit / COLUMNS) * 16 + lane / 4;
            float2 bias = {0, 0};
            if (args.bias)                               // uniform
                bias = tern_bias_of_rows<BF16>(args, n); // ahead of the wait
            float sum[UNIT_FLOATS] = {};
            tern_barrier_wait(p.barriers + SLOT_FULL + turn.at * 8, turn.parity);
#pragma unroll
            for (int w = 0; w < WARPS_K; w++)
                tern_shared_add_floats(sum, from + w * WARP_STEP);
            tern_warp_arrive(p.barriers + SLOT_EMPTY + turn.at * 8, lane); // all have read
            if (CLUSTER_K == 1 || tern_meet_step(meet, sum, lane))
                store(n, unit % COLUMNS, sum, bias);
        }
        unit -= UNITS;
        turn.step();
    }
}

// The copying warp, ADDERS = 0: a stage whose sums it has read is free, so it fills that one again, and no barrier need say so. No clusters.
// p: of copies, whose addresses the compiler has to know as uniform; kept: of sums.
template <int SLOT_STEP, int UNIT_STEP, int WARP_STEP, class STORE>
__device__ __forceinline__ void tern_add_and_copy(const struct tern_part &s, const struct tern_places &p,
                                                  const struct tern_places &kept, const struct tern_args &args, int lane,
                                                  STORE store) {
    constexpr int COLUMNS = UNITS / ROW_TILES;
    struct tern_supply w = tern_supply_make(s, p, args, lane);
    tern_produce(w, s, p, STAGES, lane);
    tern_dependency_wait(); // ahead of y
    tern_turn<SLOTS> turn = {0, 0};
#pragma unroll 1
    for (int row = s.first; row < s.row_blocks; row += s.step) {
        const unsigned char *from = kept.slots + turn.at * SLOT_STEP + lane * (UNIT_FLOATS * 4);
        const int n = row * ROW_TILES * 16 + lane / 4;
        float sums[UNITS][UNIT_FLOATS] = {};
        float2 bias[ROW_TILES] = {};
        if (args.bias) // uniform
#pragma unroll
            for (int r = 0; r < ROW_TILES; r++)
                bias[r] = tern_bias_of_rows<BF16>(args, n + r * 16); // ahead of the wait
        tern_barrier_wait(kept.barriers + SLOT_FULL + turn.at * 8, turn.parity);
#pragma unroll
        for (int unit = 0; unit < UNITS; unit++)
#pragma unroll
            for (int i = 0; i < WARPS_K; i++)
                tern_shared_add_floats(sums[unit], from + unit * UNIT_STEP + i * WARP_STEP);
        __syncwarp(); // all have read
        if (w.present > 0)
            tern_supply_step(w, s, p, lane);
#pragma unroll
        for (int unit = 0; unit < UNITS; unit++)
            store(n + unit / COLUMNS * 16, unit % COLUMNS, sums[unit], bias[unit / COLUMNS]);
        turn.step();
    }
}

#endif
