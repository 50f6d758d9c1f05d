-- NVIDIA H200 SXM: what planning and limits need to know of it.
-- Rates are dense, in 1e12 operations a second; memory_gbs is 1e9 bytes a second; data sheets count memory in GB of 2^30 bytes.
-- The limit of a problem uses the data sheet's rate: no kernel can pass it. What was reached on an H200: mma.sync f16 with f32
-- accumulation 622 TFLOPS, cuBLAS FP16 650 to 790 (large products run at the 700 W power cap, at less than the boost clock).
return {
    title = "NVIDIA H200 SXM",
    arch = "sm_90a",
    cc = 90,
    sms = 132,
    l2_bytes = 60 * 1024 * 1024,
    memory_bytes = 141 * 1024 * 1024 * 1024,
    smem_block_bytes = 227 * 1024,
    smem_sm_bytes = 228 * 1024,
    regs_sm = 65536,
    threads_sm = 2048,
    blocks_sm = 32,
    memory_gbs = 4800,
    clock_mhz = 1980,
    f16_tflops = 989,
    s8_tops = 1243,
    f32_tflops = 66.9,
    launch_us = 0.51, -- an empty kernel of one block as a graph node
    -- {MB, us}: cold read inside a graph
    cold_read = { { 1, 2.1 }, { 2, 2.25 }, { 4, 2.6 }, { 8, 3.5 }, { 16, 5.4 }, { 32, 9.1 }, { 64, 16.6 }, { 128, 30.7 } },
    device_names = { "NVIDIA H200" },
    source = "Data sheet: 141 GB, 4.8 TB/s, 989 FP16 dense, 66.9 FP32, 132 SMs. Measured by this project on an H200 SXM "
        .. "(driver 580, CUDA 13.0): cold_read, launch_us, s8_tops, L2 as the driver reports "
        .. "it. SM limits: CUDA Programming Guide, technical specifications per compute capability.",
}
