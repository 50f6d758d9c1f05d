// What the parameters of wgmma-tile come to, which stand as constexpr ints in front of whoever includes this: shape of a tile, layout of shared
// memory, registers of each role. space.lua reckons with the same sums.
#ifndef TERN_TILE_SHAPE_CUH
#define TERN_TILE_SHAPE_CUH

#include "tern/abi.h"
#include "tern/half_sum.cuh"
#include "tern/ring_weights.cuh"
#include "tern/slice_ring.cuh"
#include "tern/tile_plan.cuh"
#include "tern/wgmma_store.cuh"

constexpr int ODD = PAIR >= 2; /* a warpgroup for the shared row block, behind the CONSUMERS; the producers are the last */
constexpr int ODD_COLUMNS = PAIR == 4   ? BLOCK_M / TERN_SPREAD_PARTS
                            : PAIR == 3 ? (BLOCK_M / 2 + 15) / 16 * 16 /* both have those in the middle */
                                        : BLOCK_M;                     /* of it */
constexpr int WARPGROUPS = CONSUMERS + ODD + 1, THREADS = TERN_WARPGROUP * WARPGROUPS;
constexpr int SHARERS = X_COPY == 2 ? 2 : 1;  /* blocks that share x, side by side along N */
constexpr int WARPS_N = CONSUMERS / K_PARTS;  /* warpgroups side by side along N */
constexpr int BLOCKS = WARPS_N * ROW_BLOCKS;  /* 64-row blocks of W that a tile has at most, */
constexpr int CTA_TILES = 4 * (BLOCKS + ODD); /* in 16-row tiles, those of the shared row block last */
constexpr int CHUNKS = TERN_TILE_STEPS / CHUNK;
constexpr int SUMS = (BLOCK_M + 15) / 16 * 8; /* a thread and row block, in units of 16 columns for the stores */
constexpr int WIDEST =
    WARPGROUPS > 3 ? 192 : 256; /* columns of a product, of whose registers a thread has enough at launch */
/* Sets of A registers: with four a chunk is dequantised without a look at products, with two it waits for those whose set it takes. */
constexpr int SETS = CHUNKS % 4 == 0 && PAIR % 4 < 2 && ROW_BLOCKS * BLOCK_M <= (CONSUMERS < 3 ? 256 : 128) ? 4 : 2;
typedef struct tern_groups<GROUP> groups;
constexpr bool GROUPED = GROUP > 0, SCALE_SUMS = GROUPED && !SCALE_WEIGHTS;
constexpr bool LOAD_AHEAD = !SCALE_SUMS; /* a slice's codes and scales a chunk early, unless the last scale is needed */

typedef struct tern_weight_copies<BITS, groups, GROUPED, HAS_ZEROS, 4 * BLOCKS> copies;
typedef struct tern_weight_copies<BITS, groups, GROUPED, HAS_ZEROS, 4> odd_copies; /* of the shared row block */
typedef struct tern_weight_reader<BITS, groups, GROUPED, HAS_ZEROS, 4 * WARPS_N> reader;

/* Of tiles that are wide and shared x comes in halves of slices, through a ring of its own: whole ones leave 4 bits no room. */
constexpr int HALVES = PAIR == 3 && X_COPY && BLOCK_M > 192 ? 2 * STAGES - 1 : 0, HALF_RING = HALVES ? HALVES : 1;

/* Shared memory: [x ring][codes][scales and zeros][output slots][barriers][tensor map]; bytes of one ring entry. */
constexpr int X_BYTES = 2 * BLOCK_M * TERN_TILE_K; /* two halves of 64 k, rows of 128 bytes, swizzled */
constexpr int CODE_BYTES = CTA_TILES * copies::tile_bytes, SIDE_BYTES = CTA_TILES * copies::side_bytes;
constexpr int CODES_AT = HALVES ? HALVES * (X_BYTES / 2) : STAGES * X_BYTES, SIDES_AT = CODES_AT + STAGES * CODE_BYTES;
constexpr int OUTPUT_AT = SIDES_AT + STAGES * SIDE_BYTES;
/* Rows of x that leave at once are fewer where the ring needs the room; with its largest sides, as space.lua reckons too. */
constexpr int RING_BYTES = CODES_AT + STAGES * (CODE_BYTES + CTA_TILES * 48 * groups::in_tile + TERN_SLICE_BARRIERS);
constexpr int STORE_UNITS = RING_BYTES + (CONSUMERS + ODD) * 4 * TERN_STORE_SLOT + 360 > 232448 ? 2 : 4;
constexpr int OUTPUT_BYTES = 4 * TERN_STORE_SLOT_OF(STORE_UNITS); /* of a warpgroup */
constexpr int BARRIERS_AT = OUTPUT_AT + (CONSUMERS + ODD) * OUTPUT_BYTES;
constexpr int HALVES_AT = BARRIERS_AT + STAGES * TERN_SLICE_BARRIERS;  /* barriers of halves of x, */
constexpr int SENT_AT = HALVES_AT + HALVES * TERN_HALF_SLICE_BARRIERS; /* and of sums that another block sends */
constexpr int MAP_AT = (SENT_AT + TERN_HALF_BARRIERS + TERN_TENSOR_MAP - 1) / TERN_TENSOR_MAP * TERN_TENSOR_MAP;

