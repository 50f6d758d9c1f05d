/* Tests of the emulator's wgmma bodies: product, what a missing wait shows, faults, the transposition of codes
 * and that of x; of the division of work over blocks; and of boxes copied by a tensor map. */
#include "emulator_fixture.h"

#include "core/activation.h"
#include "core/random.h"

#include <math.h>
#include <string.h>

enum { ROWS = 64, COLUMNS = 32, K = 16, TILE_K = 64 };

static struct emulator_fixture wgmma;

struct operands {
    uint16_t a[ROWS][K], b[COLUMNS][TILE_K];
};

static void draw(struct operands *o, enum tern_activation type) {
    struct tern_random random;
    tern_random_init(&random, 11, "wgmma");
    for (int i = 0; i < ROWS * K; i++)
        (&o->a[0][0])[i] = tern_activation_from_double(type, tern_random_normal(&random));
    for (int i = 0; i < COLUMNS * TILE_K; i++)
        (&o->b[0][0])[i] = tern_activation_from_double(type, tern_random_normal(&random));
}

static struct emulator_case case_of(const struct operands *o, const char *entry, int64_t step) {
    return (struct emulator_case){.entry = entry,
                                  .blocks = 1,
                                  .block = 128,
                                  .smem = COLUMNS * 128,
                                  .x = o->a,
                                  .x_bytes = sizeof o->a,
                                  .codes = o->b,
                                  .codes_bytes = sizeof o->b,
                                  .y_bytes = ROWS * COLUMNS * sizeof(float),
                                  .k = step};
}

static void expect_product(const struct operands *o, enum tern_activation type, int step, double start, double times,
                           float y[ROWS][COLUMNS]) {
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++) {
            double sum = 0.0;
            for (int k = 0; k < K; k++)
                sum += tern_activation_to_double(type, o->a[row][k]) *
                       tern_activation_to_double(type, o->b[column][step * K + k]);
            sum = start + times * sum;
            if (!(fabs((double)y[row][column] - sum) <= 1e-5 * (1.0 + fabs(sum))))
                fail_msg("step %d, row %d, column %d: %g, expected %g", step, row, column, (double)y[row][column], sum);
        }
    }
}

static void product_is_the_plain_product(void **state) {
    (void)state;
    static struct operands o;
    static float y[ROWS][COLUMNS];
    struct tern_error err = {0};
    draw(&o, TERN_F16);
    for (int step = 0; step < TILE_K / K; step++) {
        for (int order = 0; order < TERN_EMU_ORDERS; order++) {
            struct emulator_case c = case_of(&o, "wgmma_product", step);
            c.order = (enum tern_emu_order)order;
            if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
                fail_msg("%s", err.text);
            expect_product(&o, TERN_F16, step, 1.0, 2.0, y);
        }
        struct emulator_case c = case_of(&o, "wgmma_fresh", step);
        if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        expect_product(&o, TERN_F16, step, 0.0, 1.0, y);
    }
}

static void bfloat16_is_a_plain_product_too(void **state) {
    (void)state;
    static struct operands o;
    static float y[ROWS][COLUMNS];
    struct tern_error err = {0};
    draw(&o, TERN_BF16);
    struct emulator_case c = case_of(&o, "wgmma_product_bf16", 2);
    if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
        fail_msg("%s", err.text);
    expect_product(&o, TERN_BF16, 2, 1.0, 2.0, y);
}

/* The value of a byte; tests draw none that is NaN. */
static double e4m3_value(uint8_t code) {
    const int exponent = code >> 3 & 15, fraction = code & 7;
    const double magnitude = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
    return code & 0x80 ? -magnitude : magnitude;
}

/* Bytes of all magnitudes up to 2^3: sums of 32 products need no more than the 14 bits that the tensor cores keep, if the operands
 * are those of one binade. */
