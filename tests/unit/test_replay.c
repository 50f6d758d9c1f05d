/* Recordings and their replay: files that are none, lookups, `tune record` from a database, the replay worker and its faults.
 * All numbers are invented. Started as `worker replay`, this program is a replay worker. */
#include "store_fixture.h"

#include "commands/commands.h"
#include "core/clock.h"
#include "worker/message.h"
#include "worker/process.h"
#include "worker/recording.h"
#include "worker/replay.h"
#include "worker/replay_fault.h"
#include "worker/reply.h"

#include <zstd.h>

#define DEVICE                                                                                                              \
    "{\"what\":\"device\",\"version\":1,\"gpu\":\"h200\",\"name\":\"NVIDIA "                                                \
    "H200\",\"driver\":\"1.2\",\"cc\":90,\"sms\":132}\n"
#define CHECK_LINE "{\"what\":\"check\",\"format\":\"f\",\"template\":\"t\",\"params\":\"A=1\",\"outcome\":\"ok\"}\n"
#define SCREEN(us)                                                                                                          \
    "{\"what\":\"screen\",\"format\":\"f\",\"n\":8,\"k\":16,\"m\":2,\"template\":\"t\",\"params\":\"A=1\","                 \
    "\"outcome\":\"ok\",\"gpu_seconds\":0.25,\"samples\":[" us "]}\n"
#define END(lines) "{\"what\":\"end\",\"lines\":" lines "}\n"

static void refused(const char *path, enum tern_status status, const char *part) {
    struct tern_recording r;
    struct tern_error err = {0};
    assert_int_equal(tern_recording_read(path, &r, &err), status);
    if (!strstr(err.text, part) || !strstr(err.text, path))
        fail_msg("\"%s\" lacks \"%s\" or the path", err.text, part);
    assert_true(err.hint[0] != '\0');
}

static void refused_text(const char *path, const char *text, const char *part) {
    CHECK_OK(tern_file_write(path, text, strlen(text), failure));
    refused(path, TERN_INTERNAL, part);
}

static void files_that_are_no_recording(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f);
    refused(f.db, TERN_USAGE, "no such recording");
    refused_text(f.db, "", "empty");
    refused_text(f.db, "a letter\nof two lines\n", "not a recording");
    refused_text(f.db, "[1, 2]\n", "not a recording");
    refused_text(f.db, "{\"what\":\"song\"}\n", "describes no device");
    refused_text(f.db, "{\"what\":\"device\",\"version\":2,\"name\":\"x\",\"cc\":90,\"sms\":1}\n" END("1"), "version 2");
    refused_text(f.db, "{\"what\":\"device\",\"version\":1,\"name\":\"x\"}\n" END("1"), "lacks");
    refused_text(f.db, DEVICE, "truncated");
    refused_text(f.db, DEVICE CHECK_LINE, "truncated");
    refused_text(f.db, DEVICE "{\"what\":\"che", "line 2");
    refused_text(f.db, DEVICE CHECK_LINE END("1"), "end line counts");
    refused_text(f.db, DEVICE CHECK_LINE CHECK_LINE END("2"), "end line counts");
    refused_text(f.db, DEVICE END("1") CHECK_LINE, "behind its end line");
    refused_text(f.db, DEVICE "{\"what\":\"rumour\",\"format\":\"f\"}\n" END("2"), "line 2 is of no known kind");
    refused_text(f.db, DEVICE "{\"what\":\"screen\",\"format\":\"f\",\"template\":\"t\"}\n" END("2"), "lacks a field");
    fixture_close(&f);
}

static void damaged_frames(void **state) {
    (void)state;
    struct fixture f;
    struct tern_recording_writer w = {0};
    char *frame, foreign[128];
    size_t length;
    fixture_open(&f);
    tern_recording_add(
        &w, json_pack("{s:s, s:i, s:s, s:i, s:i}", "what", "device", "version", 1, "name", "x", "cc", 90, "sms", 1));
    CHECK_OK(tern_recording_write(&w, f.db, failure));
    tern_recording_writer_free(&w);
    CHECK_OK(tern_file_read(f.db, &frame, &length, failure));
    for (size_t cut = 4; cut < length; cut++) { /* cut anywhere behind the magic number */
        CHECK_OK(tern_file_write(f.db, frame, cut, failure));
        struct tern_recording r;
        struct tern_error err = {0};
        assert_int_equal(tern_recording_read(f.db, &r, &err), TERN_INTERNAL);
        assert_non_null(strstr(err.text, "truncated"));
    }
    frame[length - 6] ^= 1;
    CHECK_OK(tern_file_write(f.db, frame, length, failure));
    refused(f.db, TERN_INTERNAL, "damaged");
    free(frame);
    length = ZSTD_compress(foreign, sizeof foreign, "a letter", 8, 1);
    CHECK_OK(tern_file_write(f.db, foreign, length, failure));
    refused(f.db, TERN_INTERNAL, "not a recording");
    fixture_close(&f);
}

