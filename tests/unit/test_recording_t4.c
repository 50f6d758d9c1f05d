/* T4 results: classes of the outcomes, lines there and back, and files of other tuners. All numbers are invented. */
#include "store_fixture.h"

#include "worker/message.h"
#include "worker/recording.h"
#include "worker/recording_t4.h"

#include <stdio.h>

static void every_outcome_has_its_class(void **state) {
    (void)state;
    static const char *const expected[TERN_OUTCOME_COUNT] = {
        [TERN_OUTCOME_OK] = "correct",         [TERN_OUTCOME_INVALID] = "constraints",
        [TERN_OUTCOME_COMPILE] = "compile",    [TERN_OUTCOME_RESOURCES] = "constraints",
        [TERN_OUTCOME_FAULT] = "runtime",      [TERN_OUTCOME_CRASH] = "runtime",
        [TERN_OUTCOME_TIMEOUT] = "timeout",    [TERN_OUTCOME_WRONG] = "correctness",
        [TERN_OUTCOME_NONDET] = "correctness", [TERN_OUTCOME_NOISY] = "runtime"};
    for (int i = 0; i < TERN_OUTCOME_COUNT; i++) {
        const char *got = tern_t4_invalidity((enum tern_outcome)i);
        if (!got != !expected[i] || (got && strcmp(got, expected[i]) != 0))
            fail_msg("%s: %s, expected %s", tern_outcome_name((enum tern_outcome)i), got ? got : "none",
                     expected[i] ? expected[i] : "none");
    }
}

static json_t *parse(const char *text) {
    json_t *value = json_loads(text, 0, NULL);
    assert_non_null(value);
    return value;
}

#define DEVICE "{'what':'device','version':1,'gpu':'h200','name':'NVIDIA H200','driver':'1.2','cc':90,'sms':132}"