static void bytes_of_e4m3_are_multiplied(void **state) {
    (void)state;
    static uint8_t a[ROWS][2 * K], b[COLUMNS][2 * TILE_K];
    static float y[ROWS][COLUMNS];
    struct tern_random random;
    struct tern_error err = {0};
    tern_random_init(&random, 12, "e4m3");
    for (int step = 0; step < 2 * TILE_K / 32; step++) {
        const uint8_t binade = (uint8_t)(8 * (step + 6 * (step % 2))); /* 0: subnormal numbers too */
        for (int i = 0; i < ROWS * 2 * K; i++)
            (&a[0][0])[i] = (uint8_t)(0x38 | (tern_random_below(&random, 2) << 7));
        for (int i = 0; i < COLUMNS * 2 * TILE_K; i++)
            (&b[0][0])[i] = (uint8_t)((binade + tern_random_below(&random, 16)) | (tern_random_below(&random, 2) << 7));
        struct emulator_case c = {.entry = "wgmma_product_e4m3",
                                  .blocks = 1,
                                  .block = 128,
                                  .smem = COLUMNS * 128,
                                  .x = a,
                                  .x_bytes = sizeof a,
                                  .codes = b,
                                  .codes_bytes = sizeof b,
                                  .y_bytes = sizeof y,
                                  .k = step};
        if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column < COLUMNS; column++) {
                double sum = 1.0;
                for (int k = 0; k < 32; k++)
                    sum += e4m3_value(a[row][k]) * e4m3_value(b[column][32 * step + k]);
                if ((double)y[row][column] != sum)
                    fail_msg("step %d, row %d, column %d: %g, expected %g", step, row, column, (double)y[row][column], sum);
            }
    }
}

static void sums_are_nan_until_the_wait(void **state) {
    (void)state;
    static struct operands o;
    static float y[ROWS][COLUMNS];
    struct tern_error err = {0};
    draw(&o, TERN_F16);
    struct emulator_case c = case_of(&o, "wgmma_fresh", 0);
    c.m = 1;
    if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_true(isnan((&y[0][0])[i]));
}

static void misuse_is_a_fault(void **state) {
    (void)state;
    static struct operands o;
    draw(&o, TERN_F16);
    struct emulator_case overwritten = case_of(&o, "wgmma_overwritten", 1), plain = case_of(&o, "wgmma_unswizzled", 0);
    emulator_expect_fault(&wgmma, &overwritten, "changed while the product was in flight");
    emulator_expect_fault(&wgmma, &plain, "128-byte swizzle only");
    product_is_the_plain_product(state); /* nothing is left over from the faults */
}

/* Bit of element e of pair `pair` in plane bit `bit`, by the rule of formats/layout.h. */
static unsigned *word_of(uint32_t *words, int bits, int pair, int bit, int e, int *shift) {
    int plane = bits == 3 && bit == 2 ? 1 : bits == 3 ? 2 : bits, first = bits == 3 && bit == 2 ? 4 : 0;
    int step = pair / 4, p = pair % 4, piece = step / 2, odd = step % 2;
    int word = plane == 8 ? 2 * step + p / 2 : plane == 4 ? 4 * (piece / 2) + p : plane == 2 ? p : p / 2;
    int slot = plane == 8   ? p % 2
               : plane == 4 ? piece % 2 + 2 * odd
               : plane == 2 ? piece + 4 * odd
                            : p % 2 + 2 * piece + 8 * odd;
    *shift = 16 * e + plane * slot + (bits == 3 && bit == 2 ? 0 : bit);
    return &words[first + word];
}

