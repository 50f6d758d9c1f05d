/* Table of loaded modules. See gpu_modules.h. */
#include "worker/gpu_modules.h"

#include "core/str.h"
#include "worker/gpu_session.h"

#include <stdlib.h>
#include <string.h>

static struct gpu_module *find(struct gpu_modules *m, const char *cubin, int64_t smem_bytes) {
    for (size_t i = 0; i < m->count; i++)
        if (m->list[i].smem_bytes == smem_bytes && strcmp(m->list[i].cubin, cubin) == 0)
            return &m->list[i];
    return NULL;
}

/* Room for one more. */
static struct gpu_module *make_room(struct gpu_session *s) {
    struct gpu_modules *m = &s->modules;
    struct gpu_module *oldest = &m->list[0];
    if (m->count < GPU_MODULES_MAX)
        return &m->list[m->count++];
    for (size_t i = 1; i < m->count; i++)
        if (m->list[i].asked < oldest->asked)
            oldest = &m->list[i];
    s->backend->module_unload(s->context, oldest->module);
    return oldest;
}

enum tern_status gpu_module(struct gpu_session *s, const char *cubin, const char *entry, int64_t smem_bytes, void **module,
                            void **function, struct tern_error *err) {
    struct gpu_module loaded = {.smem_bytes = smem_bytes};
    void *image = NULL;
    size_t bytes = 0;
    enum tern_status status = TERN_OK;
    pthread_mutex_lock(&s->modules.lock);
    struct gpu_module *known = find(&s->modules, cubin, smem_bytes);
    if (!known) {
        tern_str_copy(loaded.cubin, sizeof loaded.cubin, cubin);
        status = gpu_cubin(s, cubin, &image, &bytes, err);
        if (status == TERN_OK)
            status =
                s->backend->module_load(s->context, image, bytes, entry, smem_bytes, &loaded.module, &loaded.function, err);
        free(image);
        if (status == TERN_OK) {
            known = make_room(s);
            *known = loaded;
        }
    }
    if (known) {
        known->asked = ++s->modules.asked;
        *module = known->module;
        *function = known->function;
    }
    pthread_mutex_unlock(&s->modules.lock);
    return status;
}

void gpu_modules_close(struct gpu_session *s) {
    for (size_t i = 0; i < s->modules.count; i++)
        s->backend->module_unload(s->context, s->modules.list[i].module);
    s->modules.count = 0;
    (void)pthread_mutex_destroy(&s->modules.lock);
}