static void lines_are_found_and_the_last_one_counts(void **state) {
    (void)state;
    static const char text[] = DEVICE CHECK_LINE SCREEN("3.5") SCREEN("4.5") END("4");
    struct fixture f;
    struct tern_recording r, again;
    size_t count = 0;
    fixture_open(&f);
    CHECK_OK(tern_file_write(f.db, text, sizeof text - 1, failure));
    CHECK_OK(tern_recording_read(f.db, &r, failure));
    struct tern_recorded_problem p = {"f", 8, 16, 2, "linear-a16"};
    double *samples = tern_message_samples(tern_recording_trial(&r, "screen", &p, "t", "A=1"), "samples", &count);
    assert_int_equal(count, 1);
    assert_true(samples[0] == 4.5);
    free(samples);
    assert_non_null(tern_recording_check(&r, "f", "linear-a16", "t", "A=1"));
    assert_null(tern_recording_check(&r, "f", "linear-a16", "t", "A=2"));
    assert_null(tern_recording_trial(&r, "final", &p, "t", "A=1"));
    assert_null(tern_recording_baseline(&r, &p, "cublaslt-default"));
    p.op = "linear-bf16"; /* the lines name no op: they are of linear-a16 */
    assert_null(tern_recording_trial(&r, "screen", &p, "t", "A=1"));
    assert_null(tern_recording_check(&r, "f", "linear-bf16", "t", "A=1"));
    p.op = "linear-a16";
    p.m = 3;
    assert_null(tern_recording_trial(&r, "screen", &p, "t", "A=1"));
    char *frame = tern_alloc(ZSTD_compressBound(sizeof text));
    size_t length = ZSTD_compress(frame, ZSTD_compressBound(sizeof text), text, sizeof text - 1, 1);
    CHECK_OK(tern_file_write(f.db, frame, length, failure));
    CHECK_OK(tern_recording_read(f.db, &again, failure));
    assert_string_equal(r.hash, again.hash); /* whatever the compression */
    free(frame);
    tern_recording_free(&r);
    tern_recording_free(&again);
    fixture_close(&f);
}

/* ---- tune record ---- */

/* A database with a check, two screens of one identity and a baseline, and an interrupted trial. */
static void fill(const char *path) {
    static const double old[] = {9.0}, samples[] = {5.0, 5.25};
    struct tern_store *s;
    CHECK_OK(tern_store_open(path, TERN_STORE_WRITE, &s, failure));
    struct rows rows = sample_rows(s, true);
    for (int i = 0; i < 3; i++) {
        struct tern_store_trial t = sample_trial(&rows);
        if (i == 0) {
            strcpy(t.stage, "verify");
            strcpy(t.policy, "small");
        }
        CHECK_OK(tern_store_trial_begin(s, &t, failure));
        t.outcome = TERN_OUTCOME_OK;
        t.sm_mhz = 1000;
        t.gpu_seconds = i == 2 ? 0.125 : 0; /* the others are of a database that did not know it yet */
        if (i > 0)
            t.us = t.us_lo = t.us_hi = i == 1 ? 9.0 : 5.0;
        CHECK_OK(tern_store_trial_finish(s, &t, i == 0 ? NULL : i == 1 ? old : samples, (size_t)i, failure));
    }
    struct tern_store_trial left = sample_trial(&rows);
    CHECK_OK(tern_store_trial_begin(s, &left, failure));
    struct tern_store_baseline b = {.kind = "cublaslt-best16",
                                    .policy = "graph/cold",
                                    .detail = "algorithm 3 of 9",
                                    .us = 7,
                                    .us_lo = 7,
                                    .us_hi = 7,
                                    .sm_mhz = 1000};
    CHECK_OK(tern_store_baseline_put(s, rows.run, rows.device, rows.problem, &b, samples, 2, failure));
    tern_store_close(s);
}

static enum tern_status record(const char *db, const char *gpu, const char *shapes, const char *out,
                               struct tern_error *err) {
    char *argv[] = {(char *)"record", (char *)"--gpu", (char *)gpu,        (char *)"--db", (char *)db,
                    (char *)"-o",     (char *)out,     (char *)"--shapes", (char *)shapes, NULL};
    return tern_command_record.run(shapes ? 9 : 7, argv, err);
}

