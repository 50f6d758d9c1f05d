/* Opens checkpoints: mapping, choice of the container, shards of an index. Does not know what tensors mean. */
#include "formats/checkpoint.h"

#include "core/file.h"
#include "core/str.h"
#include "formats/gguf.h"
#include "formats/quant_config.h"
#include "formats/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Every container that can be read. */
static const struct tern_container *const containers[] = {&tern_container_safetensors, &tern_container_gguf};
enum { CONTAINER_COUNT = sizeof(containers) / sizeof(*containers) };

#define INDEX_SUFFIX ".safetensors.index.json"

static bool ends_with(const char *text, const char *suffix) {
    size_t length = strlen(text), end = strlen(suffix);
    return length >= end && strcmp(text + length - end, suffix) == 0;
}

static void unmap(struct tern_mapping *file) {
    if (file->data)
        munmap((void *)file->data, (size_t)file->bytes);
    free(file->path);
    free(file);
}

/* Maps a regular file read-only; an empty one has no bytes to map. */
static enum tern_status map_file(const char *path, struct tern_mapping **out, struct tern_error *err) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return tern_error_set(err, errno == ENOENT ? TERN_USAGE : TERN_INTERNAL, "cannot open %s: %s", path,
                              strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return tern_error_set(err, TERN_USAGE, "%s is not a regular file", path);
    }
    const void *data = NULL;
    if (info.st_size > 0)
        data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED)
        return tern_error_set(err, TERN_INTERNAL, "cannot map %s: %s", path, strerror(errno));
    struct tern_mapping *file = tern_alloc(sizeof *file);
    *file = (struct tern_mapping){tern_strdup(path), data, info.st_size, true};
    *out = file;
    return TERN_OK;
}

/* A download that brought the pointer and not the file: its text would read as an absurd header length. */
static enum tern_status check_not_pointer(const struct tern_mapping *file, struct tern_error *err) {
    static const char mark[] = "version https://git-lfs";
    if (file->bytes < (int64_t)sizeof mark - 1 || memcmp(file->data, mark, sizeof mark - 1) != 0)
        return TERN_OK;
    tern_error_set(err, TERN_FAILED, "%s: a git-lfs pointer of %lld bytes, not the weights", file->path,
                   (long long)file->bytes);
    tern_error_hint(err, "fetch the file itself: git lfs pull");
    return TERN_FAILED;
}

static const struct tern_container *choose_container(const struct tern_mapping *file) {
    for (size_t i = 0; i < CONTAINER_COUNT; i++)
        if (containers[i]->recognise && containers[i]->recognise(file->data, file->bytes))
            return containers[i];
    for (size_t i = 0; i < CONTAINER_COUNT; i++)
        if (ends_with(file->path, containers[i]->suffix))
            return containers[i];
    return NULL;
}

/* Maps one file and adds its tensors. */
static enum tern_status read_file(struct tern_checkpoint *checkpoint, const char *path, struct tern_error *err) {
    struct tern_mapping *file = NULL;
    enum tern_status status = map_file(path, &file, err);
    if (status)
        return status;
    checkpoint->files = tern_realloc(checkpoint->files, (checkpoint->file_count + 1) * sizeof(*checkpoint->files));
    checkpoint->files[checkpoint->file_count++] = file;
    status = check_not_pointer(file, err);
    if (status)
        return status;
    const struct tern_container *container = choose_container(file);
    if (!container) {
        tern_error_set(err, TERN_FAILED, "%s: not a known container", path);
        tern_error_hint(err, "weights are read from .safetensors and .gguf files");
        return TERN_FAILED;
    }
    checkpoint->container = container->name;
    return container->read(checkpoint, file, err);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct tern_tensor *)a)->name, ((const struct tern_tensor *)b)->name);
}

/* Sorts, and refuses a name that comes twice (in two files: in one file the container has refused it). */
static enum tern_status sort_tensors(struct tern_checkpoint *checkpoint, struct tern_error *err) {
    if (checkpoint->tensor_count)
        qsort(checkpoint->tensors, checkpoint->tensor_count, sizeof *checkpoint->tensors, by_name);
    for (size_t i = 1; i < checkpoint->tensor_count; i++) {
        const struct tern_tensor *a = &checkpoint->tensors[i - 1], *b = &checkpoint->tensors[i];
        if (strcmp(a->name, b->name) == 0)
            return tern_error_set(err, TERN_FAILED, "%s: tensor '%s' is also in %s", b->file->path, b->name, a->file->path);
    }
    return TERN_OK;
}

/* The files of a folder: `names` gets what is to be read; `index` the path of the index that lists it, or "". */
static enum tern_status choose_files(const char *dir, struct tern_strs *names, char *index, size_t size,
                                     struct tern_error *err) {
    struct tern_strs indices = {0};
    enum tern_status status = tern_file_list(dir, INDEX_SUFFIX, &indices, err);
    index[0] = '\0';
    if (!status && indices.count > 1)
        status = tern_error_set(err, TERN_USAGE, "%s holds %zu index files: name one file", dir, indices.count);
    if (!status && indices.count == 1)
        tern_str_format(index, size, "%s/%s", dir, indices.items[0]);
    tern_strs_free(&indices);
    for (size_t i = 0; !status && !index[0] && i < CONTAINER_COUNT; i++)
        status = tern_file_list(dir, containers[i]->suffix, names, err);
    if (status || index[0])
        return status;
    for (size_t i = 0; i < names->count && names->count > 1; i++)
        if (strcmp(names->items[i], "model.safetensors") == 0) {
            tern_strs_free(names);
            *names = (struct tern_strs){0};
            tern_strs_add(names, "model.safetensors");
        }
    if (names->count == 0)
        return tern_error_set(err, TERN_USAGE, "%s holds no file of weights", dir);
    if (names->count > 1) {
        tern_error_set(err, TERN_USAGE, "%s holds %zu files of weights and no *" INDEX_SUFFIX, dir, names->count);
        tern_error_hint(err, "name one of them, or fetch the index");
        return TERN_USAGE;
    }
    return TERN_OK;
}

