/* `tune doctor`: what this machine has, what it lacks, and the remedy for each. Changes nothing.
 * The driver is looked for in a child process (device/detect.h): this process never loads it. */
#include "commands/commands.h"

#include "commands/dispatch.h"
#include "core/file.h"
#include "core/options.h"
#include "core/str.h"
#include "core/version.h"
#include "device/compiler.h"
#include "device/detect.h"
#include "store/store.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DETECT_SECONDS 30.0
#define MAX_CHECKS     48

enum need {
    OPTIONAL, /* something is less comfortable without it */
    PLAN,     /* needed to compile and plan: exit 3 without it */
    MEASURE   /* needed to measure: its absence is reported only */
};

struct check {
    char name[24];
    enum need need;
    bool ok;
    char detail[512], remedy[512];
};

struct checks {
    struct check items[MAX_CHECKS];
    size_t count;
};

struct doctor_options {
    const char *db, *cache;
    bool json;
};

#define DOCTOR_OPTION_COUNT 3

static void list_options(struct doctor_options *o, struct tern_option list[DOCTOR_OPTION_COUNT]) {
    const struct tern_option options[DOCTOR_OPTION_COUNT] = {
        {"db", 0, TERN_OPTION_TEXT, &o->db, "FILE", "database to look at (default " TERN_DEFAULT_DB ")", 0, 0},
        {"cache", 0, TERN_OPTION_TEXT, &o->cache, "DIR", "folder of compiled kernels (default results/cache)", 0, 0},
        {"json", 0, TERN_OPTION_FLAG, &o->json, NULL, "print JSON", 0, 0},
    };
    memcpy(list, options, sizeof options);
}

static void doctor_help(void) {
    struct doctor_options o = {0};
    struct tern_option options[DOCTOR_OPTION_COUNT];
    list_options(&o, options);
    printf("usage: tune doctor [options]\n\nShows what this machine has, what it lacks, and the remedy.\n"
           "Exit 0: everything that planning needs is there. Exit 3: something it needs is\n"
           "missing. A missing GPU is reported, but is no error.\n\n");
    tern_options_help(options, DOCTOR_OPTION_COUNT);
    printf("\nexample: tune doctor --json\n");
}

/* The new entry, to be filled; the last one is overwritten when the list is full. */
static struct check *add(struct checks *list, const char *name, enum need need, bool ok) {
    static const size_t last = MAX_CHECKS - 1;
    struct check *check = &list->items[list->count < last ? list->count++ : last];
    *check = (struct check){.need = need, .ok = ok};
    tern_str_copy(check->name, sizeof check->name, name);
    return check;
}

static void add_found(struct checks *list, const char *name, enum need need, const char *detail) {
    tern_str_copy(add(list, name, need, true)->detail, sizeof list->items->detail, detail);
}

static void add_missing(struct checks *list, const char *name, enum need need, const char *detail, const char *remedy) {
    struct check *check = add(list, name, need, false);
    tern_str_copy(check->detail, sizeof check->detail, detail);
    tern_str_copy(check->remedy, sizeof check->remedy, remedy);
}

static void add_detected(struct checks *list, const char *name, enum need need, const struct tern_detected *part) {
    if (part->found)
        add_found(list, name, need, part->detail);
    else
        add_missing(list, name, need, part->detail, part->hint);
}

/* Driver, GPUs and the libraries that measuring needs. */
static void check_gpus(struct checks *list) {
    struct tern_detection detection;
    struct tern_error err = {0};
    if (tern_cuda_detect(DETECT_SECONDS, &detection, &err) != TERN_OK) {
        add_missing(list, "driver", MEASURE, err.text, err.hint);
        return;
    }
    add_detected(list, "driver", MEASURE, &detection.driver);
    for (int i = 0; i < detection.gpu_count; i++)
        add_detected(list, "gpu", MEASURE, &detection.gpus[i]);
    if (detection.gpu_count == 0)
        add_missing(list, "gpu", MEASURE, "no GPU: kernels can be planned here, not measured",
                    "run on a machine with an NVIDIA GPU; `tune bundle` takes the plan and the compiled kernels there");
    add_detected(list, "cublaslt", MEASURE, &detection.cublas);
    add_detected(list, "nvml", OPTIONAL, &detection.nvml);
}

static void check_home(struct checks *list) {
    char path[PATH_MAX];
    struct tern_error err = {0};
    if (tern_file_home(path, sizeof path, &err) == TERN_OK)
        add_found(list, "home", PLAN, path);
    else
        add_missing(list, "home", PLAN, err.text, err.hint);
}

/* What compiling needs: NVRTC and the headers. */
static void check_compiler(struct checks *list) {
    char path[PATH_MAX];
    int major, minor;
    struct tern_error err = {0};
    if (tern_nvrtc_version(&major, &minor, path, sizeof path, &err) == TERN_OK)
        tern_str_format(add(list, "nvrtc", PLAN, true)->detail, sizeof list->items->detail, "%d.%d, %.400s", major, minor,
                        path);
    else
        add_missing(list, "nvrtc", PLAN, err.text, err.hint);
    if (tern_cuda_include_dir(path, sizeof path, &err) == TERN_OK)
        tern_str_format(add(list, "cuda_fp16.h", PLAN, true)->detail, sizeof list->items->detail, "in %.400s", path);
    else
        add_missing(list, "cuda_fp16.h", PLAN, err.text, err.hint);
}

