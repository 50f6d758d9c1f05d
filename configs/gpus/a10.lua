-- NVIDIA A10: what planning and limits need to know of it.
-- Rates are dense, in 1e12 operations a second; memory_gbs is 1e9 bytes a second; data sheets count memory in GB of 2^30 bytes.
return {
    title = "NVIDIA A10",
    arch = "sm_86",
    cc = 86,
    sms = 72,
    l2_bytes = 6 * 1024 * 1024,
    memory_bytes = 24 * 1024 * 1024 * 1024,
    smem_block_bytes = 99 * 1024,
    smem_sm_bytes = 100 * 1024,
    regs_sm = 65536,
    threads_sm = 1536,
    blocks_sm = 16,
    memory_gbs = 600,
    clock_mhz = 1695,
    f16_tflops = 125,
    s8_tops = 250,
    f32_tflops = 31.2,
    device_names = { "NVIDIA A10" },
    source = "NVIDIA A10 data sheet (125 FP16, 250 INT8, 31.2 FP32 dense, 600 GB/s, 24 GB); 72 SMs, 6 MB L2: "
        .. "GA102 white paper. SM limits: CUDA Programming Guide, technical specifications per compute "
        .. "capability.",
}
