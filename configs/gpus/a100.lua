-- NVIDIA A100 SXM 80 GB: what planning and limits need to know of it.
-- Rates are dense, in 1e12 operations a second; memory_gbs is 1e9 bytes a second; data sheets count memory in GB of 2^30 bytes.
-- The PCIe card shares the chip; its memory is 5 % slower (1935 GB/s). The figures here are the SXM module's.
return {
    title = "NVIDIA A100 SXM 80 GB",
    arch = "sm_80",
    cc = 80,
    sms = 108,
    l2_bytes = 40 * 1024 * 1024,
    memory_bytes = 80 * 1024 * 1024 * 1024,
    smem_block_bytes = 163 * 1024,
    smem_sm_bytes = 164 * 1024,
    regs_sm = 65536,
    threads_sm = 2048,
    blocks_sm = 32,
    memory_gbs = 2039,
    clock_mhz = 1410,
    f16_tflops = 312,
    s8_tops = 624,
    f32_tflops = 19.5,
    device_names = { "NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe" },
    source = "NVIDIA A100 80GB data sheet (312 FP16, 624 INT8, 19.5 FP32 dense, 2039 GB/s SXM); 108 SMs, 40 "
        .. "MB L2: A100 white paper. SM limits: CUDA Programming Guide, technical specifications per "
        .. "compute capability.",
}
