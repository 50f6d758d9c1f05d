-- NVIDIA T4: what planning and limits need to know of it.
-- Rates are dense, in 1e12 operations a second; memory_gbs is 1e9 bytes a second; data sheets count memory in GB of 2^30 bytes.
-- The data sheet's 65 TFLOPS are reached with FP16 or FP32 accumulation alike on this card.
return {
    title = "NVIDIA T4",
    arch = "sm_75",
    cc = 75,
    sms = 40,
    l2_bytes = 4 * 1024 * 1024,
    memory_bytes = 16 * 1024 * 1024 * 1024,
    smem_block_bytes = 64 * 1024,
    smem_sm_bytes = 64 * 1024,
    regs_sm = 65536,
    threads_sm = 1024,
    blocks_sm = 16,
    memory_gbs = 320,
    clock_mhz = 1590,
    f16_tflops = 65,
    s8_tops = 130,
    f32_tflops = 8.1,
    device_names = { "Tesla T4", "NVIDIA T4" },
    source = "NVIDIA T4 data sheet (65 FP16, 130 INT8, 8.1 FP32, 320 GB/s, 16 GB); 40 SMs, 4 MB L2: Turing "
        .. "architecture white paper (TU104). SM limits: CUDA Programming Guide, technical specifications "
        .. "per compute capability.",
}