static void record_keeps_the_newest_and_the_same_bytes(void **state) {
    (void)state;
    struct fixture f;
    struct tern_recording r;
    struct tern_error err = {0};
    char one[128], two[128], *a, *b;
    size_t count, a_length, b_length;
    fixture_open(&f);
    tern_str_format(one, sizeof one, "%s/1.zst", f.dir);
    tern_str_format(two, sizeof two, "%s/2.zst", f.dir);
    fill(f.db);
    CHECK_OK(record(f.db, "h200", NULL, one, failure));
    CHECK_OK(record(f.db, "h200", "qwen7b", two, failure)); /* its qkv is the problem's shape */
    CHECK_OK(tern_file_read(one, &a, &a_length, failure));
    CHECK_OK(tern_file_read(two, &b, &b_length, failure));
    assert_int_equal(a_length, b_length);
    assert_memory_equal(a, b, a_length);
    free(a);
    free(b);
    CHECK_OK(tern_recording_read(one, &r, failure));
    struct tern_recorded_problem p = {"ternary-g128", 4608, 3584, 1, "linear-a16"};
    assert_int_equal(json_object_size(r.lines), 3);
    assert_non_null(tern_recording_check(&r, "ternary-g128", "linear-a16", "simt-decode", "STAGES=1"));
    assert_null(
        json_object_get(tern_recording_check(&r, "ternary-g128", "linear-a16", "simt-decode", "STAGES=1"), "gpu_seconds"));
    assert_true(tern_message_real(tern_recording_trial(&r, "screen", &p, "simt-decode", "STAGES=1"), "gpu_seconds", 0) ==
                0.125);
    double *samples =
        tern_message_samples(tern_recording_trial(&r, "screen", &p, "simt-decode", "STAGES=1"), "samples", &count);
    assert_int_equal(count, 2);
    assert_true(samples[0] == 5.0 && samples[1] == 5.25);
    free(samples);
    const json_t *baseline = tern_recording_baseline(&r, &p, "cublaslt-best16");
    assert_int_equal(tern_message_int(baseline, "best_algorithm", 0), 3);
    assert_int_equal(tern_message_int(baseline, "algorithms", 0), 9);
    assert_string_equal(tern_message_text(r.device, "name"), "NVIDIA H200");
    tern_recording_free(&r);
    assert_int_equal(record(f.db, "h200", "smoke", two, &err), TERN_USAGE); /* none of its shapes */
    assert_non_null(strstr(err.text, "nothing was measured on h200"));
    assert_int_equal(record(f.db, "a100", NULL, two, &err), TERN_USAGE);
    assert_int_equal(record(f.db, "h200-replay", NULL, two, &err), TERN_USAGE);
    assert_non_null(strstr(err.text, "a replay is not recorded again"));
    fixture_close(&f);
}

/* ---- the worker ---- */

static json_t *ask(struct tern_process *p, json_t *request) {
    char why[512] = "";
    json_t *reply = NULL;
    if (tern_process_call(p, request, 20, &reply, why, sizeof why) != TERN_CALL_OK)
        fail_msg("%s", why);
    json_decref(request);
    return reply;
}

/* What follows a first message. */
static json_t *answer(struct tern_process *p) {
    char why[512];
    json_t *reply = NULL;
    if (tern_process_answer(p, tern_clock_now_ns() + 20000000000, &reply, why, sizeof why) != TERN_CALL_OK)
        fail_msg("%s", why);
    return reply;
}

static json_t *hello(const char *path, const char *fault, int asked) {
    return json_pack("{s:s, s:s, s:s, s:i}", "do", "hello", "recording", path, "fault", fault, "asked", asked);
}

static json_t *about(const char *what, int m, const char *params) {
    return json_pack("{s:s, s:s, s:s, s:s, s:i}", "do", what, "format", "f", "template", "t", "params", params, "m", m);
}

static json_t *checked(json_t *request) {
    json_object_set_new(request, "check", json_true());
    return request;
}

static void prepare(struct tern_process *p) {
    json_decref(ask(
        p, json_pack("{s:s, s:s, s:s, s:i, s:i}", "do", "prepare", "activations", "f16", "format", "f", "n", 8, "k", 16)));
}

static void expect(json_t *reply, enum tern_outcome outcome, const char *detail) {
    assert_int_equal(tern_reply_outcome_of(reply), outcome);
    assert_non_null(strstr(tern_message_text(reply, "detail"), detail));
    json_decref(reply);
}

