/* Report: data files, gnuplot scripts run over them (SVG and PNG), one static HTML page. */
#ifndef TERN_OUTPUT_REPORT_H
#define TERN_OUTPUT_REPORT_H

#include "core/error.h"
#include "core/result.h"
#include "output/curve.h"
#include "output/trials.h"

#include <stdbool.h>

struct tern_report_gpu { /* what the roofline needs; filled by the caller: measured ceilings, else configs/gpus */
    char name[32], title[64];
    double memory_gbs, f16_tflops;
    bool measured; /* these ceilings were measured on such a GPU; else they are the data sheet's */
};

struct tern_report_evidence {
    const double *bytes, *weight_bytes; /* of row i: what it has to move at least; its weights alone (space/cost.h) */
    const struct tern_trials *trials;   /* of the rows' problems, sorted; NULL or empty: no tuning space is drawn */
    const struct tern_curves *curves;   /* the searches; NULL or empty: no progress is drawn */
};

/* Writes into DIR: winners.csv, data/ (tab-separated files), pictures as .svg and .png, index.html, and report.md, the same
 * for a release note. The results are sorted and of one GPU. Without gnuplot the data and a page without pictures are still
 * written and TERN_MISSING is returned with the remedy. */
enum tern_status tern_report_write(const char *dir, const struct tern_report_gpu *gpu, const struct tern_results *results,
                                   const struct tern_report_evidence *evidence, struct tern_error *err);

#endif
