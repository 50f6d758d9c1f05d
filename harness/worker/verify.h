/* Verify worker: compiles one candidate and checks it on the standard odd shapes, on the emulator or on a GPU.
 *
 * Request {"do": "verify", "backend": "emu"|"cuda", "gpu", "template", "params", "format", "source", "key", "cache", "seed",
 *   "orders": [names], "sanitize": bool, "shapes": most shapes, 0 for all, "m", "k": of a problem for a candidate
 *   that serves no odd shape, 0 for none} answers
 *   {"outcome", "detail", "shapes", "launches", "checked", "worst"}; worst: largest |got - ref| / tolerance.
 * What is no fault of the candidate answers {"status", "error", "hint"}. It never tells a time.
 * sanitize: on the emulator compile with ASan and UBSan; on a GPU the worker runs under compute-sanitizer, and buffers end where
 * their data ends. */
#ifndef TERN_WORKER_VERIFY_H
#define TERN_WORKER_VERIFY_H

/* Serves requests on TERN_WORKER_FD until it closes; returns the exit code. */
int tern_verify_worker(void);

#endif
