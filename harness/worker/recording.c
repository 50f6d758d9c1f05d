/* Reading and writing of recorded runs. See recording.h. */
#include "worker/recording.h"

#include "core/activation.h"
#include "core/file.h"
#include "worker/message.h"
#include "worker/recording_t4.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define LEVEL           19           /* recordings are committed: size counts, time does not */
#define MAX_TEXT_BYTES  (1ull << 30) /* far above an exhaustive run; a damaged length must not become an allocation */
#define SAMPLE_DIGITS   7            /* event timers resolve half a microsecond over a whole graph: no information is lost */
#define FRAME_MAGIC     "\x28\xb5\x2f\xfd" /* RFC 8878 */
#define FRAME_MAGIC_LEN 4

static enum tern_status refuse(struct tern_error *err, const char *path, const char *why) {
    tern_error_set(err, TERN_INTERNAL, "%s: %s", path, why);
    tern_error_hint(err, "a recording is written by `tune record`; make it again, or name another file");
    return TERN_INTERNAL;
}

/* ---- keys ---- */

/* Parameters in the order of their names: JSON of other programs need not keep the declared one. */
static void sorted(const char *params, char *out, size_t size) {
    struct tern_strs words = {0};
    struct tern_str text = {0};
    tern_strs_split(&words, params, ' ');
    tern_strs_sort(&words);
    for (size_t i = 0; i < words.count; i++)
        tern_str_printf(&text, "%s ", words.items[i]);
    tern_str_copy(out, size, tern_str_text(&text));
    tern_strs_free(&words);
    tern_str_free(&text);
}

static void problem_key(char *out, size_t size, const char *what, const struct tern_recorded_problem *p, const char *name,
                        const char *params) {
    char words[272];
    sorted(params, words, sizeof words);
    tern_str_format(out, size, "%s|%s|%s|%lld|%lld|%lld|%s|%s", what, p->op, p->format, (long long)p->n, (long long)p->k,
                    (long long)p->m, name, words);
}

static void check_key(char *out, size_t size, const char *format, const char *op, const char *tmpl, const char *params) {
    char words[272];
    sorted(params, words, sizeof words);
    tern_str_format(out, size, "check|%s|%s|%s|%s", op, format, tmpl, words);
}

/* Of a line; those of old recordings and of refused builds name none. */
static const char *op_of(const json_t *line) {
    const char *op = tern_message_text(line, "op");
    return op[0] ? op : tern_activation_op(TERN_F16);
}

/* The stages of a trial on a real problem. */
static bool is_timed(const char *what) {
    return strcmp(what, "screen") == 0 || strcmp(what, "final") == 0 || strcmp(what, "sustained") == 0;
}

/* Files a line under its key; a later line of the same key takes the place of the earlier. False: no known line. */
static bool file_line(struct tern_recording *r, json_t *line) {
    char key[512];
    const char *what = tern_message_text(line, "what"), *tmpl = tern_message_text(line, "template");
    const struct tern_recorded_problem p = {.format = tern_message_text(line, "format"),
                                            .n = tern_message_int(line, "n", 0),
                                            .k = tern_message_int(line, "k", 0),
                                            .m = tern_message_int(line, "m", 0),
                                            .op = op_of(line)};
    bool problem = p.format[0] && p.n > 0 && p.k > 0 && p.m > 0;
    if (strcmp(what, "check") == 0 && p.format[0] && tmpl[0])
        check_key(key, sizeof key, p.format, p.op, tmpl, tern_message_text(line, "params"));
    else if (is_timed(what) && problem && tmpl[0])
        problem_key(key, sizeof key, what, &p, tmpl, tern_message_text(line, "params"));
    else if (strcmp(what, "baseline") == 0 && problem && tern_message_text(line, "kind")[0])
        problem_key(key, sizeof key, what, &p, tern_message_text(line, "kind"), "");
    else
        return false;
    return json_object_set(r->lines, key, line) == 0;
}

const json_t *tern_recording_trial(const struct tern_recording *r, const char *what, const struct tern_recorded_problem *p,
                                   const char *tmpl, const char *params) {
    char key[512];
    problem_key(key, sizeof key, what, p, tmpl, params);
    return json_object_get(r->lines, key);
}