/* Programs that other commands start. */
static void check_programs(struct checks *list) {
    char path[PATH_MAX];
    if (tern_file_find_program("g++", path, sizeof path) || tern_file_find_program("clang++", path, sizeof path) ||
        tern_file_find_program("c++", path, sizeof path))
        add_found(list, "c++", OPTIONAL, path);
    else
        add_missing(list, "c++", OPTIONAL, "no C++ compiler: the emulator cannot check kernels", "apt install g++");
    if (tern_file_find_program("gnuplot", path, sizeof path))
        add_found(list, "gnuplot", OPTIONAL, path);
    else
        add_missing(list, "gnuplot", OPTIONAL, "no gnuplot: reports have data, but no plots", "apt install gnuplot-nox");
}

/* Opens it read-only: a database that is not ours or of a newer schema is found before a long run. */
static void check_database(struct checks *list, const struct doctor_options *o) {
    struct tern_store *store = NULL;
    struct tern_error err = {0};
    add_found(list, "sqlite", PLAN, tern_store_sqlite_version());
    struct check *check = add(list, "database", PLAN, true);
    if (!tern_file_exists(o->db)) {
        tern_str_format(check->detail, sizeof check->detail, "%s: not there yet, the first run makes it", o->db);
    } else if (tern_store_open(o->db, TERN_STORE_READ, &store, &err) == TERN_OK) {
        tern_str_format(check->detail, sizeof check->detail, "%s: schema %d", o->db, TERN_STORE_SCHEMA_VERSION);
        tern_store_close(store);
    } else {
        check->ok = false;
        tern_str_copy(check->detail, sizeof check->detail, err.text);
        tern_str_copy(check->remedy, sizeof check->remedy, err.hint);
    }
}

/* Looks only: a folder that is not there yet is made by the first run. */
static void check_cache(struct checks *list, const struct doctor_options *o) {
    struct check *check = add(list, "cache", PLAN, true);
    if (!tern_file_exists(o->cache)) {
        tern_str_format(check->detail, sizeof check->detail, "%s: not there yet, the first run makes it", o->cache);
    } else if (tern_file_is_dir(o->cache) && access(o->cache, W_OK | X_OK) == 0) {
        tern_str_format(check->detail, sizeof check->detail, "%s: writable", o->cache);
    } else {
        check->ok = false;
        tern_str_format(check->detail, sizeof check->detail, "%s: not a folder that can be written", o->cache);
        tern_str_copy(check->remedy, sizeof check->remedy, "change its owner or mode, or name another folder with --cache");
    }
}

/* True if nothing of that need is missing. */
static bool ready(const struct checks *list, enum need need) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].need == need && !list->items[i].ok)
            return false;
    return list->count > 0;
}

/* One line a check; the remedy below what is missing. */
static void print_text(const struct checks *list) {
    printf("tune %s\n", TERN_VERSION);
    for (size_t i = 0; i < list->count; i++) {
        const struct check *check = &list->items[i];
        printf("%-8s %-12s %s\n", check->ok ? "ok" : "missing", check->name, check->detail);
        if (!check->ok && *check->remedy)
            printf("%-21s remedy: %s\n", "", check->remedy);
    }
    bool plan = ready(list, PLAN), measure = plan && ready(list, MEASURE);
    printf("\nplan: %s   measure: %s\n", plan ? "ready" : "not ready", measure ? "ready" : "not ready");
}

/* {version, plan, measure, checks: [{name, status: ok|missing, detail, remedy}]}. */
static enum tern_status print_json(const struct checks *list, struct tern_error *err) {
    json_t *items = json_array();
    for (size_t i = 0; i < list->count; i++) {
        const struct check *check = &list->items[i];
        json_t *item = json_pack("{s:s, s:s, s:s, s:s}", "name", check->name, "status", check->ok ? "ok" : "missing",
                                 "detail", check->detail, "remedy", check->remedy);
        json_array_append_new(items, item);
    }
    bool plan = ready(list, PLAN), measure = plan && ready(list, MEASURE);
    json_t *root =
        json_pack("{s:s, s:b, s:b, s:o}", "version", TERN_VERSION, "plan", plan, "measure", measure, "checks", items);
    int failed = !root || json_dumpf(root, stdout, JSON_INDENT(2)) != 0;
    json_decref(root);
    printf("\n");
    return failed ? tern_error_set(err, TERN_INTERNAL, "the findings cannot be printed as JSON") : TERN_OK;
}

static enum tern_status doctor_run(int argc, char **argv, struct tern_error *err) {
    struct doctor_options o = {.db = TERN_DEFAULT_DB, .cache = "results/cache"};
    struct tern_option options[DOCTOR_OPTION_COUNT];
    struct checks list = {0};
    const char *unused[1];
    size_t count = 0;
    list_options(&o, options);
    enum tern_status status = tern_options_parse(options, DOCTOR_OPTION_COUNT, argc, argv, unused, 0, &count, err);
    if (status != TERN_OK)
        return status;
    check_home(&list);
    check_compiler(&list);
    check_gpus(&list);
    check_programs(&list);
    check_database(&list, &o);
    check_cache(&list, &o);
    if (o.json)
        status = print_json(&list, err);
    else
        print_text(&list);
    if (status == TERN_OK && !ready(&list, PLAN)) {
        status = tern_error_set(err, TERN_MISSING, "something that planning needs is missing");
        tern_error_hint(err, "the lines marked `missing` say what, and the remedy");
    }
    return status;
}

const struct tern_command tern_command_doctor = {
    .name = "doctor",
    .summary = "what this machine has, what it lacks, and the remedy",
    .run = doctor_run,
    .help = doctor_help,
};