/* Column c of lane t in a quad and 32 k must trade places with column t of lane c. */
static void columns_and_lanes_trade_places(void **state) {
    (void)state;
    static const int widths[] = {2, 3, 4, 8};
    uint32_t x[32][16], y[32][16];
    struct tern_random random;
    struct tern_error err = {0};
    tern_random_init(&random, 12, "columns");
    for (int i = 0; i < 512; i++)
        (&x[0][0])[i] = (uint32_t)tern_random_below(&random, (uint64_t)1 << 32);
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        struct emulator_case c = {.entry = "wgmma_columns",
                                  .blocks = 1,
                                  .block = 32,
                                  .smem = 2048,
                                  .x = x,
                                  .x_bytes = sizeof x,
                                  .y_bytes = sizeof y,
                                  .k = widths[w]};
        if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int id = 0; id < 32 * 32 * 2 * widths[w]; id++) {
            int lane = id % 32, pair = id / 32 % 32, e = id / 1024 % 2, bit = id / 2048, from_shift, to_shift;
            int from_lane = (lane & ~3) | (pair / 2 % 4), from_pair = (pair & ~6) | 2 * (lane & 3);
            uint32_t to = *word_of(y[lane], widths[w], pair, bit, e, &to_shift);
            uint32_t from = *word_of(x[from_lane], widths[w], from_pair, bit, e, &from_shift);
            assert_int_equal(to >> to_shift & 1u, from >> from_shift & 1u);
        }
    }
}

/* k = 32 p + 8 t + 2 c + e of a row must lie where 32 p + 8 c + 2 t + e would: lane t of a quad owns its weights, and column c of
 * the A fragment meets it. */
static void slices_of_x_are_turned(void **state) {
    (void)state;
    static uint16_t x[32][128], y[32][128];
    struct tern_error err = {0};
    for (int i = 0; i < 32 * 128; i++)
        (&x[0][0])[i] = (uint16_t)i;
    struct emulator_case c = {
        .entry = "wgmma_turn", .blocks = 1, .block = 32, .smem = sizeof x, .x = x, .x_bytes = sizeof x, .y_bytes = sizeof y};
    if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
        fail_msg("%s", err.text);
    for (int row = 0; row < 32; row++)
        for (int from = 0; from < 128; from++)
            assert_int_equal(y[row][(from & ~30) | (from >> 3 & 3) << 1 | (from >> 1 & 3) << 3], x[row][from]);
}

/* A warp that turns a slice late must not wait for a phase of another stage's barrier that has passed. */
static void first_slices_are_turned_late(void **state) {
    (void)state;
    static uint16_t x[16][256], y[2][2][16][64];
    struct tern_error err = {0};
    for (int i = 0; i < 16 * 256; i++)
        (&x[0][0])[i] = (uint16_t)i;
    struct emulator_case c = {.entry = "wgmma_first_slices",
                              .blocks = 1,
                              .block = 192,
                              .smem = 16488,
                              .x = x,
                              .x_bytes = sizeof x,
                              .y_bytes = sizeof y};
    if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
        fail_msg("%s", err.text);
    for (int row = 0; row < 16; row++)
        for (int from = 0; from < 256; from++) {
            const int k = (from & ~30) | (from >> 3 & 3) << 1 | (from >> 1 & 3) << 3; /* as above, and swizzled */
            assert_int_equal(y[k / 128][k / 64 % 2][row][k % 64 ^ row % 8 * 8], x[row][from]);
        }
}

/* Each row block of each tile of x is visited once, and equally many by all workers where there are few. */
static void sweep_visits_all_once(void **state) {
    (void)state;
    static const struct {
        int row_blocks, tiles_m, workers;
        bool shares;
    } cases[] = {{592, 1, 132, true}, {56, 8, 66, true}, {3, 2, 6, true},    {7, 5, 4, true},
                 {1, 1, 1, true},     {37, 9, 3, false}, {50, 17, 5, false}, {592, 8, 132, false}};
    static uint32_t y[592 * 8 + 132];
    struct tern_error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int units = cases[i].row_blocks * cases[i].tiles_m, workers = cases[i].workers;
        struct emulator_case c = {.entry = "wgmma_sweep",
                                  .blocks = workers,
                                  .block = 1,
                                  .y_bytes = sizeof y[0] * (size_t)(units + workers),
                                  .m = cases[i].tiles_m,
                                  .k = 64 * cases[i].row_blocks - 56};
        if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int u = 0; u < units; u++)
            assert_int_equal(y[u], 1);
        for (int w = 0; cases[i].shares && w < workers; w++)
            assert_in_range(y[units + w], (uintmax_t)(units / workers), (uintmax_t)((units + workers - 1) / workers));
    }
}

