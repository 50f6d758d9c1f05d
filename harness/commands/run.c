/* `tune run`: tunes every linear layer of a model for one GPU. Owns the options and the order of the steps. */
#include "commands/commands.h"
#include "commands/run_internal.h"

#include "core/clock.h"
#include "core/log.h"
#include "core/options.h"
#include "core/str.h"
#include "output/table.h"
#include "worker/interrupt.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OPTION_ROWS(o)                                                                                                        \
    {                                                                                                                         \
        {"gpu", 'g', TERN_OPTION_TEXT, &(o)->gpu, "NAME", "GPU to tune for: a file or a name in configs/gpus", 0, 0},         \
            {"shapes", 's', TERN_OPTION_TEXT, &(o)->shapes, "NAME", "model: a file or a name in configs/shapes", 0, 0},       \
            {"weights",                                                                                                       \
             'w',                                                                                                             \
             TERN_OPTION_TEXT,                                                                                                \
             &(o)->weights,                                                                                                   \
             "MODEL_DIR",                                                                                                     \
             "tune on the weights of this checkpoint (default: random ones); gives the shapes as well",                       \
             0,                                                                                                               \
             0},                                                                                                              \
            {"formats", 'f', TERN_OPTION_TEXT, &(o)->formats, "LIST", "weight formats (default: those of the shapes file)",   \
             0,         0},                                                                                                   \
            {"activations",                                                                                                   \
             'a',                                                                                                             \
             TERN_OPTION_TEXT,                                                                                                \
             &(o)->activations,                                                                                               \
             "TYPE",                                                                                                          \
             "f16 (default) or bf16: type of x and y; int8, e4m3: x rounded",                                                 \
             0,                                                                                                               \
             0},                                                                                                              \
            {"layers", 'l', TERN_OPTION_TEXT, &(o)->layers, "LIST", "only these layers", 0, 0},                               \
            {"m", 'm', TERN_OPTION_TEXT, &(o)->m, "LIST", "only these batch sizes (any M >= 1)", 0, 0},                       \
            {"between",                                                                                                       \
             0,                                                                                                               \
             TERN_OPTION_TEXT,                                                                                                \
             &(o)->between,                                                                                                   \
             "RATIO",                                                                                                         \
             "tune sizes between as well, where an answer may take RATIO times as long as need be, e.g. 1.1",                 \
             0,                                                                                                               \
             0},                                                                                                              \
            {"elsewhere",                                                                                                     \
             0,                                                                                                               \
             TERN_OPTION_FLAG,                                                                                                \
             &(o)->elsewhere,                                                                                                 \
             NULL,                                                                                                            \
             "time what won, or nearly, at the other layers too: for the answers of an export to layers nobody tuned",        \
             0,                                                                                                               \
             0},                                                                                                              \
            {"templates", 't', TERN_OPTION_TEXT, &(o)->templates, "LIST", "only these kernel templates", 0, 0},               \
            {"budget",                                                                                                        \
             'b',                                                                                                             \
             TERN_OPTION_SECONDS,                                                                                             \
             &(o)->budget_s,                                                                                                  \
             "TIME",                                                                                                          \
             "time for trials (default 5m on a GPU, 3m for planning)",                                                        \
             0,                                                                                                               \
             0},                                                                                                              \
            {"timeout",                                                                                                       \
             0,                                                                                                               \
             TERN_OPTION_SECONDS,                                                                                             \
             &(o)->timeout_s,                                                                                                 \
             "TIME",                                                                                                          \
             "longest that a candidate may compile or hold the GPU (default 2m and 30s)",                                     \
             0,                                                                                                               \
             0},                                                                                                              \
            {"strategy", 0, TERN_OPTION_TEXT, &(o)->strategy, "NAME", "search: race (default), model, random or exhaustive",  \
             0,          0},                                                                                                  \
            {"launch",                                                                                                        \
             0,                                                                                                               \
             TERN_OPTION_TEXT,                                                                                                \
             &(o)->launch,                                                                                                    \
             "NAME",                                                                                                          \
             "plain (default), or dependent: kernels start while the one ahead ends, where they can",                         \
             0,                                                                                                               \
             0},                                                                                                              \
            {"db", 0, TERN_OPTION_TEXT, &(o)->db, "FILE", "database (default results/tern.db)", 0, 0},                        \
            {"cache", 0, TERN_OPTION_TEXT, &(o)->cache, "DIR", "compiled kernels (default results/cache)", 0, 0},             \
            {"jobs", 'j', TERN_OPTION_INT, &(o)->jobs, "N", "compile workers (default: processors)", 1, 256},                 \
            {"device",                                                                                                        \
             'd',                                                                                                             \
             TERN_OPTION_TEXT,                                                                                                \
             &(o)->device,                                                                                                    \
             "LIST",                                                                                                          \
             "CUDA devices that share the work: 0 or 0,1 or all (default 0)",                                                 \
             0,                                                                                                               \
             0},                                                                                                              \
            {"copies", 0, TERN_OPTION_INT, &(o)->copies, "N", "packed copies of a layer that an engine may keep (default 1)", \
             1,        2},                                                                                                    \
            {"seed", 0, TERN_OPTION_INT, &(o)->seed, "N", "seed of weights and activations (default 1)", 0, INT64_MAX},       \
            {"short-groups",                                                                                                  \
             0,                                                                                                               \
             TERN_OPTION_FLAG,                                                                                                \
             &(o)->short_groups,                                                                                              \
             NULL,                                                                                                            \
             "allow a last group of fewer weights where K is no multiple",                                                    \
             0,                                                                                                               \
             0},                                                                                                              \
            {"require-gpu", 0, TERN_OPTION_FLAG, &(o)->require_gpu, NULL, "fail with exit 3 instead of planning", 0, 0},      \
            {"json", 0, TERN_OPTION_FLAG, &(o)->json, NULL, "print the result as JSON", 0, 0},                                \
            {"replay",                                                                                                        \
             0,                                                                                                               \
             TERN_OPTION_TEXT,                                                                                                \
             &(o)->replay,                                                                                                    \
             "FILE",                                                                                                          \
             "answers from a recording or T4 results instead of a GPU; rows go to the database as a replay, never mixed "     \
             "with "                                                                                                          \
             "measurements",                                                                                                  \
             0,                                                                                                               \
             0},                                                                                                              \
            {"fault", 0, TERN_OPTION_TEXT, &(o)->fault, "SPEC", "faults on purpose, with --replay (docs/replay.md)", 0, 0},   \
    }

