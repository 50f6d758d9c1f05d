/* The folder that a conversion writes: made beside its final place and renamed when all of it is proved. Owns the files around the
 * weights: the index of shards, config.json, quantize_config.json, and copies of what else lies in a model's folder. */
#include "formats/convert_plan.h"

#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_LIMIT ((off_t)64 << 20) /* of a file beside the weights: tokenizers have some 20 MB */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Shards keep their names; what was one file is model.safetensors, which loaders look for. */
const char *tern_convert_file_name(const struct tern_convert_plan *plan, size_t i) {
    return plan->in.file_count > 1 ? base_name(plan->in.files[i]->path) : "model.safetensors";
}

enum tern_status tern_convert_folder_create(struct tern_convert_plan *plan, struct tern_error *err) {
    tern_str_copy(plan->out, sizeof plan->out - 16, plan->request->out);
    for (size_t end = strlen(plan->out); end > 1 && plan->out[end - 1] == '/'; end--)
        plan->out[end - 1] = '\0';
    tern_str_format(plan->temp, sizeof plan->temp, "%s.XXXXXX", plan->out);
    const mode_t mask = umask(0);
    umask(mask);
    if (!mkdtemp(plan->temp) || chmod(plan->temp, 0777 & ~mask) != 0) {
        const int code = errno;
        if (strcmp(plan->temp + strlen(plan->temp) - 6, "XXXXXX") == 0)
            plan->temp[0] = '\0';
        return tern_error_set(err, code == ENOENT ? TERN_USAGE : TERN_INTERNAL, "cannot make the folder %s: %s", plan->out,
                              strerror(code));
    }
    return TERN_OK;
}

void tern_convert_folder_remove(const struct tern_convert_plan *plan) {
    struct tern_strs names = {0};
    if (!plan->temp[0] || tern_file_list(plan->temp, "", &names, NULL) != TERN_OK)
        return;
    for (size_t i = 0; i < names.count; i++) {
        char path[8192];
        tern_str_format(path, sizeof path, "%s/%s", plan->temp, names.items[i]);
        unlink(path);
    }
    rmdir(plan->temp);
    tern_strs_free(&names);
}

static void sync_folder(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd); /* best effort: some file systems refuse to sync folders */
    close(fd);
}

/* RENAME_NOREPLACE where the file system knows it: an empty folder that came up meanwhile would be replaced by plain rename. */
enum tern_status tern_convert_folder_publish(struct tern_convert_plan *plan, struct tern_error *err) {
    sync_folder(plan->temp);
    int result = renameat2(AT_FDCWD, plan->temp, AT_FDCWD, plan->out, RENAME_NOREPLACE);
    if (result != 0 && (errno == EINVAL || errno == ENOSYS))
        result = rename(plan->temp, plan->out);
    if (result != 0)
        return tern_error_set(err, TERN_INTERNAL, "cannot rename %s to %s: %s", plan->temp, plan->out, strerror(errno));
    plan->temp[0] = '\0';
    char parent[4096];
    tern_str_copy(parent, sizeof parent, plan->out);
    char *slash = strrchr(parent, '/');
    if (slash)
        slash[slash == parent] = '\0';
    sync_folder(slash ? parent : ".");
    return TERN_OK;
}

static enum tern_status write_json(const struct tern_convert_plan *plan, const char *name, const json_t *json,
                                   struct tern_error *err) {
    char path[8192];
    char *text = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    tern_str_format(path, sizeof path, "%s/%s", plan->temp, name);
    if (!text)
        return tern_error_set(err, TERN_FAILED, "%s: a name is not UTF-8", path);
    enum tern_status status = tern_file_write(path, text, strlen(text), err);
    free(text);
    return status;
}

static enum tern_status write_index(const struct tern_convert_plan *plan, struct tern_error *err) {
    json_t *map = json_object();
    json_int_t total = 0;
    for (size_t f = 0; f < plan->in.file_count; f++)
        for (size_t t = 0; t < plan->files[f].count; t++) {
            json_object_set_new(map, plan->files[f].tensors[t].name, json_string(tern_convert_file_name(plan, f)));
            total += plan->files[f].tensors[t].bytes;
        }
    json_t *root = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", total, "weight_map", map);
    enum tern_status status = write_json(plan, "model.safetensors.index.json", root, err);
    json_decref(root);
    return status;
}

