/* Worker processes and their messages: framing, deadlines, deaths, the pool. This program is its own worker: started as
 * `worker KIND` it behaves as KIND says. */
#include "core/clock.h"
#include "core/str.h"
#include "worker/message.h"
#include "worker/pool.h"
#include "worker/process.h"
#include "worker/reply.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* Answers {"x": n} with {"y": n + 1}; "crash", "exit", "hang" and "garbage" misbehave on request n % 5 == 3. */
static int serve(const char *kind) {
    for (;;) {
        json_t *request = NULL;
        if (tern_message_receive(TERN_WORKER_FD, 0, &request) != TERN_MESSAGE_OK)
            return 0;
        int64_t x = tern_message_int(request, "x", -1);
        json_decref(request);
        if (x % 5 == 3 && strcmp(kind, "crash") == 0) {
            fprintf(stderr, "about to fall\n");
            raise(SIGSEGV);
        }
        if (x % 5 == 3 && strcmp(kind, "exit") == 0)
            _exit(7);
        if (x % 5 == 3 && strcmp(kind, "hang") == 0) {
            signal(SIGTERM, SIG_IGN);
            for (;;)
                pause();
        }
        if (x % 5 == 3 && strcmp(kind, "garbage") == 0)
            (void)!write(TERN_WORKER_FD, "hello, is there anybody?", 24);
        json_t *reply = json_pack("{s:I, s:I}", "y", (json_int_t)(x + 1), "pid", (json_int_t)getpid());
        tern_message_send(TERN_WORKER_FD, reply);
        json_decref(reply);
    }
}

static void messages_keep_numbers_and_text(void **state) {
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    const double samples[] = {1.25, 3e-7, 123456789.125};
    json_t *sent = json_pack("{s:s, s:I, s:o}", "text", "line\n\"quoted\" \u00b5s", "big", (json_int_t)INT64_MAX, "samples",
                             tern_message_from_samples(samples, 3));
    assert_int_equal(tern_message_send(pair[0], sent), TERN_MESSAGE_OK);
    json_t *got = NULL;
    assert_int_equal(tern_message_receive(pair[1], tern_clock_now_ns() + 20000000000, &got), TERN_MESSAGE_OK);
    assert_true(json_equal(sent, got));
    assert_true(tern_message_int(got, "big", 0) == INT64_MAX);
    size_t count = 0;
    double *back = tern_message_samples(got, "samples", &count);
    assert_int_equal(count, 3);
    assert_memory_equal(back, samples, sizeof samples);
    free(back);
    json_decref(sent);
    json_decref(got);
    close(pair[0]);
    assert_int_equal(tern_message_receive(pair[1], 0, &got), TERN_MESSAGE_CLOSED);
    close(pair[1]);
}

static void a_frame_that_stops_halfway_is_a_timeout(void **state) {
    (void)state;
    int pair[2];
    json_t *got = NULL;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    const uint32_t frame[2] = {0x4E524554u, 100};
    assert_int_equal(write(pair[0], frame, sizeof frame), sizeof frame);
    int64_t before_ns = tern_clock_now_ns();
    assert_int_equal(tern_message_receive(pair[1], before_ns + 50000000, &got), TERN_MESSAGE_TIMEOUT);
    assert_true(tern_clock_now_ns() - before_ns < 2000000000);
    assert_null(got);
    close(pair[0]);
    close(pair[1]);
}

static void garbage_is_not_a_message(void **state) {
    (void)state;
    static const struct {
        uint32_t magic, length;
        const char *text;
    } bad[] = {{0x12345678u, 2, "{}"}, {0x4E524554u, 4, "[1,2"}, {0x4E524554u, 3, "[1]"}, {0x4E524554u, 0xffffffffu, ""}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int pair[2];
        json_t *got = NULL;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        const uint32_t frame[2] = {bad[i].magic, bad[i].length};
        assert_int_equal(write(pair[0], frame, sizeof frame), sizeof frame);
        assert_int_equal(write(pair[0], bad[i].text, strlen(bad[i].text)), strlen(bad[i].text));
        assert_int_equal(tern_message_receive(pair[1], tern_clock_now_ns() + 20000000000, &got), TERN_MESSAGE_GARBAGE);
        assert_null(got);
        close(pair[0]);
        close(pair[1]);
    }
}