const json_t *tern_recording_check(const struct tern_recording *r, const char *format, const char *op, const char *tmpl,
                                   const char *params) {
    char key[512];
    check_key(key, sizeof key, format, op, tmpl, params);
    return json_object_get(r->lines, key);
}

const json_t *tern_recording_baseline(const struct tern_recording *r, const struct tern_recorded_problem *p,
                                      const char *kind) {
    return tern_recording_trial(r, "baseline", p, kind, "");
}

/* ---- reading ---- */

/* The text of a file: decompressed if it is a zstd frame, whose checksum then has been verified. */
static enum tern_status read_text(const char *path, char **text, size_t *length, struct tern_error *err) {
    char *data = NULL;
    size_t bytes = 0;
    if (!tern_file_exists(path)) {
        tern_error_set(err, TERN_USAGE, "%s: no such recording", path);
        tern_error_hint(err, "`tune record` writes one");
        return TERN_USAGE;
    }
    enum tern_status status = tern_file_read(path, &data, &bytes, err);
    if (status != TERN_OK)
        return status;
    if (bytes < FRAME_MAGIC_LEN || memcmp(data, FRAME_MAGIC, FRAME_MAGIC_LEN) != 0) {
        *text = data;
        *length = bytes;
        return bytes > 0 ? TERN_OK : (free(data), refuse(err, path, "an empty file is no recording"));
    }
    unsigned long long claimed = ZSTD_getFrameContentSize(data, bytes);
    if (claimed == ZSTD_CONTENTSIZE_ERROR || claimed == ZSTD_CONTENTSIZE_UNKNOWN || claimed > MAX_TEXT_BYTES) {
        free(data);
        return refuse(err, path, "not a recording: a zstd file without a plausible length, or a truncated one");
    }
    char *out = tern_alloc((size_t)claimed + 1);
    size_t got = ZSTD_decompress(out, (size_t)claimed, data, bytes);
    free(data);
    if (ZSTD_isError(got) || got != claimed) {
        free(out);
        tern_error_set(err, TERN_INTERNAL, "%s: truncated or damaged: %s", path,
                       ZSTD_isError(got) ? ZSTD_getErrorName(got) : "shorter than its header says");
        tern_error_hint(err, "copy or record it again");
        return TERN_INTERNAL;
    }
    out[got] = '\0';
    *text = out;
    *length = got;
    return TERN_OK;
}

static enum tern_status read_device(struct tern_recording *r, const char *path, json_t *line, struct tern_error *err) {
    if (strcmp(tern_message_text(line, "what"), "device") != 0)
        return refuse(err, path, "not a recording: its first line describes no device");
    int64_t version = tern_message_int(line, "version", 0);
    if (version != TERN_RECORDING_VERSION) {
        tern_error_set(err, TERN_INTERNAL, "%s: recording of version %lld; this program reads %d", path, (long long)version,
                       TERN_RECORDING_VERSION);
        tern_error_hint(err, "record again with this version of tune");
        return TERN_INTERNAL;
    }
    if (!tern_message_text(line, "name")[0] || tern_message_int(line, "cc", 0) <= 0 || tern_message_int(line, "sms", 0) <= 0)
        return refuse(err, path, "its device line lacks name, cc or sms");
    r->device = json_incref(line);
    return TERN_OK;
}

/* One line, number `number` from 1; *end set by the end line, whose count must agree. */
static enum tern_status read_line(struct tern_recording *r, const char *path, const char *text, size_t length, size_t number,
                                  bool *end, struct tern_error *err) {
    char why[96];
    json_t *line = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    enum tern_status status = TERN_OK;
    if (!json_is_object(line)) {
        tern_str_format(why, sizeof why,
                        number == 1 ? "not a recording: line %zu is no JSON object"
                                    : "truncated or damaged: line %zu is no JSON object",
                        number);
        status = refuse(err, path, why);
    } else if (number == 1) {
        status = read_device(r, path, line, err);
    } else if (strcmp(tern_message_text(line, "what"), "end") == 0) {
        *end = tern_message_int(line, "lines", -1) == (int64_t)number - 1;
        if (!*end)
            status = refuse(err, path, "damaged: its end line counts other lines than there are");
    } else if (!file_line(r, line)) {
        tern_str_format(why, sizeof why, "damaged: line %zu is of no known kind or lacks a field", number);
        status = refuse(err, path, why);
    }
    json_decref(line);
    return status;
}

