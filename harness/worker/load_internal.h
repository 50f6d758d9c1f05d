/* Shared by the parts of the load worker: load.c serves requests and brings tensors to the device, load_packed.c the packed layout. */
#ifndef TERN_WORKER_LOAD_INTERNAL_H
#define TERN_WORKER_LOAD_INTERNAL_H

#include "device/backend.h"
#include "formats/difference.h"
#include "formats/layout.h"
#include "formats/literal.h"

#include "../kernels/unpack.h"

#define TERN_LOAD_TENSORS 4

struct load_session {
    const struct tern_backend *backend;
    void *context;
    struct {
        void *module, *function;
    } raw, packed; /* tern_unpack, tern_unpack_packed */
    struct tern_device_info info;
    char *path;
    struct tern_checkpoint checkpoint;
    struct tern_linears layers;
};

/* One layer at work. */
struct load {
    const struct tern_linear *layer;
    struct tern_literal literal; /* pointers of the host */
    const struct tern_tensor *tensors[TERN_LOAD_TENSORS];
    void *on_device[TERN_LOAD_TENSORS];
    void *args, *codes, *zeros, *scales, *index; /* of the kernels */
    struct tern_linear_rows rows;                /* decoded by the host */
    struct tern_linear_rows got;
    int32_t *want_index, *got_index;
    int64_t window, bytes, weights;
    struct {
        struct tern_format format;
        const struct tern_layout *layout; /* NULL: kernels do not serve the layer */
        void *codes, *scales, *zeros;     /* on the device, for one window */
        int64_t weights;
    } packed;
    struct tern_difference difference;
};

/* Device memory of so many bytes, in whole words, never none. */
enum tern_status load_allocate(struct load_session *s, int64_t bytes, void **to, struct tern_error *err);
/* Poisons the outputs, launches for `rows` rows, brings codes, zero points, scales and index into l->got and l->got_index. */
enum tern_status load_launch(struct load_session *s, struct load *l, void *function, const struct tern_literal *layer,
                             int64_t first, int64_t rows, struct tern_error *err);
/* l->got against l->rows; `words` name a code, a zero point, a scale. */
void load_compare(struct load *l, const char *const words[3]);

/* Finds the format and layout that kernels read the layer in, and makes room for a window; none is no error. */
enum tern_status load_packed_open(struct load_session *s, struct load *l, struct tern_error *err);
/* Packs l->rows on the host, decodes them on the device, compares. A scale that is no binary16 ends it for the layer. */
enum tern_status load_packed_rows(struct load_session *s, struct load *l, struct tern_error *err);
void load_packed_close(struct load_session *s, struct load *l);

#endif
