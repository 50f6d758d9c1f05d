/* Compile workers: NVRTC to cubins in the cache, and emulator checks; no GPU, no libcuda.
 *
 * Request {"do": "compile", "source", "name", "arch", "entry", "include", "cache"} answers
 *   {"ok": bool, "cubin": hash, "bytes", "registers", "static_smem", "spill", "log", "seconds"}.
 * Request {"do": "emulate", "gpu", "template", "params", "format", "key", "source", "m", "k", "seed", "cache"} answers {"outcome":
 * name, "detail": text}. What is no fault of the candidate answers {"status": n, "error": text, "hint": text}. */
#ifndef TERN_WORKER_COMPILE_H
#define TERN_WORKER_COMPILE_H

/* Serves requests on TERN_WORKER_FD until it closes; returns the exit code. */
int tern_compile_worker(void);

#endif