#define HIDDEN_OPTIONS 1 /* the last of them: for tests, not for people */

double tern_run_timeout_s(const struct run *run, double default_s) {
    return run->options.timeout_s > 0 ? run->options.timeout_s : default_s;
}

static void set_defaults(struct run_options *o) {
    memset(o, 0, sizeof *o);
    o->db = "results/tern.db";
    o->cache = "results/cache";
    o->activations = tern_activation_name(TERN_F16);
    o->strategy = tern_strategy_name(TERN_STRATEGY_RACE);
    o->launch = "plain";
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    o->jobs = cores > 0 ? cores : 1;
    o->copies = 1;
    o->seed = 1;
    o->device = "0";
}

static void help(void) {
    struct run_options o;
    set_defaults(&o);
    const struct tern_option rows[] = OPTION_ROWS(&o);
    puts("usage: tune [run] --gpu NAME --shapes NAME [options]\n"
         "       tune [run] --gpu NAME --weights MODEL_DIR [options]\n\n"
         "Finds, verifies and times the fastest kernel of every linear layer at every\n"
         "batch size. With no matching GPU it plans: compiles, checks on the emulator and\n"
         "ranks by the cost model; nothing is timed then. The same command goes on after\n"
         "an interruption. Several GPUs of one kind share the work (--device).\n");
    tern_options_help(rows, sizeof rows / sizeof rows[0] - HIDDEN_OPTIONS);
    puts("\nexample: tune --gpu h200 --shapes qwen7b --formats ternary-g128 --m 1,16\n\n"
         "exit: 0 all done, 1 a problem has no right candidate, 2 usage, 3 GPU or tool\n"
         "missing, 4 file or database, 130 interrupted");
}

static void keep_command_line(int argc, char **argv, struct run_options *o) {
    struct tern_str line = {0};
    tern_str_append(&line, "tune run");
    for (int i = 1; i < argc; i++)
        tern_str_printf(&line, " %s", argv[i]);
    tern_str_copy(o->command_line, sizeof o->command_line, tern_str_text(&line));
    tern_str_free(&line);
}

