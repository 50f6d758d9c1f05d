-- NVIDIA L40S: what planning and limits need to know of it.
-- Rates are dense, in 1e12 operations a second; memory_gbs is 1e9 bytes a second; data sheets count memory in GB of 2^30 bytes.
return {
    title = "NVIDIA L40S",
    arch = "sm_89",
    cc = 89,
    sms = 142,
    l2_bytes = 96 * 1024 * 1024,
    memory_bytes = 48 * 1024 * 1024 * 1024,
    smem_block_bytes = 99 * 1024,
    smem_sm_bytes = 100 * 1024,
    regs_sm = 65536,
    threads_sm = 1536,
    blocks_sm = 24,
    memory_gbs = 864,
    clock_mhz = 2520,
    f16_tflops = 362,
    s8_tops = 733,
    f32_tflops = 91.6,
    device_names = { "NVIDIA L40S" },
    source = "NVIDIA L40S data sheet (362.05 FP16, 733 INT8 dense, 91.6 FP32, 864 GB/s, 48 GB); 142 SMs, 96 "
        .. "MB L2: Ada (AD102) white paper. SM limits: CUDA Programming Guide, technical specifications per "
        .. "compute capability.",
}