/* The message ahead of a reply. */
static void of_check(json_t *message, enum tern_outcome outcome, const char *detail) {
    expect(json_incref(json_object_get(message, "check")), outcome, detail);
    json_decref(message);
}

static void the_worker_answers_as_recorded(void **state) {
    (void)state;
    static const char text[] = DEVICE CHECK_LINE SCREEN("3.5,4.5") END("3");
    struct fixture f;
    struct tern_process p;
    struct tern_error err;
    fixture_open(&f);
    CHECK_OK(tern_file_write(f.db, text, sizeof text - 1, failure));
    CHECK_OK(tern_process_start("replay", &p, failure));
    json_t *reply = ask(&p, about("trial", 2, "A=1"));
    assert_true(tern_reply_is_error(reply, &err)); /* before hello */
    json_decref(reply);
    reply = ask(&p, hello(f.db, "", 0));
    assert_string_equal(tern_message_text(reply, "name"), "NVIDIA H200");
    assert_non_null(strstr(tern_message_text(reply, "driver"), "1.2 recording "));
    json_decref(reply);
    reply = ask(&p, about("trial", 2, "A=1"));
    assert_true(tern_reply_is_error(reply, &err)); /* before prepare */
    json_decref(reply);
    prepare(&p);
    expect(ask(&p, about("trial", 3, "A=1")), TERN_OUTCOME_INVALID, "not recorded");
    of_check(ask(&p, checked(about("trial", 2, "A=1"))), TERN_OUTCOME_OK, "");
    expect(answer(&p), TERN_OUTCOME_OK, "");
    of_check(ask(&p, checked(about("trial", 2, "A=9"))), TERN_OUTCOME_INVALID, "not recorded");
    expect(answer(&p), TERN_OUTCOME_INVALID, "not recorded"); /* who fails the check is not tried */
    json_t *ahead = about("ahead", 2, "A=1");                 /* has no answer: the next request's comes next */
    assert_int_equal(tern_message_send(p.fd, ahead), TERN_MESSAGE_OK);
    json_decref(ahead);
    reply = ask(&p, about("trial", 2, "A=1"));
    assert_int_equal(json_array_size(json_object_get(reply, "samples")), 2);
    assert_true(tern_message_real(reply, "gpu_seconds", 0) == 0.25);
    expect(reply, TERN_OUTCOME_OK, "");
    reply =
        ask(&p, json_pack("{s:s, s:i, s:[{s:s, s:s}]}", "do", "final", "m", 2, "entries", "template", "t", "params", "A=1"));
    const json_t *entry = json_array_get(json_object_get(reply, "entries"), 0);
    assert_int_equal(tern_reply_outcome_of(entry), TERN_OUTCOME_OK);
    assert_non_null(strstr(tern_message_text(entry, "detail"), "screening samples"));
    json_decref(reply);
    tern_process_kill(&p);
    fixture_close(&f);
}

static void a_bad_recording_is_an_error_of_the_hello(void **state) {
    (void)state;
    struct tern_process p;
    struct tern_error err;
    CHECK_OK(tern_process_start("replay", &p, failure));
    json_t *reply = ask(&p, hello("/nowhere/r.zst", "", 0));
    assert_true(tern_reply_is_error(reply, &err));
    assert_int_equal(err.status, TERN_USAGE);
    json_decref(reply);
    tern_process_kill(&p);
}

static void faults_come_at_their_turn(void **state) {
    (void)state;
    static const char text[] = DEVICE SCREEN("3.5") END("2");
    struct fixture f;
    struct tern_process p;
    char why[512];
    json_t *reply, *request = about("trial", 2, "A=1");
    fixture_open(&f);
    CHECK_OK(tern_file_write(f.db, text, sizeof text - 1, failure));
    CHECK_OK(tern_process_start("replay", &p, failure));
    json_decref(ask(&p, hello(f.db, "nan@2,crash@4,fault@5", 0)));
    prepare(&p);
    expect(ask(&p, about("trial", 2, "A=1")), TERN_OUTCOME_OK, "");
    expect(ask(&p, about("trial", 2, "A=1")), TERN_OUTCOME_WRONG, "nan");
    expect(ask(&p, about("trial", 2, "A=1")), TERN_OUTCOME_OK, "");
    assert_int_equal(tern_process_call(&p, request, 20, &reply, why, sizeof why), TERN_CALL_DIED);
    assert_non_null(strstr(why, "signal 11"));
    CHECK_OK(tern_process_start("replay", &p, failure)); /* the next worker goes on counting */
    json_decref(ask(&p, hello(f.db, "nan@2,crash@4,fault@5", 4)));
    prepare(&p);
    reply = ask(&p, about("trial", 2, "A=1"));
    assert_true(json_is_true(json_object_get(reply, "sticky")));
    expect(reply, TERN_OUTCOME_FAULT, "illegal address");
    assert_int_equal(tern_process_call(&p, request, 20, &reply, why, sizeof why), TERN_CALL_DIED);
    assert_non_null(strstr(why, "exited with code 0"));
    json_decref(request);
    fixture_close(&f);
}

