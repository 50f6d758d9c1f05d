/* Report: data files, gnuplot scripts run over them (SVG and PNG), one static HTML page. */
#ifndef TERN_OUTPUT_REPORT_H
#define TERN_OUTPUT_REPORT_H

#include "core/error.h"
#include "core/result.h"

#include <stdbool.h>

struct tern_report_gpu { /* what the roofline needs; filled by the caller: measured ceilings, else configs/gpus */
    char name[32], title[64];
    double memory_gbs, f16_tflops;
    bool measured; /* these ceilings were measured on such a GPU; else they are the data sheet's */
};

/* Writes into DIR: winners.csv, data/ (tab-separated files), pictures as .svg and .png, index.html. The results are
 * sorted and of one GPU; bytes[i] is what row i has to move at least (space/cost.h). Without gnuplot the data and a page
 * without pictures are still written and TERN_MISSING is returned with the remedy. */
enum tern_status tern_report_write(const char *dir, const struct tern_report_gpu *gpu, const struct tern_results *results,
                                   const double *bytes, struct tern_error *err);

#endif
