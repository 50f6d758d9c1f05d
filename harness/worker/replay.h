/* The replay worker: serves the requests of gpu.h from a recorded run instead of a device, so that everything of a measured
 * run but the device can be run and tested anywhere. Deterministic: the same requests get the same answers, at once.
 *
 * {"do": "hello", "recording", "fault", "asked", "finals"}: reads the file; answers the recorded facts of the device;
 * "fault", "asked" and "finals" as in replay_fault.h. What nobody recorded has the outcome `invalid` with the detail "not recorded". A final
 * takes the recorded final rounds of an entry, or its screening samples where it was no finalist then. */
#ifndef TERN_WORKER_REPLAY_H
#define TERN_WORKER_REPLAY_H

int tern_replay_worker(void); /* returns the exit code */

#endif