static enum tern_status parse(int argc, char **argv, struct run_options *o, struct tern_error *err) {
    set_defaults(o);
    keep_command_line(argc, argv, o);
    const struct tern_option rows[] = OPTION_ROWS(o);
    size_t positional = 0;
    enum tern_status status = tern_options_parse(rows, sizeof rows / sizeof rows[0], argc, argv, NULL, 0, &positional, err);
    if (status != TERN_OK)
        return status;
    if (!o->gpu || (!o->shapes && !o->weights)) {
        tern_error_set(err, TERN_USAGE, "run needs --gpu and --shapes");
        tern_error_hint(err, "for example: tune --gpu h200 --shapes qwen7b; `tune help run` lists the options");
        return TERN_USAGE;
    }
    if (tern_strategy_find(o->strategy) == TERN_STRATEGY_COUNT) {
        tern_error_set(err, TERN_USAGE, "--strategy: there is no search called '%s'", o->strategy);
        tern_error_hint(err, "there are race, model, random and exhaustive");
        return TERN_USAGE;
    }
    if (o->between &&
        !(tern_str_parse_double(o->between, &o->between_ratio) && o->between_ratio > 1.0 && o->between_ratio <= 10.0))
        return tern_error_set(err, TERN_USAGE, "--between takes a ratio above 1, up to 10, such as 1.1, not '%s'",
                              o->between);
    if (strcmp(o->launch, "plain") != 0 && strcmp(o->launch, "dependent") != 0)
        return tern_error_set(err, TERN_USAGE, "--launch: plain or dependent, not '%s'", o->launch);
    return tern_run_replay_options(o, err);
}

static void banner(const struct run *run) {
    if (run->options.replay)
        tern_log_note("replay of %s: times are those recorded on %s; nothing is measured or compiled", run->options.replay,
                      run->gpu.title);
    if (run->measured)
        return;
    tern_log_warn(NULL, "nothing is measured: %s", run->why_planned);
    tern_log_note("  rows are planned: compiled, checked on the emulator, ranked by the cost model for %s", run->gpu.title);
    if (run->options.between)
        tern_log_note("  --between adds no sizes: they are chosen by measured times");
    if (run->options.elsewhere)
        tern_log_note("  --elsewhere tries nothing: it is chosen by measured times");
    tern_log_note("  to finish on the GPU machine: tune bundle -o tern-bundle.tar, unpack it there, then");
    tern_log_note("  ./tune --gpu %s %s %s%s%s%s", run->options.gpu, run->options.weights ? "--weights" : "--shapes",
                  run->options.weights ? run->options.weights : run->options.shapes, run->type ? " --activations " : "",
                  run->type ? tern_activation_name(run->type) : "", run->dependent ? " --launch dependent" : "");
}

/* 1 when a selected problem ended without a winner. */
static enum tern_status judge(const struct run *run, struct tern_error *err) {
    size_t missing = 0, wanted = 0;
    const struct run_problem *first = NULL;
    for (size_t i = 0; i < run->problem_count; i++) {
        wanted += !run->problems[i].left_out;
        if (!run->problems[i].done && !run->problems[i].left_out) {
            missing++;
            first = first ? first : &run->problems[i];
        }
    }
    if (missing == 0)
        return TERN_OK;
    if (tern_interrupted())
        return tern_error_set(err, TERN_FAILED, "interrupted: %zu of %zu problems are left; the same command goes on",
                              missing, wanted);
    tern_error_set(err, TERN_FAILED, "%zu of %zu problems have no right candidate; first: %s %s M=%lld", missing, wanted,
                   run->shapes.formats[first->format].name, run->shapes.layers[first->layer].name,
                   (long long)run->shapes.m[first->m]);
    tern_error_hint(err, "`tune show` lists outcomes; a longer --budget tries more candidates");
    return TERN_FAILED;
}

