-- NVIDIA B200 SXM: what planning and limits need to know of it.
-- Rates are dense, in 1e12 operations a second; memory_gbs is 1e9 bytes a second; data sheets count memory in GB of 2^30 bytes.
-- 2250 is the peak of tcgen05.mma; mma.sync reaches a fraction of it on this chip.
return {
    title = "NVIDIA B200 SXM",
    arch = "sm_100a",
    cc = 100,
    sms = 148,
    l2_bytes = 132644864,
    memory_bytes = 180 * 1024 * 1024 * 1024,
    smem_block_bytes = 227 * 1024,
    smem_sm_bytes = 228 * 1024,
    regs_sm = 65536,
    threads_sm = 2048,
    blocks_sm = 32,
    memory_gbs = 7700,
    clock_mhz = 1965,
    f16_tflops = 2250,
    s8_tops = 4500,
    f32_tflops = 75,
    device_names = { "NVIDIA B200" },
    source = "NVIDIA HGX B200 data sheet, per GPU (2250 FP16, 4500 INT8 dense, 75 FP32, 7.7 TB/s, 180 GB); "
        .. "148 SMs, 126.5 MiB L2, 1965 MHz: as its driver reports them (public device queries). SM limits: "
        .. "CUDA Programming Guide, technical specifications per compute capability.",
}
