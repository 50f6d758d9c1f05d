/* Compiles every kernel of an exported table for the CPU emulator and packs the objects as tern_kernels.bin, under the names of
 * the cubins that they stand for. usage: emulate_kernels OUTPUT WORK_FOLDER; the header is compiled in. */
#define TERN_DISPATCH_IMPLEMENTATION
#include "tern_dispatch.h"

#include "core/archive.h"
#include "core/file.h"
#include "device/compiler.h"
#include "space/grid.h"

#include <stdio.h>
#include <stdlib.h>

static enum tern_status make_source(const struct tern_kernel *kernel, struct tern_str *source, struct tern_error *err) {
    struct tern_template tmpl = {0};
    struct tern_candidate candidate;
    struct tern_format format;
    enum tern_activation type = TERN_F16;
    char relative[96], dir[4096], file[4200], *text = NULL;
    size_t length;
    tern_str_format(relative, sizeof relative, "templates/%s", kernel->template_name);
    enum tern_status status = tern_file_home_path(relative, dir, sizeof dir, err);
    if (!status)
        status = tern_template_load(dir, &tmpl, err);
    if (!status)
        status = tern_format_parse(kernel->format, &format, err);
    if (!status && !tern_activation_of_op(kernel->op, &type))
        status = tern_error_set(err, TERN_INTERNAL, "unknown op %s", kernel->op);
    if (!status)
        status = tern_candidate_parse(&tmpl, kernel->params, &candidate, err);
    tern_str_format(file, sizeof file, "%s/kernel.cu", dir);
    if (!status)
        status = tern_file_read(file, &text, &length, err);
    if (!status) {
        tern_candidate_preamble(&candidate, &format, type, source);
        tern_str_append(source, text);
    }
    free(text);
    tern_template_free(&tmpl);
    return status;
}

static enum tern_status compile(const struct tern_kernel *kernel, const char *folder, struct tern_archive_image *image,
                                struct tern_error *err) {
    struct tern_str source = {0}, log = {0};
    char path[4200], *data = NULL;
    int ok = 0;
    tern_str_format(path, sizeof path, "%s/%s.so", folder, kernel->cubin_hash);
    enum tern_status status = make_source(kernel, &source, err);
    if (!status)
        status = tern_emu_compile(tern_str_text(&source), kernel->template_name, path, 0, &log, &ok, err);
    if (!status && !ok)
        status = tern_error_set(err, TERN_FAILED, "%s: %.900s", kernel->template_name, tern_str_text(&log));
    if (!status)
        status = tern_file_read(path, &data, &image->bytes, err);
    tern_str_copy(image->name, sizeof image->name, kernel->cubin_hash);
    image->data = data;
    tern_str_free(&source);
    tern_str_free(&log);
    return status;
}

/* The packing kernels, each behind a wrapper of its name that finds their struct in the workspace: the emulator passes tern_args. */
static enum tern_status compile_packing(const char *folder, struct tern_archive_image *image, struct tern_error *err) {
    static const char *const entries[] = {"tern_pack", "tern_unpack_scales", "tern_unpack"};
    struct tern_str source = {0}, log = {0};
    char home[4096], path[4200], *text = NULL, *data = NULL;
    size_t length;
    int ok = 0, count;
    tern_str_format(path, sizeof path, "%s/pack.so", folder);
    enum tern_status status = tern_file_home_path("kernels", home, sizeof home, err);
    tern_str_printf(&source, "#include \"tern/abi.h\"\n#include \"%s/kernels.h\"\n", home);
    for (size_t i = 0; i < 3; i++)
        tern_str_printf(&source, "#define %s inner_%s\n", entries[i], entries[i]);
    if (!status)
        status = tern_file_home_path("kernels/pack.cu", home, sizeof home, err);
    if (!status)
        status = tern_file_read(home, &text, &length, err);
    if (!status) {
        char *include = strstr(text, "#include \"kernels.h\"");
        memset(include, ' ', strlen("#include \"kernels.h\"")); /* by its path, above */
        tern_str_append(&source, text);
        for (size_t i = 0; i < 3; i++)
            tern_str_printf(&source,
                            "#undef %s\nextern \"C\" __global__ void %s(tern_args a) { inner_%s(*(const tern_pack_args "
                            "*)a.workspace); }\n",
                            entries[i], entries[i], entries[i]);
        status = tern_emu_compile(tern_str_text(&source), "pack", path, 0, &log, &ok, err);
    }
    if (!status && !ok)
        status = tern_error_set(err, TERN_FAILED, "pack.cu: %.900s", tern_str_text(&log));
    if (!status)
        status = tern_file_read(path, &data, &image->bytes, err);
    tern_str_format(image->name, sizeof image->name, TERN_PACKING_IMAGE "%s", tern_tables(&count)->arch);
    image->data = data;
    free(text);
    tern_str_free(&source);
    tern_str_free(&log);
    return status;
}

int main(int argc, char **argv) {
    struct tern_error err = {0};
    struct tern_str archive = {0};
    struct tern_archive_image images[257];
    size_t count = 0;
    enum tern_status status = argc == 3 && tern_kernel_count() <= 256 ? TERN_OK : TERN_USAGE;
    for (int i = 0; i < tern_kernel_count() && !status; i++) {
        bool known = false;
        for (size_t j = 0; j < count; j++)
            known = known || strcmp(images[j].name, tern_kernel_at(i)->cubin_hash) == 0;
        if (!known)
            status = compile(tern_kernel_at(i), argv[2], &images[count++], &err);
    }
    if (!status)
        status = compile_packing(argv[2], &images[count++], &err);
    if (!status) {
        tern_archive_write(images, count, &archive);
        status = tern_file_write(argv[1], archive.data, archive.length, &err);
    }
    if (status)
        fprintf(stderr, "%s\n", err.text);
    tern_str_free(&archive);
    return status;
}