/* Each unit of sums has one owner in a cluster, for all row blocks that a tile may have. */
static void units_have_one_owner(void **state) {
    (void)state;
    static const int row_blocks[] = {3, 3, 2, 3}, units[] = {4, 2, 4, 1};
    uint32_t y[12];
    struct tern_error err = {0};
    for (int kind = 0; kind < 4; kind++)
        for (int blocks = 1; blocks <= row_blocks[kind]; blocks++) {
            struct emulator_case c = {
                .entry = "wgmma_owners", .blocks = 1, .block = 1, .y_bytes = sizeof y, .m = blocks, .k = kind};
            if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
                fail_msg("%s", err.text);
            for (int i = 0; i < 12; i++)
                assert_int_equal(y[i], i < blocks * units[kind]);
        }
}

/* Slices go round the three warps from tile to tile, whatever a tile's number of them: else a warp's phase of a barrier could be two ahead. */
static void slices_are_dealt_in_turn(void **state) {
    (void)state;
    uint32_t y[4 * 32];
    struct tern_error err = {0};
    for (int slices = 1; slices <= 32; slices++) {
        struct emulator_case c = {.entry = "wgmma_deal", .blocks = 1, .block = 1, .y_bytes = sizeof y, .m = 4, .k = slices};
        if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int i = 0; i < 4 * slices; i++)
            assert_int_equal(y[i], 1 + i % 3);
    }
}

/* Each k tile of each tile is visited once; all contributors of a tile name as many as come. */
static void stream_k_visits_all_once(void **state) {
    (void)state;
    static const struct {
        int tiles, k_tiles, workers;
    } cases[] = {{72, 28, 132}, {36, 28, 132}, {288, 28, 132}, {144, 28, 132}, {132, 28, 132}, {1, 148, 132},
                 {3, 1, 2},     {1, 1, 1},     {7, 5, 4},      {2, 3, 6},      {265, 2, 132},  {28, 148, 131}};
    static uint32_t y[288 * 30 + 28 * 150];
    struct tern_error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int tiles = cases[i].tiles, items = tiles * cases[i].k_tiles;
        struct emulator_case c = {.entry = "wgmma_stream_k",
                                  .blocks = cases[i].workers,
                                  .block = 1,
                                  .y_bytes = sizeof y[0] * (size_t)(items + 2 * tiles),
                                  .m = tiles,
                                  .k = cases[i].k_tiles};
        if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int item = 0; item < items; item++)
            assert_int_equal(y[item], 1);
        for (int tile = 0; tile < tiles; tile++)
            assert_int_equal(y[items + tile], y[items + tiles + tile]);
    }
}