static enum tern_status read_folder(struct tern_checkpoint *checkpoint, const char *dir, struct tern_error *err) {
    struct tern_strs names = {0};
    char index[PATH_MAX], path[PATH_MAX];
    enum tern_status status = choose_files(dir, &names, index, sizeof index, err);
    struct tern_safetensors_index shards = {0};
    if (!status && index[0])
        status = tern_safetensors_index_read(index, &shards, &names, err);
    for (size_t i = 0; !status && i < names.count; i++) {
        tern_str_format(path, sizeof path, "%s/%s", dir, names.items[i]);
        if (index[0] && !tern_file_exists(path))
            status = tern_error_set(err, TERN_FAILED, "%s: shard %s is missing", index, names.items[i]);
        else
            status = read_file(checkpoint, path, err);
    }
    if (!status && index[0])
        status = tern_safetensors_index_apply(&shards, checkpoint, err);
    tern_safetensors_index_free(&shards);
    tern_strs_free(&names);
    return status;
}

/* Declarations lie in the folder of the weights. */
static enum tern_status read_config(struct tern_checkpoint *checkpoint, struct tern_error *err) {
    char folder[PATH_MAX];
    tern_str_copy(folder, sizeof folder, checkpoint->path);
    if (!tern_file_is_dir(folder)) {
        char *slash = strrchr(folder, '/');
        if (slash)
            slash[1] = '\0';
        else
            tern_str_copy(folder, sizeof folder, ".");
    }
    return tern_quant_config_find(folder, &checkpoint->config, err);
}

enum tern_status tern_checkpoint_open(const char *path, struct tern_checkpoint *checkpoint, struct tern_error *err) {
    *checkpoint = (struct tern_checkpoint){.path = tern_strdup(path)};
    enum tern_status status = tern_file_is_dir(path) ? read_folder(checkpoint, path, err) : read_file(checkpoint, path, err);
    if (!status)
        status = sort_tensors(checkpoint, err);
    return status ? status : read_config(checkpoint, err);
}

void tern_checkpoint_close(struct tern_checkpoint *checkpoint) {
    for (size_t i = 0; i < checkpoint->tensor_count; i++)
        free(checkpoint->tensors[i].name);
    for (size_t i = 0; i < checkpoint->file_count; i++)
        unmap(checkpoint->files[i]);
    tern_quant_config_free(checkpoint->config);
    free(checkpoint->tensors);
    free(checkpoint->files);
    free(checkpoint->path);
    *checkpoint = (struct tern_checkpoint){0};
}

const struct tern_tensor *tern_checkpoint_find(const struct tern_checkpoint *checkpoint, const char *name) {
    const struct tern_tensor key = {.name = (char *)name};
    if (checkpoint->tensor_count == 0)
        return NULL;
    return bsearch(&key, checkpoint->tensors, checkpoint->tensor_count, sizeof key, by_name);
}

void tern_tensor_forget(const struct tern_tensor *tensor) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)tern_tensor_data(tensor);
    const uintptr_t first = at / page * page;
    if (tensor->bytes > 0 && tensor->file->mapped)
        madvise((void *)first, at + (uintptr_t)tensor->bytes - first, MADV_DONTNEED); /* advice: may fail */
}

const char *tern_tensor_shape_text(const struct tern_tensor *tensor, char *out, size_t size) {
    struct tern_str text = {0};
    for (int i = 0; i < tensor->dims; i++)
        tern_str_printf(&text, "%s%lld", i ? ", " : "", (long long)tensor->shape[i]);
    tern_str_format(out, size, "[%s]", tern_str_text(&text));
    tern_str_free(&text);
    return out;
}

enum tern_status tern_tensor_error(const struct tern_tensor *tensor, struct tern_error *err, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return tern_error_set(err, TERN_FAILED, "%s: tensor '%s': %s", tensor->file->path, tensor->name, text);
}

void tern_checkpoint_add(struct tern_checkpoint *checkpoint, const struct tern_tensor *tensor) {
    if (checkpoint->tensor_count == checkpoint->tensor_capacity) {
        checkpoint->tensor_capacity = checkpoint->tensor_capacity ? 2 * checkpoint->tensor_capacity : 64;
        checkpoint->tensors = tern_realloc(checkpoint->tensors, checkpoint->tensor_capacity * sizeof *checkpoint->tensors);
    }
    struct tern_tensor *copy = &checkpoint->tensors[checkpoint->tensor_count++];
    *copy = *tensor;
    copy->name = tern_strdup(tensor->name);
}

bool tern_tensor_bits(const struct tern_tensor *tensor, int64_t unit_bits, int64_t *bits) {
    *bits = unit_bits;
    for (int i = 0; i < tensor->dims; i++)
        if (tensor->shape[i] < 0 || __builtin_mul_overflow(*bits, tensor->shape[i], bits))
            return false;
    return true;
}
