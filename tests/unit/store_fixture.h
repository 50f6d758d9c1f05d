/* Shared by the tests of the store: a temporary folder and sample rows. Each function fails the test on an error. */
#ifndef TERN_TESTS_STORE_FIXTURE_H
#define TERN_TESTS_STORE_FIXTURE_H

#include "core/file.h"
#include "core/str.h"
#include "store/store.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* `call` ends in failure, the error that it may fill. */
#define CHECK_OK(call)                                                                                                      \
    do {                                                                                                                    \
        struct tern_error failure_text_ = {0}, *failure = &failure_text_;                                                   \
        if ((call) != TERN_OK)                                                                                              \
            fail_msg("%s: %s (%s)", #call, failure->text, failure->hint);                                                   \
    } while (0)

struct fixture {
    char dir[64], db[96];
};

static inline void fixture_open(struct fixture *f) {
    strcpy(f->dir, "/tmp/tern-store-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    tern_str_format(f->db, sizeof f->db, "%s/t.db", f->dir);
}

/* Removes the folder and the plain files in it. */
static inline void fixture_close(struct fixture *f) {
    struct tern_strs names = {0};
    char path[512];
    CHECK_OK(tern_file_list(f->dir, "", &names, failure));
    for (size_t i = 0; i < names.count; i++) {
        tern_str_format(path, sizeof path, "%s/%s", f->dir, names.items[i]);
        unlink(path);
    }
    tern_strs_free(&names);
    rmdir(f->dir);
}

static inline struct tern_store_device sample_device(bool real) {
    struct tern_store_device d = {
        .gpu = "h200", .arch = "sm_90a", .sms = 132, .l2_bytes = 62914560, .memory_bytes = 150000000000, .real = real};
    strcpy(d.name, real ? "NVIDIA H200" : "h200");
    strcpy(d.uuid, real ? "GPU-1" : "");
    strcpy(d.driver, real ? "580.1" : "");
    return d;
}

static inline struct tern_store_problem sample_problem(int64_t m) {
    return (struct tern_store_problem){"ternary-g128", "linear-a16", m, 4608, 3584};
}

/* Build number `i`, key and cubin of its own. */
static inline struct tern_store_build sample_build(int i) {
    struct tern_store_build b = {.template_name = "simt-decode",
                                 .template_hash = "0123456789abcdef0123456789abcdef",
                                 .format = "ternary-g128",
                                 .op = "linear-a16",
                                 .arch = "sm_90a",
                                 .nvrtc = "13.0",
                                 .outcome = TERN_OUTCOME_OK,
                                 .cubin_bytes = 12345,
                                 .registers = 64,
                                 .static_smem_bytes = 16,
                                 .spill_bytes = 0,
                                 .seconds = 1.5};
    tern_str_format(b.key, sizeof b.key, "%032x", i);
    tern_str_format(b.cubin_hash, sizeof b.cubin_hash, "c%031x", i);
    tern_str_format(b.params, sizeof b.params, "STAGES=%d", i);
    return b;
}

/* Rows that a trial needs. */
struct rows {
    int64_t device, run, problem, build;
};

static inline struct rows sample_rows(struct tern_store *s, bool real) {
    struct rows r = {0};
    struct tern_store_device d = sample_device(real);
    struct tern_store_problem p = sample_problem(1);
    struct tern_store_build b = sample_build(1);
    CHECK_OK(tern_store_device(s, &d, &r.device, failure));
    CHECK_OK(tern_store_run_begin(s, r.device, "tune --gpu h200", "0.1", 7, &r.run, failure));
    CHECK_OK(tern_store_problem(s, &p, &r.problem, failure));
    CHECK_OK(tern_store_build_put(s, &b, failure));
    r.build = b.id;
    return r;
}

/* A second card of the same class. */
static inline int64_t sample_peer(struct tern_store *s) {
    struct tern_store_device d = sample_device(true);
    int64_t id = 0;
    strcpy(d.uuid, "GPU-2");
    CHECK_OK(tern_store_device(s, &d, &id, failure));
    return id;
}

static inline struct tern_store_trial sample_trial(const struct rows *r) {
    struct tern_store_trial t = {.run = r->run,
                                 .device = r->device,
                                 .problem = r->problem,
                                 .build = r->build,
                                 .policy = "graph/cold",
                                 .stage = "screen",
                                 .predicted_us = 4.5,
                                 .us = NAN,
                                 .us_lo = NAN,
                                 .us_hi = NAN,
                                 .gpu_seconds = NAN};
    return t;
}

#endif