/* The same where blocks without a tile in the last turn help the others; no two parts of tiles have the same slot. */
static void aid_visits_all_once(void **state) {
    (void)state;
    static const struct {
        int tiles, k_tiles, blocks;
    } cases[] = {{56, 148, 132}, {112, 148, 132}, {448, 28, 132}, {132, 28, 132}, {1, 148, 132}, {65, 3, 132},
                 {3, 1, 2},      {1, 2, 2},       {7, 5, 6},      {2, 3, 8},      {131, 2, 132}, {5, 40, 14}};
    static uint32_t y[112 * 148 + 2 * 448 + 2 * 132];
    struct tern_error err = {0};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        const int tiles = cases[i / 2].tiles, items = tiles * cases[i / 2].k_tiles, blocks = cases[i / 2].blocks;
        struct emulator_case c = {.entry = i % 2 ? "wgmma_aid_cluster" : "wgmma_aid",
                                  .blocks = blocks,
                                  .block = 1,
                                  .y_bytes = sizeof y[0] * (size_t)(items + 2 * tiles + 2 * blocks),
                                  .m = 128 * tiles - 5,
                                  .k = 128 * cases[i / 2].k_tiles - 32};
        memset(y, 0, sizeof y);
        if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int item = 0; item < items; item++)
            assert_int_equal(y[item], 1);
        for (int tile = 0; tile < tiles; tile++)
            assert_int_equal(y[items + tile], y[items + tiles + tile]);
        for (int slot = 0; slot < 2 * blocks; slot++)
            assert_in_range(y[items + 2 * tiles + slot], 0, 1);
    }
}

/* Each k tile of each row block is multiplied once, and one warpgroup has the sums; where one row block, or one and half of one, is left for three
 * warpgroups, none has more than a k tile more to do than another. */
static void shares_are_whole_and_even(void **state) {
    (void)state;
    enum { BLOCKS = 18, K_TILES = 30, WARPGROUPS = 3 };
    static uint32_t y[BLOCKS * K_TILES + BLOCKS + 2 * WARPGROUPS];
    struct tern_error err = {0};
    for (int pair = 0; pair < 2; pair++)
        for (int blocks = 1 + pair; blocks <= BLOCKS; blocks++)
            for (int k_tiles = 3; k_tiles <= K_TILES; k_tiles += 7) {
                struct emulator_case c = {.entry = pair ? "wgmma_share_pair" : "wgmma_share",
                                          .blocks = 1 + pair,
                                          .block = 1,
                                          .y_bytes = sizeof y[0] * (size_t)(blocks * k_tiles + blocks + 2 * WARPGROUPS),
                                          .m = blocks,
                                          .k = k_tiles};
                memset(y, 0, sizeof y);
                if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
                    fail_msg("%d row blocks, %d k tiles: %s", blocks, k_tiles, err.text);
                for (int i = 0; i < blocks * k_tiles + blocks; i++)
                    if (y[i] != 1)
                        fail_msg("pair %d, %d row blocks, %d k tiles: item %d %u times", pair, blocks, k_tiles, i, y[i]);
                const uint32_t *work = y + blocks * k_tiles + blocks;
                const uint32_t mean = (uint32_t)(blocks * k_tiles / (WARPGROUPS * (1 + pair)));
                for (int n = 0; blocks / (1 + pair) % WARPGROUPS == 1 && n < WARPGROUPS * (1 + pair); n++)
                    assert_true(work[n] + 1 >= mean && work[n] <= mean + 1);
            }
}

/* Where tiles of y are equally high, and where they are not: several of a share, or several of x. */
static void boxes_make_up_tiles(void **state) {
    (void)state;
    struct tern_error err = {0};
    for (int i = 0; i < 3 * 20; i++) {
        uint32_t y[4] = {0};
        struct emulator_case c = {.entry = "wgmma_share_boxes", .blocks = 4, .block = 1, .y_bytes = sizeof y};
        c.m = i % 20 + 4, c.k = i / 20 + 1;
        assert_int_equal(emulator_launch(&wgmma, &c, y, &err), TERN_OK);
        assert_true(y[0] > 0 && y[3] > 0);
    }
}

/* All scales below 2^-4 of either sign, subnormal ones and zero too, and with them all codes in all places. Of pairs with one exponent, 11 exponents are
 * below it, of pairs whose exponents are neighbours 10. */
static void short_scales_are_exact(void **state) {
    (void)state;
    static const char *const entries[] = {"wgmma_short_ternary", "wgmma_short_gptq"};
    struct tern_error err = {0};
    for (size_t i = 0; i < 2; i++) {
        uint32_t y[2] = {0, 0};
        struct emulator_case c = {.entry = entries[i], .blocks = 1, .block = 1, .y_bytes = sizeof y};
        if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        assert_int_equal(y[0], 2 * 21 * 0x400);
        assert_int_equal(y[1], 0);
    }
}