/* How much of the devices' time they did not wait for the host, and what it went into. */
static void tell_gpu_time(const struct run *run) {
    const double *s = run->seconds, percent = 100 / run->gpu_s;
    double device_s = s[TERN_GPU_LAUNCHES] + s[TERN_GPU_RESTS] + s[TERN_GPU_VERIFICATION] + s[TERN_GPU_PREPARATION];
    tern_log_note(
        "%.0f s of GPU time, %.1f %% of it not waiting for the host: %.1f %% in measured and warm-up launches, %.1f %% in "
        "rests between cool ones, %.1f %% in verification, %.1f %% in preparing layers",
        run->gpu_s, percent * device_s, percent * s[TERN_GPU_LAUNCHES], percent * s[TERN_GPU_RESTS],
        percent * s[TERN_GPU_VERIFICATION], percent * s[TERN_GPU_PREPARATION]);
    tern_log_debug("it waited %.2f s in trials, %.2f s in finals, %.2f s in other requests, %.2f s for requests",
                   s[TERN_GPU_TRIALS], s[TERN_GPU_FINALS], s[TERN_GPU_OTHERS], s[TERN_GPU_REQUESTS]);
}

static void print(const struct run *run) {
    struct tern_results results = {0};
    tern_run_results(run, &results);
    if (run->options.json)
        tern_output_run_json(stdout, run->gpu.name, !run->measured, run->options.db, &results, run->outcomes);
    else
        tern_output_table(stdout, &results);
    tern_results_free(&results);
    int64_t tried = 0;
    struct tern_str line = {0};
    for (int i = 0; i < TERN_OUTCOME_COUNT; i++)
        if (run->outcomes[i] > 0) {
            tern_str_printf(&line, ", %lld %s", (long long)run->outcomes[i], tern_outcome_name((enum tern_outcome)i));
            tried += run->outcomes[i];
        }
    tern_log_note("%lld trials in %.0f s%s; results in %s", (long long)tried,
                  (double)(tern_clock_now_ns() - run->start_ns) * 1e-9, tern_str_text(&line), run->options.db);
    tern_str_free(&line);
    if (2 * run->finals_unsettled > run->finals_judged)
        tern_log_warn("see that nothing else uses the GPU or its host, and run again",
                      "this machine is noisy: %lld of %lld finals did not settle within 0.5 %%",
                      (long long)run->finals_unsettled, (long long)run->finals_judged);
    if (run->seconds[TERN_GPU_LAUNCHES] > 0)
        tell_gpu_time(run);
    if (run->options.replay && run->outcomes[TERN_OUTCOME_INVALID] > 0)
        tern_log_warn("record again if templates have changed since", "%lld of %lld answers are not in the recording",
                      (long long)run->outcomes[TERN_OUTCOME_INVALID], (long long)tried);
}

/* Sizes between those asked for come last, then kernels at layers and sizes where they did not take part: they are chosen by what won. */
static enum tern_status measure(struct run *run, struct tern_error *err) {
    size_t added = 0;
    enum tern_status status = tern_run_measure(run, err);
    const bool between = run->options.between_ratio > 0;
    if (status == TERN_OK && between && !tern_interrupted())
        status = tern_run_between(run, &added, err);
    if (status == TERN_OK && added > 0)
        status = tern_run_measure(run, err);
    return status == TERN_OK && (between || run->options.elsewhere) && !tern_interrupted() ? tern_run_table(run, err)
                                                                                           : status;
}

static enum tern_status run_command(int argc, char **argv, struct tern_error *err) {
    struct run run;
    memset(&run, 0, sizeof run);
    run.start_ns = tern_clock_now_ns();
    enum tern_status status = parse(argc, argv, &run.options, err);
    if (status != TERN_OK)
        return status;
    run.strategy = tern_strategy_find(run.options.strategy);
    tern_interrupt_install();
    status = tern_run_setup(&run, err);
    if (status != TERN_OK)
        goto out;
    banner(&run);
    status = tern_run_candidates(&run, err);
    if (status == TERN_OK)
        status = run.measured ? measure(&run, err) : tern_run_plan(&run, err);
    tern_log_progress("%s", "");
    if (status == TERN_OK)
        status = tern_run_promote(&run, err);
    if (status == TERN_OK) {
        print(&run);
        status = judge(&run, err);
    }
    struct tern_error ignored;
    tern_store_run_end(run.store, run.run_id, tern_interrupted() ? TERN_EXIT_INTERRUPTED : (int)status, &ignored);
out:
    tern_run_release(&run);
    return status;
}

const struct tern_command tern_command_run = {.name = "run",
                                              .summary = "tune every layer of a model for a GPU (the default command)",
                                              .run = run_command,
                                              .help = help};
