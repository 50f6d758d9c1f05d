-- NVIDIA GeForce RTX 4090: what planning and limits need to know of it.
-- Rates are dense, in 1e12 operations a second; memory_gbs is 1e9 bytes a second; data sheets count memory in GB of 2^30 bytes.
-- FP16 with FP32 accumulation runs at half the rate of FP16 accumulation on GeForce cards.
return {
    title = "NVIDIA GeForce RTX 4090",
    arch = "sm_89",
    cc = 89,
    sms = 128,
    l2_bytes = 72 * 1024 * 1024,
    memory_bytes = 24 * 1024 * 1024 * 1024,
    smem_block_bytes = 99 * 1024,
    smem_sm_bytes = 100 * 1024,
    regs_sm = 65536,
    threads_sm = 1536,
    blocks_sm = 24,
    memory_gbs = 1008,
    clock_mhz = 2520,
    f16_tflops = 165.2,
    s8_tops = 660.6,
    f32_tflops = 82.6,
    device_names = { "NVIDIA GeForce RTX 4090" },
    source = "NVIDIA Ada white paper, appendix A (165.2 FP16 with FP32 accumulation, 660.6 INT8 dense, 82.6 "
        .. "FP32, 1008 GB/s, 128 SMs, 72 MB L2, 2520 MHz). SM limits: CUDA Programming Guide, technical "
        .. "specifications per compute capability.",
}
