/* Conversion of a checkpoint from one way of storing layers to another, without loss and proved by reading back.
 * The output is a new folder; it appears whole, or not at all. */
#ifndef TERN_FORMATS_CONVERT_H
#define TERN_FORMATS_CONVERT_H

#include "core/error.h"
#include "core/str.h"

#include <stdbool.h>
#include <stdint.h>

struct tern_convert_request {
    const char *in;        /* file, or folder of a model */
    const char *out;       /* folder that must not exist */
    const char *to;        /* name of a target (target.h) */
    bool accept_suspect;   /* convert what the bits say of layers whose declaration disagrees */
    bool (*stopped)(void); /* asked now and then; NULL: never */
};

struct tern_convert_summary {
    char from[64];                        /* the checkpoint formats of the input */
    size_t layers, carried, files;        /* carried: tensors that are no part of a layer */
    int64_t weights, in_bytes, out_bytes; /* bytes of the files of weights */
    struct tern_strs notes;               /* what the user should know although nothing is lost; the caller frees them */
};

/* TERN_USAGE: nothing at `in`, `out` exists, `to` is unknown. TERN_FAILED: the input is broken, suspect, or would lose a bit; the
 * error names file, layer and fact. TERN_INTERNAL: the output cannot be written. After an error nothing of the output is left.
 * Memory: about 30 MiB beside the page cache, whatever the size. */
enum tern_status tern_convert(const struct tern_convert_request *request, struct tern_convert_summary *summary,
                              struct tern_error *err);

#endif
