-- NVIDIA H100 SXM: what planning and limits need to know of it.
-- Rates are dense, in 1e12 operations a second; memory_gbs is 1e9 bytes a second; data sheets count memory in GB of 2^30 bytes.
-- 989.4 is the peak of wgmma at boost clock; mma.sync reaches about two thirds of it, and large products run at the power cap.
return {
    title = "NVIDIA H100 SXM",
    arch = "sm_90a",
    cc = 90,
    sms = 132,
    l2_bytes = 50 * 1024 * 1024,
    memory_bytes = 80 * 1024 * 1024 * 1024,
    smem_block_bytes = 227 * 1024,
    smem_sm_bytes = 228 * 1024,
    regs_sm = 65536,
    threads_sm = 2048,
    blocks_sm = 32,
    memory_gbs = 3352,
    clock_mhz = 1830,
    f16_tflops = 989.4,
    s8_tops = 1978.9,
    f32_tflops = 66.9,
    device_names = { "NVIDIA H100 80GB HBM3" },
    source = "NVIDIA H100 white paper and data sheet, SXM5 (989.4 FP16, 1978.9 INT8 dense, 66.9 FP32, 3352 "
        .. "GB/s, 80 GB, 132 SMs, 50 MB L2). SM limits: CUDA Programming Guide, technical specifications "
        .. "per compute capability.",
}
