/* A kernel on the CPU emulator, for tests of the fixed device code and of templates. */
#ifndef TERN_TESTS_KERNEL_FIXTURE_H
#define TERN_TESTS_KERNEL_FIXTURE_H

#include "core/file.h"
#include "device/backend.h"
#include "device/compiler.h"
#include "verify/guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The emulator passes struct tern_args; entries that take another struct get a wrapper
 * that finds it in args.workspace. */
struct emulated {
    void *context, *module, *function;
    char path[PATH_MAX];
};

static inline char *read_kernel(const char *file) {
    char path[PATH_MAX], *text = NULL;
    size_t length = 0;
    struct tern_error err = {0};
    assert_int_equal(tern_file_home_path(file, path, sizeof path, &err), TERN_OK);
    assert_int_equal(tern_file_read(path, &text, &length, &err), TERN_OK);
    return text;
}

/* Compiles a kernel's whole source and loads `entry`; `file` is what messages call it. */
static inline void emulate_source(struct emulated *e, const char *source, const char *file, const char *entry) {
    struct tern_str log = {0};
    struct tern_error err = {0};
    int ok = 0;
    tern_str_format(e->path, sizeof e->path, "/tmp/tern-test-%ld-%s.so", (long)getpid(), entry);
    assert_int_equal(tern_emu_compile(source, file, e->path, 0, &log, &ok, &err), TERN_OK);
    if (!ok)
        fail_msg("%s: %s", file, tern_str_text(&log));
    assert_int_equal(tern_backend_emu.open(0, &e->context, &err), TERN_OK);
    if (tern_backend_emu.module_load(e->context, e->path, strlen(e->path), entry, 0, &e->module, &e->function, &err) !=
        TERN_OK)
        fail_msg("%s", err.text);
    tern_str_free(&log);
}

static inline void emulate(struct emulated *e, const char *file, const char *macros, const char *wrapper,
                           const char *entry) {
    static const char include[] = "#include \"kernels.h\"";
    struct tern_str source = {0};
    char *text = read_kernel(file);
    const char *at = text ? strstr(text, include) : NULL;
    assert_non_null(at);
    tern_str_printf(&source, "%s\n%.*s#include \"../kernels/kernels.h\"\n%s\n", macros, (int)(at - text), text,
                    at + sizeof include - 1);
    if (wrapper)
        tern_str_append(&source, wrapper);
    emulate_source(e, tern_str_text(&source), file, entry);
    free(text);
    tern_str_free(&source);
}

static inline void end(struct emulated *e) {
    char source[PATH_MAX + 8];
    tern_backend_emu.module_unload(e->context, e->module);
    tern_backend_emu.close(e->context);
    tern_str_format(source, sizeof source, "%s.cu", e->path);
    unlink(source);
    unlink(e->path);
}

/* A buffer of the emulator with a copy of `from`, or full of poison. */
static inline void *put(struct emulated *e, const void *from, size_t bytes) {
    void *to = NULL;
    struct tern_error err = {0};
    assert_int_equal(tern_backend_emu.alloc(e->context, bytes, &to, &err), TERN_OK);
    if (from)
        assert_int_equal(tern_backend_emu.upload(e->context, to, from, bytes, &err), TERN_OK);
    else
        assert_int_equal(tern_backend_emu.fill(e->context, to, TERN_POISON_WORD, bytes, &err), TERN_OK);
    return to;
}

static inline void get(struct emulated *e, void *to, const void *from, size_t bytes) {
    struct tern_error err = {0};
    assert_int_equal(tern_backend_emu.download(e->context, to, from, bytes, &err), TERN_OK);
}

static inline void launch(struct emulated *e, int64_t grid_x, int64_t grid_y, const struct tern_args *args) {
    struct tern_launch l = {.function = e->function, .grid = {grid_x, grid_y, 1}, .block = 256, .cluster = 1, .args = *args};
    struct tern_error err = {0};
    if (tern_backend_emu.launch(e->context, &l, &err) != TERN_OK)
        fail_msg("%s", err.text);
}

#endif
