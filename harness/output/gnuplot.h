/* Pictures by gnuplot (found on PATH), with the scripts of scripts/: each as SVG and as PNG. */
#ifndef TERN_OUTPUT_GNUPLOT_H
#define TERN_OUTPUT_GNUPLOT_H

#include "core/error.h"

#include <stddef.h>

struct tern_gnuplot_picture {
    const char *script; /* in scripts/ */
    const char *file;   /* path without its suffix */
    const char *data, *title, *caption;
    const char *extra[3]; /* ARG6, ARG7, ARG8 of the script; "" where it takes none */
};

/* TERN_MISSING with a remedy; `left` says what is there without pictures. */
enum tern_status tern_gnuplot_find(const char *left, char *program, size_t size, struct tern_error *err);
/* Draws both forms; a failure holds gnuplot's words. */
enum tern_status tern_gnuplot_draw(const char *program, const struct tern_gnuplot_picture *picture, struct tern_error *err);

#endif
