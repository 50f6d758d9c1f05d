/* The GPU worker: the one process that loads libcuda. Serves requests on TERN_WORKER_FD, one after the other, on one device.
 *
 * {"do": "count"}: answers {"devices"}, how many the driver shows; opens none.
 * {"do": "hello", "device", "cache", "probe"}: opens the device, and proves with the control kernel that it computes if
 * `probe` is true; answers its facts (name, uuid, driver, cc, sms, l2_bytes, ...).
 * {"do": "prepare", "format", "activations", "n", "k", "m_max", "seed"}: random weights packed and copied often enough to be
 * cold, activations, FP64 reference on the device, dense weights for the baselines; answers {"copies", "bytes"}.
 * {"do": "trial", "template", "params", "format", "cubin", "m", "n", "k", "expected_us", "best_us", "check", "cool"}: if `check`, first the candidate
 * on small odd shapes against the host's FP64; verifies on the prepared problem, times (if `cool`, on a rested device), verifies
 * again; answers
 *     {"outcome", "detail", "samples", "sm_mhz", "gpu_seconds", "disturbed"}:
 * seconds of device work, verification and warm-up included. What the check says goes ahead of the answer, {"check": {"outcome",
 * "detail", "gpu_seconds"}}. A candidate that fails it has its outcome for both.
 * {"do": "ahead", ...}: keys as of a trial; loads its module beside whatever the device is at. No answer.
 * {"do": "final", "m", "entries": [{"template", "params", "cubin"}], "seconds", "cool"}: interleaved rounds of finalists and
 * baselines; if `cool`, then the fastest and the best heuristic each under their own load; answers
 *     {"entries": [{"outcome", "detail", "samples", "loaded"}], "baselines": {name: samples}, "details": {name: what it ran with}, "why_not_e4m3",
 * "sm_mhz", "loaded_mhz", "throttle", "others", "gpu_seconds"}.
 * {"do": "control"}: proves that the device computes right; answers {"read_us", "burst_us"} (measure/control.h).
 * {"do": "settle", "seconds", "formats", "activations"}: load until the clocks settle; meanwhile the host compiles what layers of
 * these formats will need; answers {"sm_mhz"}.
 * {"do": "calibrate", "seconds"}: ceilings of the device, with so many seconds of load a matrix type; answers
 * {"ceilings": [{"kind", "argument", "value", "unit", "sm_mhz", "samples"}]} (core/ceiling.h).
 * Every answer holds "seconds", an object: what the time since the last one went into, by tern_gpu_time_name. Anything that is no candidate's fault answers {"status", "error", "hint"}. After a fault of the device the answer holds
 * "sticky": true and the process ends: the context is lost. */
#ifndef TERN_WORKER_GPU_H
#define TERN_WORKER_GPU_H

/* Launches and rests between cool ones are the device's, verification includes checks on small shapes and the host's part in
 * both, preparation is of layers, with their references. In the others the device waits for the host: parts of trials, of finals and of other requests,
 * and from an answer to the next request. */
enum tern_gpu_time {
    TERN_GPU_LAUNCHES,
    TERN_GPU_RESTS,
    TERN_GPU_VERIFICATION,
    TERN_GPU_PREPARATION,
    TERN_GPU_TRIALS,
    TERN_GPU_FINALS,
    TERN_GPU_OTHERS,
    TERN_GPU_REQUESTS,
    TERN_GPU_TIMES
};
const char *tern_gpu_time_name(enum tern_gpu_time which);

int tern_gpu_worker(void); /* returns the exit code */

#endif
