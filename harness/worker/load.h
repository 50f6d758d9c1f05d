/* Load worker: the tensors of a layer on the device, byte by byte, and decoded there by kernels/unpack.cu, also from the layout of the templates where
 * they can serve the layer.
 *
 * Request {"do": "load", "backend": "emu"|"cuda", "path": checkpoint, "layer": index, "cache": folder of emulator objects} answers
 *   {"device": name, "bytes", "weights", "packed": weights in the layout of the kernels too, "differences"} and, if there are any, of the first {"tensor", "what", "row", "k",
 *   "expected", "got"}. What cannot be done answers {"status", "error", "hint"}: status 3 without a device or compiler. */
#ifndef TERN_WORKER_LOAD_H
#define TERN_WORKER_LOAD_H

/* Serves requests on TERN_WORKER_FD until it closes; returns the exit code. */
int tern_load_worker(void);

#endif