static void devices_are_told_apart(void **state) {
    (void)state;
    static const char text[] = DEVICE SCREEN("3.5") END("2");
    struct fixture f;
    struct tern_process p[2];
    fixture_open(&f);
    CHECK_OK(tern_file_write(f.db, text, sizeof text - 1, failure));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(tern_process_start("replay", &p[i], failure));
        json_t *request = hello(f.db, "unlike@d1:0,wrong@d1:1", 0);
        json_object_set_new(request, "device", json_integer(i));
        json_t *reply = ask(&p[i], request);
        assert_string_equal(tern_message_text(reply, "uuid"), i == 0 ? "replay-0" : "replay-1");
        json_decref(reply);
        reply = ask(&p[i], json_pack("{s:s}", "do", "control"));
        assert_true(tern_message_real(reply, "read_us", 0) > (i == 0 ? 0.9 : 1.05));
        assert_true(tern_message_real(reply, "read_us", 9) < (i == 0 ? 1.05 : 1.2));
        json_decref(reply);
        prepare(&p[i]);
        expect(ask(&p[i], about("trial", 2, "A=1")), i == 0 ? TERN_OUTCOME_OK : TERN_OUTCOME_WRONG, "");
        tern_process_kill(&p[i]);
    }
    fixture_close(&f);
}

static void fault_specifications(void **state) {
    (void)state;
    static const char *const bad[] = {"crash",     "crash@",      "crash@x",  "crash@-1",  "@3",
                                      "crsh@3",    ",",           "wrong@0",  "crash@1 2", "wrong@f1",
                                      "crash@f0",  "crash@f",     "crash@d1", "crash@d:1", "crash@dx:1",
                                      "crash@d1:", "crash@d1:f0", "unlike@3", "unlike@*"};
    struct tern_faults faults;
    struct tern_error err = {0};
    CHECK_OK(tern_faults_parse(NULL, &faults, failure));
    assert_int_equal(faults.count, 0);
    CHECK_OK(tern_faults_parse("crash@0, nan@12,oom@*", &faults, failure));
    assert_int_equal(faults.count, 3);
    assert_int_equal(faults.items[1].when, 12);
    assert_int_equal(faults.items[2].when, TERN_FAULT_EACH);
    CHECK_OK(tern_faults_parse("fault@f2", &faults, failure));
    assert_true(faults.items[0].final);
    assert_int_equal(faults.items[0].when, 2);
    assert_int_equal(faults.items[0].device, TERN_FAULT_EACH);
    assert_false(tern_faults_unlike(&faults));
    CHECK_OK(tern_faults_parse("crash@d1:*,fault@d12:f2,unlike@d3:0", &faults, failure));
    assert_int_equal(faults.items[0].device, 1);
    assert_int_equal(faults.items[0].when, TERN_FAULT_EACH);
    assert_int_equal(faults.items[1].device, 12);
    assert_true(faults.items[1].final);
    assert_false(tern_faults_unlike(&faults)); /* the worker of device 0 */
    faults.device = 3;
    assert_true(tern_faults_unlike(&faults));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(tern_faults_parse(bad[i], &faults, &err), TERN_USAGE);
        assert_non_null(strstr(err.text, "--fault"));
    }
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "worker") == 0)
        return strcmp(argv[2], "replay") == 0 ? tern_replay_worker() : 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_are_no_recording),
        cmocka_unit_test(damaged_frames),
        cmocka_unit_test(lines_are_found_and_the_last_one_counts),
        cmocka_unit_test(record_keeps_the_newest_and_the_same_bytes),
        cmocka_unit_test(the_worker_answers_as_recorded),
        cmocka_unit_test(a_bad_recording_is_an_error_of_the_hello),
        cmocka_unit_test(faults_come_at_their_turn),
        cmocka_unit_test(devices_are_told_apart),
        cmocka_unit_test(fault_specifications),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
