/* Shared by the emulator tests: compiles tests/emulator/NAME.cu once, runs entries of it on small buffers. */
#ifndef TERN_TEST_EMULATOR_FIXTURE_H
#define TERN_TEST_EMULATOR_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/file.h"
#include "core/str.h"
#include "device/compiler.h"
#include "device/emu.h"

struct emulator_fixture {
    char dir[64], object[128];
    void *context;
};

/* Compiles tests/emulator/NAME.cu into a folder of its own. */
static inline void emulator_fixture_open(struct emulator_fixture *f, const char *name) {
    struct tern_error err = {0};
    struct tern_str log = {0}, source = {0};
    char path[256], *text;
    size_t length;
    int ok;
    snprintf(f->dir, sizeof f->dir, "/tmp/tern-emulator-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(path, sizeof path, "tests/emulator/%s.cu", name);
    assert_int_equal(tern_file_read(path, &text, &length, &err), TERN_OK);
    tern_str_printf(&source, "#line 1 \"%s.cu\"\n%s", name, text);
    snprintf(f->object, sizeof f->object, "%s/%s.so", f->dir, name);
    if (tern_emu_compile(tern_str_text(&source), name, f->object, 0, &log, &ok, &err) != TERN_OK || !ok)
        fail_msg("compile of %s: %s %s", name, err.text, tern_str_text(&log));
    free(text);
    tern_str_free(&log);
    tern_str_free(&source);
    assert_int_equal(tern_backend_emu.open(0, &f->context, &err), TERN_OK);
}

static inline void emulator_fixture_close(struct emulator_fixture *f) {
    char source[160];
    tern_backend_emu.close(f->context);
    snprintf(source, sizeof source, "%s.cu", f->object);
    unlink(source);
    unlink(f->object);
    rmdir(f->dir);
}

/* A launch: sizes in, y out. */
struct emulator_case {
    const char *entry;
    int64_t blocks, block, cluster, smem;
    const void *x, *codes;
    size_t x_bytes, codes_bytes, y_bytes;
    int64_t m, k;
    enum tern_emu_order order;
    uint32_t y_fill;
    bool late; /* dependent: x and y_fill all over y arrive at the wait */
};

static inline void *emulator_upload(struct emulator_fixture *f, const void *data, size_t bytes) {
    void *device;
    struct tern_error err = {0};
    assert_int_equal(tern_backend_emu.alloc(f->context, bytes != 0 ? bytes : 4, &device, &err), TERN_OK);
    if (bytes != 0 && data != NULL)
        assert_int_equal(tern_backend_emu.upload(f->context, device, data, bytes, &err), TERN_OK);
    return device;
}

/* Launches; y (y_bytes) receives the output when the launch went well. The fault's text is in err. */
static inline enum tern_status emulator_launch(struct emulator_fixture *f, const struct emulator_case *c, void *y,
                                               struct tern_error *err) {
    const struct tern_backend *b = &tern_backend_emu;
    void *module, *function, *dx = emulator_upload(f, c->x, c->x_bytes), *dc = emulator_upload(f, c->codes, c->codes_bytes);
    void *dy = emulator_upload(f, NULL, c->y_bytes), *dw = emulator_upload(f, NULL, 64);
    assert_int_equal(b->fill(f->context, dy, c->y_fill, c->y_bytes, err), TERN_OK);
    if (b->module_load(f->context, f->object, strlen(f->object), c->entry, c->smem, &module, &function, err) != TERN_OK)
        fail_msg("%s", err->text);
    struct tern_launch launch = {.function = function,
                                 .grid = {c->blocks, 1, 1},
                                 .block = c->block,
                                 .cluster = c->cluster,
                                 .smem_bytes = c->smem,
                                 .args = {.x = dx, .codes = dc, .y = dy, .workspace = dw, .m = c->m, .k = c->k}};
    tern_emu_backend_set_order(f->context, c->order, 1);
    void *brought = emulator_upload(f, c->x, c->x_bytes);
    const struct tern_late late[] = {{dx, brought, 0, c->x_bytes}, {dy, NULL, c->y_fill, c->y_bytes}};
    enum tern_status status =
        c->late ? b->launch_behind(f->context, &launch, late, 2, err) : b->launch(f->context, &launch, err);
    if (status == TERN_OK && y != NULL)
        assert_int_equal(b->download(f->context, y, dy, c->y_bytes, err), TERN_OK);
    b->module_unload(f->context, module);
    void *const buffers[] = {dx, dc, dy, dw, brought};
    for (size_t i = 0; i < 5; i++)
        b->release(f->context, buffers[i]);
    return status;
}

/* The launch must fail with a text that holds `part`. */
static inline void emulator_expect_fault(struct emulator_fixture *f, const struct emulator_case *c, const char *part) {
    struct tern_error err = {0};
    enum tern_status status = emulator_launch(f, c, NULL, &err);
    if (status != TERN_FAILED || strstr(err.text, part) == NULL)
        fail_msg("%s: expected a fault with \"%s\", got status %d: %s", c->entry, part, (int)status, err.text);
}

#endif