static enum tern_call call_with(const char *kind, int64_t x, double timeout_s, char *why, size_t why_size, int64_t *y) {
    struct tern_process p;
    struct tern_error err;
    json_t *reply = NULL, *request = json_pack("{s:I}", "x", (json_int_t)x);
    assert_int_equal(tern_process_start(kind, &p, &err), TERN_OK);
    enum tern_call call = tern_process_call(&p, request, timeout_s, &reply, why, why_size);
    *y = tern_message_int(reply, "y", -1);
    json_decref(request);
    json_decref(reply);
    if (call == TERN_CALL_OK)
        tern_process_kill(&p);
    assert_int_equal(p.pid, 0);
    return call;
}

static void a_worker_answers_or_its_end_is_told(void **state) {
    (void)state;
    char why[512] = "";
    int64_t y;
    assert_int_equal(call_with("echo", 41, 20, why, sizeof why, &y), TERN_CALL_OK);
    assert_int_equal(y, 42);
    assert_int_equal(call_with("crash", 3, 20, why, sizeof why, &y), TERN_CALL_DIED);
#if !defined(__SANITIZE_ADDRESS__) /* ASan turns the signal into an exit of its own */
    assert_non_null(strstr(why, "signal 11"));
#endif
    assert_non_null(strstr(why, "about to fall"));
    assert_int_equal(call_with("exit", 3, 20, why, sizeof why, &y), TERN_CALL_DIED);
    assert_non_null(strstr(why, "exited with code 7"));
    assert_int_equal(call_with("garbage", 3, 20, why, sizeof why, &y), TERN_CALL_DIED);
    assert_non_null(strstr(why, "no message"));
}

static void a_worker_that_ignores_sigterm_is_killed_in_time(void **state) {
    (void)state;
    char why[512] = "";
    int64_t y, before_ns = tern_clock_now_ns();
    assert_int_equal(call_with("hang", 3, 0.3, why, sizeof why, &y), TERN_CALL_TIMEOUT);
    assert_true(tern_clock_now_ns() - before_ns < 5000000000);
    assert_non_null(strstr(why, "deadline"));
}

struct tally {
    int calls[3], answers[40];
    int64_t pids[40];
};

static json_t *tally_request(void *user, size_t index) {
    (void)user;
    return json_pack("{s:I}", "x", (json_int_t)index);
}

static void tally_done(void *user, size_t index, enum tern_call call, const json_t *reply, const char *why) {
    struct tally *t = user;
    t->calls[call]++;
    t->answers[index] = call == TERN_CALL_OK ? (int)tern_message_int(reply, "y", -1) : -(int)strlen(why);
    t->pids[index] = tern_message_int(reply, "pid", 0);
}

static void run_pool(const char *kind, double timeout_s, size_t recycle, struct tally *t, size_t *answered) {
    struct tern_error err;
    memset(t, 0, sizeof *t);
    const struct tern_pool_work work = {.kind = kind,
                                        .workers = 3,
                                        .count = 20,
                                        .timeout_s = timeout_s,
                                        .recycle = recycle,
                                        .user = t,
                                        .request = tally_request,
                                        .done = tally_done};
    assert_int_equal(tern_pool_run(&work, answered, &err), TERN_OK);
}

static void the_pool_answers_everything_despite_deaths(void **state) {
    (void)state;
    static const struct {
        const char *kind;
        enum tern_call bad;
    } cases[] = {{"crash", TERN_CALL_DIED}, {"hang", TERN_CALL_TIMEOUT}, {"garbage", TERN_CALL_DIED}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct tally t;
        size_t answered = 0;
        run_pool(cases[c].kind, cases[c].bad == TERN_CALL_TIMEOUT ? 2.0 : 20.0, 0, &t, &answered);
        assert_int_equal(answered, 20);
        assert_int_equal(t.calls[cases[c].bad], 4); /* 3, 8, 13, 18 */
        assert_int_equal(t.calls[TERN_CALL_OK], 16);
        for (int i = 0; i < 20; i++)
            assert_true(i % 5 == 3 ? t.answers[i] < 0 : t.answers[i] == i + 1);
    }
}

