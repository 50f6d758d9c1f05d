/* The CPU emulator as a machine for tern_rt: one emulated device for the process, one launch at a time. */
#ifndef TERN_TESTS_EMULATED_H
#define TERN_TESTS_EMULATED_H

#include "runtime/driver.h"

extern const struct tern_rt_driver tern_rt_driver_emulated;
/* A stream of another device, which launches refuse. */
extern const char tern_emulated_foreign_stream[];

/* Memory of the emulated device; abort where it fails. Open a runtime, or call this first. */
void tern_emulated_start(void);
void *tern_emulated_alloc(size_t bytes);

/* tern_rt_open_folder for the emulated device. */
TERN_RT_API enum tern_rt_status tern_rt_open_emulated(const char *folder, int device, enum tern_match worst,
                                                      struct tern_rt **rt, struct tern_rt_error *err);

#endif
