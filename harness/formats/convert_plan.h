/* What the files of a conversion share: convert.c (steps), convert_folder.c (the files around the weights), convert_prove.c. */
#ifndef TERN_FORMATS_CONVERT_PLAN_H
#define TERN_FORMATS_CONVERT_PLAN_H

#include "formats/convert.h"
#include "formats/target.h"

struct tern_convert_plan {
    const struct tern_convert_request *request;
    const struct tern_target *target;
    struct tern_checkpoint in;
    struct tern_linears found;
    struct tern_target_layer *layers; /* one for each of `found` */
    bool *belongs;                    /* by tensor of `in`: part of a layer, so replaced */
    size_t *carried;                  /* by tensor of `in`: index in its new file, if it is carried over */
    struct tern_new_file *files;      /* one for each of in.files */
    char out[4096], temp[4096];       /* folders; temp is "" until it is made */
};

/* convert_folder.c. Makes the folder that will be renamed; writes index, declarations and the other files of a model folder. */
enum tern_status tern_convert_folder_create(struct tern_convert_plan *plan, struct tern_error *err);
enum tern_status tern_convert_folder_fill(const struct tern_convert_plan *plan, struct tern_strs *notes,
                                          struct tern_error *err);
/* Syncs, and gives the folder its name. */
enum tern_status tern_convert_folder_publish(struct tern_convert_plan *plan, struct tern_error *err);
void tern_convert_folder_remove(const struct tern_convert_plan *plan);
/* Name of output file i in the folder. */
const char *tern_convert_file_name(const struct tern_convert_plan *plan, size_t i);

/* convert_config.c: the declaration of quantisation, a new jansson object; `config` is a json_t *. */
void *tern_convert_declaration(const struct tern_convert_plan *plan);

/* convert_prove.c: reads the folder as any checkpoint and compares every weight, scale and carried byte with the input. */
enum tern_status tern_convert_prove(const struct tern_convert_plan *plan, struct tern_convert_summary *summary,
                                    struct tern_error *err);

#endif
