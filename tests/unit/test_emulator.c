/* Tests of the emulated machine: barriers, orders, memory faults and asynchronous copies (kernels: tests/emulator/). */
#include "emulator_fixture.h"

static struct emulator_fixture barrier, memory, async;

static void good_barrier_in_every_order(void **state) {
    (void)state;
    for (int order = 0; order < TERN_EMU_ORDERS; order++) {
        int y[128];
        struct tern_error err = {0};
        struct emulator_case c = {
            .entry = "barrier_good", .blocks = 2, .block = 64, .y_bytes = sizeof y, .order = (enum tern_emu_order)order};
        if (emulator_launch(&barrier, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int i = 0; i < 128; i++)
            assert_int_equal(y[i], 100 + (i % 64 + 1) % 64 + 10);
    }
}

static void divergent_barriers_are_faults(void **state) {
    (void)state;
    struct emulator_case c = {.entry = "barrier_divergent", .blocks = 1, .block = 64, .y_bytes = 256};
    emulator_expect_fault(&barrier, &c, "divergent barrier");
    emulator_expect_fault(&barrier, &c, "barrier.cu:16");
    c.entry = "barrier_exited";
    emulator_expect_fault(&barrier, &c, "divergent barrier");
    emulator_expect_fault(&barrier, &c, "threads 5-5 exited");
    c.entry = "barrier_diverged_warp";
    emulator_expect_fault(&barrier, &c, "divergent warp");
    c.entry = "barrier_spin";
    emulator_expect_fault(&barrier, &c, "threads 0-0 spin");
}

static void missing_barrier_shows_by_order(void **state) {
    (void)state;
    int forward[64], reverse[64];
    struct tern_error err = {0};
    struct emulator_case c = {.entry = "barrier_missing", .blocks = 1, .block = 64, .y_bytes = sizeof forward};
    assert_int_equal(emulator_launch(&barrier, &c, forward, &err), TERN_OK);
    c.order = TERN_EMU_REVERSE;
    assert_int_equal(emulator_launch(&barrier, &c, reverse, &err), TERN_OK);
    assert_int_equal(forward[3], -1); /* the neighbour had not written yet: poison */
    assert_int_equal(reverse[3], 104);
}

static void named_barriers(void **state) {
    (void)state;
    for (int order = 0; order < TERN_EMU_ORDERS; order++) {
        int y[64];
        struct tern_error err = {0};
        struct emulator_case c = {
            .entry = "barrier_named", .blocks = 1, .block = 64, .y_bytes = sizeof y, .order = (enum tern_emu_order)order};
        assert_int_equal(emulator_launch(&barrier, &c, y, &err), TERN_OK);
        assert_int_equal(y[0], 1);
        assert_int_equal(y[40], 56);
    }
}

static void memory_faults_are_named(void **state) {
    (void)state;
    static const struct {
        const char *entry, *part;
    } cases[] = {{"memory_write_behind", "0 bytes behind the end of a buffer of 132 bytes"},
                 {"memory_write_far", "behind the end of a buffer"},
                 {"memory_read_far", "behind the end of a buffer"},
                 {"memory_write_before", "before the start of a buffer"},
                 {"memory_null", "invalid address"},
                 {"memory_divide", "division by zero"},
                 {"memory_shared_behind", "behind the end of dynamic shared memory of 100 bytes"},
                 {"memory_misaligned", "misaligned access (thread 0"},
                 {"memory_trap", "__trap() (thread 3 of block 0,0,0)"},
                 {"memory_stack", "stack overflow"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct emulator_case c = {.entry = cases[i].entry,
                                  .blocks = 1,
                                  .block = 32,
                                  .smem = 100,
                                  .x_bytes = 4096,
                                  .y_bytes = 132,
                                  .m = 33,
                                  .k = 1024};
        emulator_expect_fault(&memory, &c, cases[i].part);
    }
    int y[33]; /* and the context lives on */
    struct tern_error err = {0};
    struct emulator_case c = {.entry = "memory_good", .blocks = 1, .block = 32, .y_bytes = sizeof y};
    assert_int_equal(emulator_launch(&memory, &c, y, &err), TERN_OK);
    assert_int_equal(y[31], 3);
    assert_int_equal(y[32], 0);
}

static void shared_memory_is_poisoned_between_blocks(void **state) {
    (void)state;
    uint32_t y[6];
    struct tern_error err = {0};
    struct emulator_case c = {.entry = "memory_shared_poison", .blocks = 3, .block = 1, .smem = 64, .y_bytes = sizeof y};
    assert_int_equal(emulator_launch(&memory, &c, y, &err), TERN_OK);
    for (int i = 0; i < 6; i++)
        assert_int_equal(y[i], 0xFFFFFFFFu);
}

static void impossible_launches_are_refused(void **state) {
    (void)state;
    static const struct {
        int64_t blocks, block, cluster, smem;
    } cases[] = {{1, 1025, 1, 0}, {1, 0, 1, 0}, {3, 32, 2, 0}, {0, 32, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct emulator_case c = {.entry = "memory_good",
                                  .blocks = cases[i].blocks,
                                  .block = cases[i].block,
                                  .cluster = cases[i].cluster,
                                  .y_bytes = 256};
        struct tern_error err = {0};
        assert_int_equal(emulator_launch(&memory, &c, NULL, &err), TERN_FAILED);
    }
}

static void copies_arrive_at_their_wait(void **state) {
    (void)state;
    uint32_t x[256], y[256];
    struct tern_error err = {0};
    for (uint32_t i = 0; i < 256; i++)
        x[i] = 1000 + i;
    struct emulator_case c = {
        .entry = "async_good", .blocks = 1, .block = 32, .smem = 2048, .x = x, .x_bytes = sizeof x, .y_bytes = 512};
    if (emulator_launch(&async, &c, y, &err) != TERN_OK)
        fail_msg("%s", err.text);
    assert_int_equal(y[4 * 5 + 1], x[4 * 6 + 1]);
    assert_int_equal(y[4 * 6 + 1], 0); /* copy 7 was not wanted: zeros */
    c.entry = "async_no_wait";
    assert_int_equal(emulator_launch(&async, &c, y, &err), TERN_OK);
    assert_int_equal(y[4 * 5 + 1], 0xFFFFFFFFu);
    c.entry = "async_groups";
    assert_int_equal(emulator_launch(&async, &c, y, &err), TERN_OK);
    assert_int_equal(y[0], 1000);
    assert_int_equal(y[1], 0xFFFFFFFFu);
    assert_int_equal(y[2], 1001);
}

static void bulk_copies_arrive_at_their_barrier(void **state) {
    (void)state;
    uint32_t x[256], y[256];
    struct tern_error err = {0};
    for (uint32_t i = 0; i < 256; i++)
        x[i] = 1000 + i;
    for (int order = 0; order < TERN_EMU_ORDERS; order++) {
        struct emulator_case c = {.entry = "async_bulk",
                                  .blocks = 1,
                                  .block = 32,
                                  .smem = 2048,
                                  .x = x,
                                  .x_bytes = sizeof x,
                                  .y_bytes = sizeof y,
                                  .order = (enum tern_emu_order)order};
        if (emulator_launch(&async, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        assert_memory_equal(x, y, sizeof x);
    }
    struct emulator_case c = {.entry = "async_bulk_no_wait",
                              .blocks = 1,
                              .block = 32,
                              .smem = 2048,
                              .x = x,
                              .x_bytes = sizeof x,
                              .y_bytes = sizeof y};
    if (emulator_launch(&async, &c, y, &err) == TERN_OK)
        assert_memory_not_equal(x, y, sizeof x);
    c.entry = "async_no_init";
    emulator_expect_fault(&async, &c, "before its init");
    c.entry = "async_never";
    emulator_expect_fault(&async, &c, "deadlock");
}

static void clusters_share_memory(void **state) {
    (void)state;
    int y[8 * 256];
    struct tern_error err = {0};
    struct emulator_case c = {
        .entry = "async_cluster", .blocks = 8, .block = 256, .cluster = 8, .smem = 1024, .y_bytes = sizeof y};
    if (emulator_launch(&async, &c, y, &err) != TERN_OK)
        fail_msg("%s", err.text);
    for (int i = 0; i < 8 * 256; i++)
        assert_int_equal(y[i], 1000 * ((i / 256 + 7) % 8) + i % 256);
}

/* Arriving at the barrier of a cluster and waiting there are two things, each done once a phase. */
static void clusters_arrive_before_they_wait(void **state) {
    (void)state;
    int y[2 * 32];
    struct tern_error err = {0};
    struct emulator_case c = {
        .entry = "async_cluster_split", .blocks = 2, .block = 32, .cluster = 2, .smem = 64, .y_bytes = sizeof y};
    for (int order = 0; order < TERN_EMU_ORDERS; order++) {
        c.order = (enum tern_emu_order)order;
        if (emulator_launch(&async, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int i = 0; i < 2 * 32; i++)
            assert_int_equal(y[i], i / 32);
    }
    c.entry = "async_cluster_no_arrive";
    emulator_expect_fault(&async, &c, "waits that has not arrived");
    c.entry = "async_cluster_twice";
    emulator_expect_fault(&async, &c, "arrives again before it has waited");
}

static void stores_arrive_at_their_barrier(void **state) {
    (void)state;
    int y[2 * 128];
    struct tern_error err = {0};
    struct emulator_case c = {
        .entry = "async_store", .blocks = 2, .block = 32, .cluster = 2, .smem = 1024, .y_bytes = sizeof y};
    for (int order = 0; order < TERN_EMU_ORDERS; order++) {
        c.order = (enum tern_emu_order)order;
        if (emulator_launch(&async, &c, y, &err) != TERN_OK)
            fail_msg("%s", err.text);
        for (int i = 0; i < 2 * 128; i++)
            assert_int_equal(y[i], 1000 * (1 - i / 128) + i % 128);
    }
    c.order = TERN_EMU_FORWARD;
    c.entry = "async_store_no_wait"; /* nobody waits: nothing has arrived */
    assert_int_equal(emulator_launch(&async, &c, y, &err), TERN_OK);
    for (int i = 0; i < 2 * 128; i++)
        assert_int_equal(y[i], -1);
    struct emulator_case askew = {.entry = "async_store_askew", .blocks = 1, .block = 1, .smem = 64, .y_bytes = 4};
    emulator_expect_fault(&async, &askew, "st.async of 16 bytes");
}

/* Every block finds x poisoned until it waits, and what it wrote to y before is lost; y of the blocks ahead of it stays. */
static void late_memory_arrives_at_the_wait(void **state) {
    (void)state;
    const uint32_t x[3] = {11, 12, 13};
    uint32_t y[12];
    struct tern_error err = {0};
    struct emulator_case c = {.entry = "async_late",
                              .blocks = 3,
                              .block = 1,
                              .x = x,
                              .x_bytes = sizeof x,
                              .y_bytes = sizeof y,
                              .y_fill = 77,
                              .late = true};
    assert_int_equal(emulator_launch(&async, &c, y, &err), TERN_OK);
    for (uint32_t i = 0; i < 3; i++)
        assert_memory_equal(y + 4 * i, ((const uint32_t[]){0xFFFFFFFFu, x[i], 77, 6}), 16);
    c.entry = "async_late_no_wait"; /* the kernel ahead ends behind it */
    assert_int_equal(emulator_launch(&async, &c, y, &err), TERN_OK);
    for (uint32_t i = 0; i < 12; i++)
        assert_int_equal(y[i], 77);
    c.late = false; /* a plain launch has all of it from the start */
    assert_int_equal(emulator_launch(&async, &c, y, &err), TERN_OK);
    for (uint32_t i = 0; i < 3; i++)
        assert_memory_equal(y + 4 * i, ((const uint32_t[]){x[i], x[i], 5, 6}), 16);
}

static int open_all(void **state) {
    (void)state;
    emulator_fixture_open(&barrier, "barrier");
    emulator_fixture_open(&memory, "memory");
    emulator_fixture_open(&async, "async");
    return 0;
}

static int close_all(void **state) {
    (void)state;
    emulator_fixture_close(&async);
    emulator_fixture_close(&memory);
    emulator_fixture_close(&barrier);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_barrier_in_every_order),
        cmocka_unit_test(divergent_barriers_are_faults),
        cmocka_unit_test(missing_barrier_shows_by_order),
        cmocka_unit_test(named_barriers),
        cmocka_unit_test(memory_faults_are_named),
        cmocka_unit_test(shared_memory_is_poisoned_between_blocks),
        cmocka_unit_test(impossible_launches_are_refused),
        cmocka_unit_test(copies_arrive_at_their_wait),
        cmocka_unit_test(bulk_copies_arrive_at_their_barrier),
        cmocka_unit_test(clusters_share_memory),
        cmocka_unit_test(clusters_arrive_before_they_wait),
        cmocka_unit_test(stores_arrive_at_their_barrier),
        cmocka_unit_test(late_memory_arrives_at_the_wait),
    };
    return cmocka_run_group_tests_name("emulator", tests, open_all, close_all);
}
