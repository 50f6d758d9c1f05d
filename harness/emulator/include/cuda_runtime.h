/* Stand-in: everything a kernel needs of the CUDA run time is in shim.h, which is already included. */
