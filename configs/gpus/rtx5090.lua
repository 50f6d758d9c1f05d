-- NVIDIA GeForce RTX 5090: what planning and limits need to know of it.
-- Rates are dense, in 1e12 operations a second; memory_gbs is 1e9 bytes a second; data sheets count memory in GB of 2^30 bytes.
-- FP16 with FP32 accumulation runs at half the rate of FP16 accumulation on GeForce cards.
return {
    title = "NVIDIA GeForce RTX 5090",
    arch = "sm_120a",
    cc = 120,
    sms = 170,
    l2_bytes = 96 * 1024 * 1024,
    memory_bytes = 32 * 1024 * 1024 * 1024,
    smem_block_bytes = 99 * 1024,
    smem_sm_bytes = 100 * 1024,
    regs_sm = 65536,
    threads_sm = 1536,
    blocks_sm = 24,
    memory_gbs = 1792,
    clock_mhz = 2407,
    f16_tflops = 209.5,
    s8_tops = 838,
    f32_tflops = 104.8,
    device_names = { "NVIDIA GeForce RTX 5090" },
    source = "NVIDIA RTX Blackwell white paper, appendix A (209.5 FP16 with FP32 accumulation, 838 INT8 "
        .. "dense, 104.8 FP32, 1792 GB/s, 170 SMs, 96 MB L2, 2407 MHz, 32 GB). SM limits: CUDA Programming "
        .. "Guide, technical specifications per compute capability.",
}