/* Single quotes for double ones; the caller decrefs. */
static json_t *line(const char *quoted) {
    char *text = tern_strdup(quoted);
    for (char *c = text; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *value = parse(text);
    free(text);
    return value;
}

static void lines_come_back(void **state) {
    (void)state;
    static const char *const lines[] = {
        DEVICE,
        "{'what':'check','format':'f','op':'linear-a16','n':8,'k':16,'m':2,'policy':'small','template':'t','params':'B=2 "
        "A=1',"
        "'outcome':'ok','gpu_seconds':0.0125}",
        "{'what':'check','format':'f','op':'linear-a16','template':'t','params':'B=2 "
        "A=2','outcome':'compile','detail':'line 3: error'}",
        "{'what':'screen','format':'f','op':'linear-a16','n':8,'k':16,'m':2,'policy':'graph/cold','template':'t',"
        "'params':'B=2 A=1','outcome':'ok','gpu_seconds':0.05,'sm_mhz':1980,'samples':[5.421334,5.464,1234567.0,0.03]}",
        "{'what':'screen','format':'f','op':'linear-a16','n':8,'k':16,'m':2,'policy':'graph/cold','template':'t',"
        "'params':'B=3 A=1','outcome':'nondet','detail':'two runs','sm_mhz':1980,'samples':[]}",
        "{'what':'final','format':'f','op':'linear-a16','n':8,'k':16,'m':2,'policy':'graph/cold','template':'t',"
        "'params':'B=2 A=1','outcome':'noisy','detail':'implausible','sm_mhz':1975,'samples':[5.4,5.5]}",
        "{'what':'baseline','format':'f','op':'linear-a16','n':8,'k':16,'m':2,'policy':'graph/cold','best_algorithm':3,"
        "'algorithms':9,'kind':'cublaslt-best16','sm_mhz':1980,'samples':[7.0,7.25]}",
    };
    enum { COUNT = sizeof lines / sizeof lines[0] };
    struct fixture f;
    struct tern_t4_writer w = {0};
    struct tern_recording r;
    fixture_open(&f);
    for (size_t i = 0; i < COUNT; i++)
        tern_t4_add(&w, line(lines[i]), i == 3 ? "2026-01-31T12:00:00Z" : "", i == 3 ? 1.5 : (double)NAN);
    CHECK_OK(tern_t4_write(&w, f.db, failure));
    tern_t4_writer_free(&w);
    CHECK_OK(tern_recording_read(f.db, &r, failure));
    assert_int_equal(json_object_size(r.lines), COUNT); /* and the check that the second screen implies */
    const struct tern_recorded_problem p = {"f", 8, 16, 2, "linear-a16"};
    const json_t *got[COUNT] = {r.device,
                                tern_recording_check(&r, "f", "linear-a16", "t", "A=1 B=2"), /* in any order */
                                tern_recording_check(&r, "f", "linear-a16", "t", "B=2 A=2"),
                                tern_recording_trial(&r, "screen", &p, "t", "B=2 A=1"),
                                tern_recording_trial(&r, "screen", &p, "t", "B=3 A=1"),
                                tern_recording_trial(&r, "final", &p, "t", "B=2 A=1"),
                                tern_recording_baseline(&r, &p, "cublaslt-best16")};
    for (size_t i = 0; i < COUNT; i++) {
        json_t *expected = line(lines[i]);
        if (!json_equal(expected, (json_t *)(uintptr_t)got[i]))
            fail_msg("line %zu came back as %s", i, got[i] ? json_dumps(got[i], 0) : "nothing");
        json_decref(expected);
    }
    tern_recording_free(&r);
    fixture_close(&f);
}

/* A file with these results (single quotes) and this metadata. */
static void write_file(const char *path, const char *metadata, const char *results) {
    json_t *value =
        json_pack("{s:s, s:o, s:o}", "schema_version", "1.0.0", "metadata", line(metadata), "results", line(results));
    char *text = json_dumps(value, JSON_INDENT(2));
    CHECK_OK(tern_file_write(path, text, strlen(text), failure));
    free(text);
    json_decref(value);
}

#define FACTS "'device':'NVIDIA H200','environment':{'device_query':{'cc':90,'sms':132}}"
#define RESULT(configuration, rest)                                                                                         \
    "[{'configuration':{'op':'linear-a16','format':'f','M':2,'N':8,'K':16,'template':'t'" configuration "}," rest "}]"
#define TIMES "'times':{'runtimes':[5,6]}"

/* Another tuner that names our candidates is understood. */
static void results_of_others_that_can_be_mapped(void **state) {
    (void)state;
    static const struct {
        const char *metadata, *results;
        const char *outcome;
        double first;
    } cases[] = {
        {"{" FACTS "}", RESULT(",'A':1", "'invalidity':'correct','correctness':1," TIMES), "ok", 5000},
        {"{'timeunit':'microseconds'," FACTS "}", RESULT(",'A':1", "'invalidity':'correct','correctness':1," TIMES), "ok",
         5},
        {"{'timeunit':'seconds'," FACTS "}", RESULT(",'A':1", "'invalidity':'runtime','correctness':0," TIMES), "fault",
         5e6},
        {"{" FACTS "}", RESULT(",'A':1", "'invalidity':'timeout','correctness':0,'times':{}"), "timeout", 0},
        {"{" FACTS "}", RESULT(",'A':1", "'invalidity':'correctness','correctness':0,'times':{}"), "wrong", 0},
        {"{" FACTS "}", RESULT(",'A':1", "'invalidity':'constraints','correctness':0,'times':{}"), "invalid", 0},
        {"{" FACTS "}", RESULT(",'A':1", "'invalidity':'compile','correctness':0,'times':{}"), "compile", 0},
    };
    struct fixture f;
    fixture_open(&f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tern_recording r;
        const struct tern_recorded_problem p = {"f", 8, 16, 2, "linear-a16"};
        size_t count = 0;
        write_file(f.db, cases[i].metadata, cases[i].results);
        CHECK_OK(tern_recording_read(f.db, &r, failure));
        const json_t *got = tern_recording_trial(&r, "screen", &p, "t", "A=1");
        assert_string_equal(tern_message_text(got, "outcome"), cases[i].outcome);
        double *samples = tern_message_samples(got, "samples", &count);
        assert_true(count == (cases[i].first > 0 ? 2 : 0) && (count == 0 || samples[0] == cases[i].first));
        free(samples);
        assert_string_equal(tern_message_text(tern_recording_check(&r, "f", "linear-a16", "t", "A=1"), "outcome"),
                            "ok"); /* implied */
        tern_recording_free(&r);
    }
    fixture_close(&f);
}

static void what_cannot_be_mapped_is_said(void **state) {
    (void)state;
    static const struct {
        const char *metadata, *results, *part;
    } cases[] = {
        {"{'autotuner':'KernelTuner'}",
         "[{'configuration':{'block_size_x':32},'times':{},'invalidity':'correct','correctness':1},"
         "{'configuration':{'block_size_x':64},'times':{},'invalidity':'compile','correctness':0}]",
         "T4 results of KernelTuner: 2 of 2 name no candidate of Tern; the configuration of result 1 has no usable op, "
         "format, "
         "M, N, K, template"},
        {"{" FACTS "}", RESULT(",'A':1.5", "'invalidity':'correct'," TIMES), "result 1 has no usable A"},
        {"{" FACTS "}", RESULT("", "'invalidity':'excellent'," TIMES), "invalidity excellent"},
        {"{" FACTS "}", RESULT("", TIMES), "invalidity is missing"},
        {"{" FACTS "}", RESULT("", "'invalidity':'correct','times':{}"), "correct and has no runtimes"},
        {"{" FACTS "}", RESULT("", "'invalidity':'correct','times':{'runtimes':[1,-1]}"), "no positive number"},
        {"{" FACTS "}", RESULT("", "'invalidity':'correct','times':{'runtimes':[1,'fast']}"), "no positive number"},
        {"{" FACTS "}", RESULT("", "'invalidity':'correct','tern':{'outcome':'wrong'}," TIMES), "contradicts itself"},
        {"{" FACTS "}", RESULT("", "'invalidity':'correct','tern':{'outcome':'fine'}," TIMES), "unknown outcome: fine"},
        {"{" FACTS "}", RESULT("", "'invalidity':'correct','tern':{'stage':'rumour'}," TIMES), "\"tern\" part is damaged"},
        {"{'timeunit':'fortnights'," FACTS "}", RESULT("", "'invalidity':'correct'," TIMES),
         "unknown time unit 'fortnights'"},
        {"{}", RESULT("", "'invalidity':'correct'," TIMES), "lacks name, cc or sms"},
    };
    struct fixture f;
    fixture_open(&f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tern_recording r;
        struct tern_error err = {0};
        write_file(f.db, cases[i].metadata, cases[i].results);
        assert_int_equal(tern_recording_read(f.db, &r, &err), TERN_INTERNAL);
        if (!strstr(err.text, cases[i].part) || !strstr(err.text, f.db) || !err.hint[0])
            fail_msg("\"%s\" (%s) lacks \"%s\"", err.text, err.hint, cases[i].part);
    }
    fixture_close(&f);
}

static void newer_schemas_are_refused(void **state) {
    (void)state;
    static const char text[] = "{\"schema_version\": \"2.0.0\", \"results\": []}";
    struct fixture f;
    struct tern_recording r;
    struct tern_error err = {0};
    fixture_open(&f);
    CHECK_OK(tern_file_write(f.db, text, sizeof text - 1, failure));
    assert_int_equal(tern_recording_read(f.db, &r, &err), TERN_INTERNAL);
    assert_non_null(strstr(err.text, "schema 2.0.0"));
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_outcome_has_its_class),
        cmocka_unit_test(lines_come_back),
        cmocka_unit_test(results_of_others_that_can_be_mapped),
        cmocka_unit_test(what_cannot_be_mapped_is_said),
        cmocka_unit_test(newer_schemas_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