/* Workspace: a tensor map a block; with STREAM_K counters of cut tiles and two slots of sums a block (tern/stream_sum.cuh). */
constexpr long long SLOT_BYTES = 4LL * 64 * BLOCKS * BLOCK_M;

/* Registers a thread: launched with ENTRY each; consumers take what producers give. */
constexpr int ENTRY_REGISTERS = 65536 / THREADS / 8 * 8;
constexpr bool TIGHT = PAIR == 2 && ROW_BLOCKS == 2 && BLOCK_M > 112; /* consumers want all that others can do without */
constexpr int PRODUCER_REGISTERS = PAIR % 4 < 2 ? 56 : TIGHT ? 24 : 32;
constexpr int HALF_K_REGISTERS = ROW_BLOCKS == 1 ? 160 : 112 - 8 * TIGHT,
              HALF_M_REGISTERS = ODD_COLUMNS > 80 ? ODD_COLUMNS / 2 + 56 : 80;
constexpr int ODD_REGISTERS = PAIR >= 3 ? HALF_M_REGISTERS : PAIR == 2 ? HALF_K_REGISTERS : 0;
constexpr int OFFERED_REGISTERS = (ENTRY_REGISTERS * WARPGROUPS - PRODUCER_REGISTERS - ODD_REGISTERS) / CONSUMERS / 8 * 8;
constexpr int CONSUMER_REGISTERS = OFFERED_REGISTERS < 240 ? OFFERED_REGISTERS : 240;
static_assert(CONSUMER_REGISTERS * CONSUMERS + ODD_REGISTERS + PRODUCER_REGISTERS <= ENTRY_REGISTERS * WARPGROUPS,
              "registers taken by setmaxnreg must have been given, or the kernel hangs");
static_assert(MAP_AT + (X_COPY > 0) * TERN_TENSOR_MAP <= 232448, "what a block may have");
static_assert(STAGES >= 3, "a slice is released while the next one is used and one is on its way");
static_assert(STAGES % K_PARTS == 0 && CONSUMERS % K_PARTS == 0,
              "parts are equal, and a stage has slices of one turn only: a barrier knows no more than a parity");
static_assert(K_PARTS == 1 || (K_PARTS == 2 && WARPS_N == 1), "one warpgroup gives its sums to another");
static_assert(ROW_BLOCKS <= 2, "multiply_tile has a form for one and for all");
static_assert(CHUNKS % SETS == 0 && (!SCALE_SUMS || 16 * CHUNK <= groups::scale_k), "a chunk lies inside a scale group");
static_assert(BLOCK_M % (PAIR == 4   ? 16 * TERN_SPREAD_PARTS
                         : PAIR >= 2 ? 8
                                     : 16 * CLUSTER_K) ==
                      0 &&
                  CTA_TILES <= 32,
              "blocks of a cluster own equally many 16 rows of x; a lane copies a tile of codes");
static_assert((CLUSTER_K == 1 || (STREAM_K != 1 && PAIR % 4 == 0)) && (K_PARTS == 1 || (!STREAM_K && !PAIR)) &&
                  (SHARERS == 1 || (CLUSTER_K * K_PARTS == 1 && !STREAM_K && !PAIR)),
              "one way to divide K at a time, and none where x is shared");
constexpr int ODD_SUMS_AT = (CLUSTER_K - 1) * (BLOCK_M / CLUSTER_K) * BLOCKS * 256; /* PAIR 4, CLUSTER_K 2 */
static_assert(ODD_SUMS_AT + (PAIR == 4) * ODD_COLUMNS * 256 <= OUTPUT_AT, "sums fit in the ring");
static_assert(PAIR < 4 || CLUSTER_K <= 2, "one block gives its sums of the shared row block to the other");

#endif
