/* planted: appended to examples/templates/naive/kernel.cu, whose decoder it uses. A right kernel, a thread for one column of y,
 * with one FAULT planted: everywhere (WHERE 0), or only on problems that are larger than the small odd shapes (WHERE 1), so that a
 * candidate passes its check and fails in its trial. What each must become: tests/gpu/planted.sh. */
enum fault {
    NONE,
    ENDLESS,
    ILLEGAL_ADDRESS,
    TRAP,
    MISALIGNED,
    BEHIND_Y,
    BEFORE_Y,
    UNWRITTEN,
    NOT_A_NUMBER,
    WRONG,
    RACE,           /* of warps about a word; one bit of it moves the sums by less than the bound */
    CHANGES_INPUT,  /* the last code of the weights: of a row behind the last where N is no multiple of 16 */
    REFUSED_LAUNCH, /* more threads than it was compiled for (space.lua) */
    BEHIND_WORKSPACE,
    HARMLESS_RACE,     /* the same race without effect: only racecheck sees it */
    HARMLESS_OVERREAD, /* only memcheck sees it */
    HARMLESS_BARRIER   /* warps meet at two places, which the hardware takes for one barrier: only synccheck sees it */
};

#ifndef TERN_EMULATOR
extern "C" __global__ void __launch_bounds__(THREADS) tern_planted(const struct tern_args args) {
    __shared__ volatile unsigned raced;
    const int fault = WHERE == 0 || args.n >= 256 ? FAULT : NONE;
    const long long n = (long long)blockIdx.x * THREADS + threadIdx.x;
    const bool first = n == 0, last = n == args.n - 1;
    unsigned short *y = static_cast<unsigned short *>(args.y);
    const __half *x = static_cast<const __half *>(args.x);
    if (fault == ENDLESS && first)
        while (static_cast<volatile unsigned short *>(args.y)[0] != 0x1234 || clock64() != 0)
            continue;
    if (fault == ILLEGAL_ADDRESS && first)
        *reinterpret_cast<volatile unsigned *>(16ull) = 1;
    if (fault == TRAP && first)
        __trap();
    if (fault == MISALIGNED && first)
        *reinterpret_cast<volatile unsigned *>(y + 1) = 1;
    if (fault == BEHIND_Y && first)
        y[args.m * args.n] = 0;
    if (fault == BEFORE_Y && first)
        y[-1] = 0;
    if (fault == BEHIND_WORKSPACE && first)
        static_cast<unsigned char *>(args.workspace)[256] = 0;
    if (fault == HARMLESS_OVERREAD && first && static_cast<volatile unsigned short *>(args.y)[args.m * args.n] == 0x1234)
        __trap();
    if (fault == RACE || fault == HARMLESS_RACE)
        raced = (unsigned)clock64() + threadIdx.x / 32;
    if (fault == HARMLESS_RACE)
        (void)raced;
    if (fault == HARMLESS_BARRIER && threadIdx.x < 32)
        asm volatile("bar.sync 0; // of the first warp" : : : "memory");
    else if (fault == HARMLESS_BARRIER)
        asm volatile("bar.sync 0; // of the others" : : : "memory");
    if (n >= args.n)
        return;
    for (long long m = 0; m < args.m; m++) {
        float sum = 0.0f;
        for (long long group = 0; group < args.groups; group++) {
            const long long begin = group * args.group_size, end = min(begin + args.group_size, args.k),
                            side = side_index(args, n, group);
            const int zero = HAS_ZEROS ? static_cast<const unsigned char *>(args.zeros)[side] : ZERO;
            float part = 0.0f;
            for (long long k = begin; k < end; k++)
                part += (float)((int)code_of(args, n, k) - zero) * __half2float(x[m * args.k + k]);
            sum += part * __half2float(static_cast<const __half *>(args.scales)[side]);
        }
        sum += args.bias ? __half2float(static_cast<const __half *>(args.bias)[n]) : 0;
        if (fault == RACE && (raced >> 4 & 1u) != 0)
            sum *= 1.0001f;
        if (fault == WRONG && last && m == args.m - 1)
            sum = sum * 1.5f + 1.0f;
        unsigned short bits = __half_as_ushort(__float2half_rn(sum));
        if (fault == NOT_A_NUMBER && last)
            bits = 0x7E00;
        if (!(fault == UNWRITTEN && last && m == args.m - 1))
            y[m * args.n + n] = bits;
    }
    if (fault == CHANGES_INPUT && last)
        const_cast<unsigned char *>(static_cast<const unsigned char *>(
            args.codes))[(args.n + 15) / 16 * ((args.k + 127) / 128) * 256 * BITS - 1] = 0x5A;
}
#endif