/* The folder of the input, where its declarations are. */
static void in_folder(const struct tern_convert_plan *plan, char *out, size_t size) {
    tern_str_copy(out, size, plan->request->in);
    if (tern_file_is_dir(out))
        return;
    char *slash = strrchr(out, '/');
    if (slash)
        slash[1] = '\0';
    else
        tern_str_copy(out, size, ".");
}

/* config.json of the input with the new declaration in it; loaders of GPTQ look for quantize_config.json as well. */
static enum tern_status write_configs(const struct tern_convert_plan *plan, const char *folder, struct tern_error *err) {
    char path[8192];
    json_error_t where;
    json_t *config = NULL, *declaration = tern_convert_declaration(plan);
    enum tern_status status = TERN_OK;
    tern_str_format(path, sizeof path, "%s/config.json", folder);
    if (tern_file_exists(path)) {
        config = json_load_file(path, 0, &where);
        if (!config)
            status = tern_error_set(err, TERN_FAILED, "%s: line %d: %s", path, where.line, where.text);
        else if (!json_is_object(config))
            status = tern_error_set(err, TERN_FAILED, "%s: is not an object", path);
    } else {
        config = json_object();
    }
    if (!status) {
        json_object_set(config, "quantization_config", declaration);
        json_object_del(config, "compression_config"); /* an older key of compressed-tensors */
        status = write_json(plan, "config.json", config, err);
    }
    if (!status && !plan->target->ternary && strcmp(plan->target->name, "pack-quantized") != 0)
        status = write_json(plan, "quantize_config.json", declaration, err);
    json_decref(config);
    json_decref(declaration);
    return status;
}

/* Weights of any kind, declarations that are written anew, and hidden files stay behind. */
static bool stays_behind(const char *name) {
    static const char *const suffixes[] = {".safetensors", ".gguf", ".bin",     ".pt",        ".pth",
                                           ".onnx",        ".h5",   ".msgpack", ".index.json"};
    static const char *const names[] = {"config.json", "quantize_config.json", "quant_config.json"};
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const size_t end = strlen(suffixes[i]);
        if (length >= end && strcmp(name + length - end, suffixes[i]) == 0)
            return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return name[0] == '.';
}

static enum tern_status copy_file(const struct tern_convert_plan *plan, const char *folder, const char *name,
                                  struct tern_strs *notes, struct tern_error *err) {
    char from[8192], to[8192];
    struct stat info;
    char *data = NULL;
    size_t length = 0;
    tern_str_format(from, sizeof from, "%s/%s", folder, name);
    tern_str_format(to, sizeof to, "%s/%s", plan->temp, name);
    if (stat(from, &info) != 0 || !S_ISREG(info.st_mode))
        return TERN_OK;
    if (info.st_size > COPY_LIMIT) {
        tern_str_format(to, sizeof to, "%s is not copied: %lld bytes", from, (long long)info.st_size);
        tern_strs_add(notes, to);
        return TERN_OK;
    }
    enum tern_status status = tern_file_read(from, &data, &length, err);
    if (!status)
        status = tern_file_write(to, data, length, err);
    free(data);
    return status;
}

enum tern_status tern_convert_folder_fill(const struct tern_convert_plan *plan, struct tern_strs *notes,
                                          struct tern_error *err) {
    char folder[4096];
    struct tern_strs names = {0};
    in_folder(plan, folder, sizeof folder);
    enum tern_status status = plan->in.file_count > 1 ? write_index(plan, err) : TERN_OK;
    if (!status)
        status = write_configs(plan, folder, err);
    if (!status && tern_file_is_dir(plan->request->in))
        status = tern_file_list(folder, "", &names, err);
    for (size_t i = 0; i < names.count && !status; i++)
        if (!stays_behind(names.items[i]))
            status = copy_file(plan, folder, names.items[i], notes, err);
    if (!status && strcmp(plan->in.container, "gguf") == 0)
        tern_strs_add(notes, "keys of the GGUF file (hyperparameters, tokenizer) are not carried over");
    tern_strs_free(&names);
    return status;
}
