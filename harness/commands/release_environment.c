/* What a release was measured with: environment.json and ceilings.csv. Same database, same bytes: no clock, no host name. */
#include "commands/release_parts.h"

#include "core/file.h"
#include "core/version.h"
#include "store/store.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *text(const char *value) {
    json_t *string = json_string(value);
    return string ? string : json_string("?"); /* not UTF-8 */
}

/* A template that won in two versions has both hashes, a blank between them. */
static void add_template(json_t *templates, const char *name, const char *hash) {
    const char *known = json_string_value(json_object_get(templates, name));
    struct tern_str both = {0};
    tern_str_printf(&both, "%s%s%s", known ? known : "", known ? " " : "", hash);
    json_object_set_new(templates, name, text(both.data));
    tern_str_free(&both);
}

static enum tern_status add_fact(void *user, const struct tern_store_fact *fact, struct tern_error *err) {
    static const struct {
        const char *section, *key;
    } lists[] = {{"nvrtc", "nvrtc"}, {"policy", "policies"}}, counts[] = {{"outcome", "outcomes"}, {"build", "builds"}};
    json_t *root = user;
    (void)err;
    for (size_t i = 0; i < 2; i++) {
        if (!strcmp(fact->section, lists[i].section))
            json_array_append_new(json_object_get(root, lists[i].key), text(fact->name));
        if (!strcmp(fact->section, counts[i].section))
            json_object_set_new(json_object_get(root, counts[i].key), fact->name, json_integer(fact->count));
    }
    if (!strcmp(fact->section, "template"))
        add_template(json_object_get(root, "templates"), fact->name, fact->text);
    if (!strcmp(fact->section, "run"))
        json_array_append_new(json_object_get(root, "runs"),
                              json_pack("{s:o, s:o, s:I, s:I, s:I}", "command_line", text(fact->name), "tern_version",
                                        text(fact->text), "exit_code", (json_int_t)fact->exit_code, "seconds",
                                        (json_int_t)fact->seconds, "seed", (json_int_t)fact->seed));
    return TERN_OK;
}

static json_t *device_json(const struct tern_store_device *d) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "gpu", text(d->gpu), "name", text(d->name), "uuid",
                     text(d->uuid), "arch", text(d->arch), "driver", text(d->driver), "sms", (json_int_t)d->sms, "l2_bytes",
                     (json_int_t)d->l2_bytes, "memory_bytes", (json_int_t)d->memory_bytes);
}

static enum tern_status write_environment(struct tern_store *store, const char *dir, const char *gpu, const char *shapes,
                                          const char *commit, struct tern_error *err) {
    struct tern_store_device device;
    struct tern_str path = {0};
    bool found = false;
    json_t *root = json_pack("{s:o, s:o, s:s, s:[], s:[], s:{}, s:{}, s:{}, s:[]}", "commit", text(commit), "shapes",
                             shapes ? text(shapes) : json_null(), "released_by", TERN_VERSION, "nvrtc", "policies",
                             "outcomes", "builds", "templates", "runs");
    enum tern_status status = tern_store_winner_device(store, gpu, &device, &found, err);
    if (!status && found)
        json_object_set_new(root, "device", device_json(&device));
    if (!status)
        status = tern_store_facts_each(store, gpu, add_fact, root, err);
    char *dump = json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS);
    tern_str_printf(&path, "%s\n", dump ? dump : "");
    struct tern_str file = {0};
    tern_str_printf(&file, "%s/environment.json", dir);
    if (!status)
        status = tern_file_write(file.data, path.data, path.length, err);
    free(dump);
    tern_str_free(&path);
    tern_str_free(&file);
    json_decref(root);
    return status;
}

/* One line a ceiling, in the order of the calibration; without any the heading alone. */
static enum tern_status write_ceilings(struct tern_store *store, const char *dir, const char *gpu, struct tern_error *err) {
    struct tern_ceilings *c = tern_alloc_zero(1, sizeof *c);
    struct tern_str out = {0}, path = {0};
    enum tern_status status = tern_store_ceilings_of_gpu(store, gpu, c, err);
    tern_str_append(&out, "kind,argument,value,unit,sm_mhz\n");
    for (size_t i = 0; i < c->count && !status; i++)
        tern_str_printf(&out, "%s,%.12g,%.6g,%s,%d\n", c->rows[i].kind, c->rows[i].argument, c->rows[i].value,
                        c->rows[i].unit, c->rows[i].sm_mhz);
    tern_str_printf(&path, "%s/ceilings.csv", dir);
    if (!status)
        status = tern_file_write(path.data, out.data, out.length, err);
    tern_str_free(&out);
    tern_str_free(&path);
    free(c);
    return status;
}

enum tern_status tern_release_environment(const char *db, const char *dir, const char *gpu, const char *shapes,
                                          const char *commit, struct tern_error *err) {
    struct tern_store *store = NULL;
    enum tern_status status = tern_store_open(db, TERN_STORE_READ, &store, err);
    if (!status)
        status = write_environment(store, dir, gpu, shapes, commit, err);
    if (!status)
        status = write_ceilings(store, dir, gpu, err);
    tern_store_close(store);
    return status;
}