/* Lines of a text, the end line last. */
static enum tern_status read_lines(struct tern_recording *r, const char *path, const char *text, size_t length,
                                   struct tern_error *err) {
    size_t number = 0;
    bool end = false;
    enum tern_status status = TERN_OK;
    for (size_t at = 0; at < length && status == TERN_OK; number++) {
        const char *newline = memchr(text + at, '\n', length - at);
        size_t stop = newline ? (size_t)(newline - text) : length;
        if (end)
            status = refuse(err, path, "damaged: something stands behind its end line");
        else
            status = read_line(r, path, text + at, stop - at, number + 1, &end, err);
        at = stop + 1;
    }
    if (status == TERN_OK && !end)
        status = refuse(err, path, "truncated: its end line is missing");
    return status;
}

/* A candidate that was screened has passed its check, whether or not the tuner that wrote the results tells of checks. */
static void imply_check(struct tern_recording *r, const json_t *line) {
    const char *format = tern_message_text(line, "format"), *tmpl = tern_message_text(line, "template");
    const char *params = tern_message_text(line, "params");
    if (strcmp(tern_message_text(line, "what"), "screen") != 0 || tern_recording_check(r, format, op_of(line), tmpl, params))
        return;
    json_t *check = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "what", "check", "format", format, "op", op_of(line),
                              "template", tmpl, "params", params, "outcome", "ok");
    file_line(r, check);
    json_decref(check);
}

static enum tern_status read_t4(struct tern_recording *r, const char *path, const json_t *document, struct tern_error *err) {
    json_t *lines = NULL, *line;
    size_t i;
    enum tern_status status = tern_t4_lines(path, document, &lines, err);
    json_array_foreach(lines, i, line) {
        if (status == TERN_OK && i == 0)
            status = read_device(r, path, line, err);
        else if (status == TERN_OK && !file_line(r, line))
            status = refuse(err, path, "T4 results whose \"tern\" part is damaged");
    }
    json_array_foreach(lines, i, line) {
        if (status == TERN_OK)
            imply_check(r, line);
    }
    json_decref(lines);
    return status;
}

enum tern_status tern_recording_read(const char *path, struct tern_recording *r, struct tern_error *err) {
    char *text = NULL;
    size_t length = 0;
    memset(r, 0, sizeof *r);
    enum tern_status status = read_text(path, &text, &length, err);
    if (status != TERN_OK)
        return status;
    tern_hash_bytes(text, length, r->hash);
    r->lines = json_object();
    json_t *document = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL); /* NULL: lines, or damaged */
    status = tern_t4_is(document) ? read_t4(r, path, document, err) : read_lines(r, path, text, length, err);
    json_decref(document);
    free(text);
    if (status != TERN_OK)
        tern_recording_free(r);
    return status;
}

void tern_recording_free(struct tern_recording *r) {
    json_decref(r->device);
    json_decref(r->lines);
    memset(r, 0, sizeof *r);
}

/* ---- writing ---- */

void tern_recording_add(struct tern_recording_writer *w, json_t *line) {
    char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(SAMPLE_DIGITS));
    tern_str_append(&w->text, text ? text : "{}"); /* only a number that is not finite has no text; reading refuses {} */
    tern_str_append(&w->text, "\n");
    w->lines++;
    free(text);
    json_decref(line);
}

/* One frame with its length and a checksum. */
static size_t compress(const struct tern_str *text, char *out, size_t capacity) {
    ZSTD_CCtx *context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    size_t length = ZSTD_compress2(context, out, capacity, text->data, text->length);
    ZSTD_freeCCtx(context);
    return length;
}

enum tern_status tern_recording_write(struct tern_recording_writer *w, const char *path, struct tern_error *err) {
    tern_recording_add(w, json_pack("{s:s, s:I}", "what", "end", "lines", (json_int_t)w->lines));
    size_t capacity = ZSTD_compressBound(w->text.length);
    char *frame = tern_alloc(capacity);
    size_t length = compress(&w->text, frame, capacity);
    enum tern_status status =
        ZSTD_isError(length) ? tern_error_set(err, TERN_INTERNAL, "%s: cannot compress: %s", path, ZSTD_getErrorName(length))
                             : tern_file_write(path, frame, length, err);
    free(frame);
    return status;
}

void tern_recording_writer_free(struct tern_recording_writer *w) {
    tern_str_free(&w->text);
    w->lines = 0;
}
