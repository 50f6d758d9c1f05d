/* The kernels that tern_rt brings itself: y[m][n] += bias[n] in binary16 or bfloat16, as PTX that every driver for CUDA 11 and
 * later translates for its GPU when a runtime is opened. Columns along x, rows along y, a thread a column of some rows; bound by
 * the memory traffic of y. */
#ifndef TERN_RUNTIME_BIAS_PTX_H
#define TERN_RUNTIME_BIAS_PTX_H

#define TERN_BIAS_ENTRY      "tern_bias"
#define TERN_BIAS_BF16_ENTRY "tern_bias_bf16"

/* %h1 holds the bias, %h2 what stands in y; `add` leaves their sum in %h3. */
#define TERN_BIAS_PTX(entry, prepare, add)                                                                                  \
    ".visible .entry " entry "(.param .u64 py, .param .u64 pbias, .param .u64 pm, .param .u64 pn) {\n"                      \
    "  .reg .pred %p<4>;\n  .reg .b16 %h<4>;\n  .reg .b32 %r<9>;\n  .reg .f32 %f<4>;\n  .reg .b64 %d<12>;\n"                \
    "  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %ntid.x;\n  mov.u32 %r3, %tid.x;\n"                                           \
    "  mad.lo.u32 %r4, %r1, %r2, %r3;\n  cvt.u64.u32 %d1, %r4;\n" /* column */                                              \
    "  ld.param.u64 %d2, [pn];\n  setp.ge.u64 %p1, %d1, %d2;\n  @%p1 bra DONE;\n"                                           \
    "  ld.param.u64 %d3, [pbias];\n  shl.b64 %d4, %d1, 1;\n  add.u64 %d5, %d3, %d4;\n  ld.global.b16 %h1, [%d5];\n" prepare \
    "  ld.param.u64 %d6, [py];\n  ld.param.u64 %d7, [pm];\n"                                                                \
    "  mov.u32 %r1, %ctaid.y;\n  mov.u32 %r2, %nctaid.y;\n"                                                                 \
    "  cvt.u64.u32 %d8, %r1;\n  cvt.u64.u32 %d9, %r2;\n" /* row, rows at once */                                            \
    "LOOP:\n  setp.ge.u64 %p2, %d8, %d7;\n  @%p2 bra DONE;\n"                                                               \
    "  mad.lo.u64 %d10, %d8, %d2, %d1;\n  shl.b64 %d10, %d10, 1;\n  add.u64 %d11, %d6, %d10;\n"                             \
    "  ld.global.b16 %h2, [%d11];\n" add "  st.global.b16 [%d11], %h3;\n"                                                   \
    "  add.u64 %d8, %d8, %d9;\n  bra LOOP;\n"                                                                               \
    "DONE:\n  ret;\n}\n"

/* bfloat16 is the upper half of a binary32, whose 24 bits make the second rounding of a sum of two the only one that counts.
 * That rounding is integer arithmetic, since instructions for it begin with compute capability 8.0; NaN stays NaN. */
static const char tern_bias_ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n" TERN_BIAS_PTX(TERN_BIAS_ENTRY, "", "  add.rn.f16 %h3, %h2, %h1;\n")
        TERN_BIAS_PTX(TERN_BIAS_BF16_ENTRY, "  cvt.u32.u16 %r5, %h1;\n  shl.b32 %r5, %r5, 16;\n  mov.b32 %f1, %r5;\n",
                      "  cvt.u32.u16 %r6, %h2;\n  shl.b32 %r6, %r6, 16;\n  mov.b32 %f2, %r6;\n"
                      "  add.rn.f32 %f3, %f2, %f1;\n  mov.b32 %r7, %f3;\n"
                      "  shr.u32 %r8, %r7, 16;\n  and.b32 %r8, %r8, 1;\n  add.u32 %r8, %r8, 0x7FFF;\n"
                      "  add.u32 %r8, %r8, %r7;\n  shr.u32 %r8, %r8, 16;\n"
                      "  testp.notanumber.f32 %p3, %f3;\n  selp.b32 %r8, 0x7FFF, %r8, %p3;\n  cvt.u16.u32 %h3, %r8;\n");

#endif