static void the_pool_recycles_and_stops_in_time(void **state) {
    (void)state;
    struct tally t;
    size_t answered = 0, pids = 0;
    run_pool("echo", 20, 2, &t, &answered);
    for (size_t i = 0; i < 20; i++) {
        size_t same = 0;
        for (size_t j = 0; j < 20; j++)
            same += t.pids[j] == t.pids[i];
        assert_true(same <= 2);
        pids += same == 1 ? 2 : 1;
    }
    assert_true(pids >= 20);
    struct tern_error err;
    memset(&t, 0, sizeof t);
    const struct tern_pool_work past = {.kind = "echo",
                                        .workers = 2,
                                        .count = 20,
                                        .timeout_s = 5,
                                        .stop_ns = 1,
                                        .user = &t,
                                        .request = tally_request,
                                        .done = tally_done};
    assert_int_equal(tern_pool_run(&past, &answered, &err), TERN_OK);
    assert_int_equal(answered, 0);
}

static json_t *ask(void *user, size_t index) {
    (void)user;
    return json_pack("{s:I}", "x", (json_int_t)index);
}

static void answered(void *user, size_t index, enum tern_call call, const json_t *reply, const char *why) {
    (void)why;
    ((int64_t *)user)[index] = call == TERN_CALL_OK ? tern_message_int(reply, "y", 0) : -1;
}

static void saw_the_end(void *user, size_t index, int exit_code, const char *output) {
    ((int64_t *)user)[index] += 100 * exit_code;
    assert_string_equal(output, "before\nafter\n");
}

/* As under compute-sanitizer: another program stands around the worker, prints, and has an exit code of its own. */
static void the_pool_runs_workers_under_another_program(void **state) {
    const char *const prefix[] = {"/bin/sh", "-c", "echo before; \"$@\"; echo after; exit 5", "sh", NULL};
    int64_t got[3] = {0};
    size_t done = 0;
    struct tern_error err = {0};
    const struct tern_pool_work work = {.kind = "plain",
                                        .prefix = prefix,
                                        .workers = 2,
                                        .count = 3,
                                        .timeout_s = 10,
                                        .user = got,
                                        .request = ask,
                                        .done = answered,
                                        .ended = saw_the_end};
    (void)state;
    assert_int_equal(tern_pool_run(&work, &done, &err), TERN_OK);
    assert_int_equal(done, 3);
    for (int64_t i = 0; i < 3; i++)
        assert_int_equal(got[i], i + 1 + 500);
}

static void replies_tell_errors_from_outcomes(void **state) {
    (void)state;
    struct tern_error err, back;
    tern_error_set(&err, TERN_MISSING, "no device %d", 3);
    tern_error_hint(&err, "plug one in");
    json_t *reply = tern_reply_error(&err);
    assert_true(tern_reply_is_error(reply, &back));
    assert_int_equal(back.status, TERN_MISSING);
    assert_string_equal(back.text, "no device 3");
    assert_string_equal(back.hint, "plug one in");
    json_decref(reply);
    reply = tern_reply_outcome(TERN_OUTCOME_WRONG, "row 3");
    assert_false(tern_reply_is_error(reply, &back));
    assert_int_equal(tern_reply_outcome_of(reply), TERN_OUTCOME_WRONG);
    json_decref(reply);
    reply = json_pack("{s:s}", "outcome", "splendid");
    assert_int_equal(tern_reply_outcome_of(reply), TERN_OUTCOME_CRASH);
    json_decref(reply);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "worker") == 0)
        return serve(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_keep_numbers_and_text),
        cmocka_unit_test(a_frame_that_stops_halfway_is_a_timeout),
        cmocka_unit_test(garbage_is_not_a_message),
        cmocka_unit_test(a_worker_answers_or_its_end_is_told),
        cmocka_unit_test(a_worker_that_ignores_sigterm_is_killed_in_time),
        cmocka_unit_test(the_pool_answers_everything_despite_deaths),
        cmocka_unit_test(the_pool_recycles_and_stops_in_time),
        cmocka_unit_test(the_pool_runs_workers_under_another_program),
        cmocka_unit_test(replies_tell_errors_from_outcomes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