/* From any content, and again on what the first launch left: each block gets a number of its own. */
static void counts_start_from_anything(void **state) {
    (void)state;
    enum { BLOCKS = 5 };
    static const uint64_t contents[] = {0, UINT64_MAX, 0x7FC000007FC00000u, 0x3F8000003F800000u, 2};
    struct tern_error err = {0};
    for (size_t i = 0; i < sizeof contents / sizeof contents[0]; i++) {
        uint64_t counters[2] = {contents[i], contents[i] ^ 1};
        for (int launch = 0; launch < 6; launch++) {
            uint32_t y[2 * BLOCKS], seen[2] = {0, 0};
            struct emulator_case c = {.entry = "wgmma_count",
                                      .blocks = BLOCKS,
                                      .block = 1,
                                      .x = counters,
                                      .x_bytes = sizeof counters,
                                      .y_bytes = sizeof y,
                                      .k = launch,
                                      .order = (enum tern_emu_order)(launch % 3)};
            if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
                fail_msg("%s", err.text);
            for (int id = 0; id < 2 * BLOCKS; id++)
                seen[id % 2] |= 1u << y[id];
            assert_int_equal(seen[0], (1u << BLOCKS) - 1);
            assert_int_equal(seen[1], (1u << BLOCKS) - 1);
        }
    }
}

static void boxes_are_swizzled_and_padded(void **state) {
    (void)state;
    static uint16_t x[20][80], y[16 * 64 + 64];
    static const int at[][2] = {{0, 0}, {3, 16}, {8, 64}, {19, 8}, {32, 0}};
    struct tern_error err = {0};
    for (int i = 0; i < 20 * 80; i++)
        (&x[0][0])[i] = (uint16_t)(i + 1);
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        struct emulator_case c = {.entry = "wgmma_box",
                                  .blocks = 1,
                                  .block = 32,
                                  .smem = 2304,
                                  .x = x,
                                  .x_bytes = sizeof x,
                                  .y_bytes = sizeof y,
                                  .m = at[i][0],
                                  .k = at[i][1]};
        if (emulator_launch(&wgmma, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int id = 0; id < 16 * 64; id++) {
            const int row = at[i][0] + id / 64, column = at[i][1] + id % 64;
            assert_int_equal(y[id], row < 20 && column < 80 ? x[row][column] : 0);
        }
    }
}

static int open_fixture(void **state) {
    (void)state;
    emulator_fixture_open(&wgmma, "wgmma");
    return 0;
}
static int close_fixture(void **state) {
    (void)state;
    emulator_fixture_close(&wgmma);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(product_is_the_plain_product),
        cmocka_unit_test(bfloat16_is_a_plain_product_too),
        cmocka_unit_test(bytes_of_e4m3_are_multiplied),
        cmocka_unit_test(sums_are_nan_until_the_wait),
        cmocka_unit_test(misuse_is_a_fault),
        cmocka_unit_test(slices_of_x_are_turned),
        cmocka_unit_test(first_slices_are_turned_late),
        cmocka_unit_test(columns_and_lanes_trade_places),
        cmocka_unit_test(sweep_visits_all_once),
        cmocka_unit_test(units_have_one_owner),
        cmocka_unit_test(slices_are_dealt_in_turn),
        cmocka_unit_test(stream_k_visits_all_once),
        cmocka_unit_test(aid_visits_all_once),
        cmocka_unit_test(shares_are_whole_and_even),
        cmocka_unit_test(boxes_make_up_tiles),
        cmocka_unit_test(short_scales_are_exact),
        cmocka_unit_test(counts_start_from_anything),
        cmocka_unit_test(boxes_are_swizzled_and_padded),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
