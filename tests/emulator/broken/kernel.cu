// broken: appended to examples/templates/naive/kernel.cu, whose decoder it uses; BUG chooses what goes wrong.
static int launches;          // of this object so far
static const void *seen_codes; // of the first launch

extern "C" __global__ void __launch_bounds__(THREADS) tern_broken(struct tern_args args) {
    const long long n = (long long)blockIdx.x * THREADS + threadIdx.x;
    const __half *x = static_cast<const __half *>(args.x);
    unsigned short *y = static_cast<unsigned short *>(args.y);
    if (n == 0) {
        launches++;
        if (seen_codes == nullptr)
            seen_codes = args.codes;
    }
    if (BUG == 8 && n == 5)
        __trap();
    if (BUG == 13 && n == 5)
        for (;;)
            tern_emu_yield();
    volatile int local[4] = {};
    volatile int index = BUG == 14 ? 4 : 3;
    if (local[index] == 123456789) // an overread that nothing but ASan notices
        return;
    if (n >= args.n)
        return;
    if (BUG == 9) // keeps what it decoded from the first weights
        args.codes = seen_codes;
    for (long long m = 0; m < args.m; m++) {
        float sum = 0.0f;
        int ones = 0;
        for (long long k = 0; k < args.k; k++) {
            const long long side = side_index(args, n, k / args.group_size);
            const int zero = HAS_ZEROS ? static_cast<const unsigned char *>(args.zeros)[side] : ZERO;
            const float scale = __half2float(static_cast<const __half *>(args.scales)[side]);
            const float value = __half2float(x[m * args.k + k]);
            ones += value != 0.0f;
            sum = __fmaf_rn((float)((int)code_of(args, n, k) - zero) * scale, value, sum);
        }
        const bool last = m == args.m - 1 && n == args.n - 1;
        if (BUG == 1 && last)
            sum = sum * 1.01f + 0.001f;
        if (BUG == 5) // NaN-proof: hides the first poison, not the second
            sum = fmaxf(sum, __half2float(static_cast<const __half *>(args.workspace)[0]));
        if (BUG == 6 && ones == 1) // a single weight read wrongly
            sum += 0.125f;
        if (args.bias && BUG != 15)
            sum += __half2float(static_cast<const __half *>(args.bias)[n]);
        unsigned short bits = __half_as_ushort(__float2half_rn(sum));
        if (BUG == 2 && last)
            bits = 0x7FFF;
        if (BUG == 10 && last && launches == 2)
            bits ^= 1;
        if (!(BUG == 3 && last))
            y[m * args.n + n] = bits;
    }
    if (BUG == 4 && n == 0)
        y[args.m * args.n] = 0;
    if (BUG == 7 && n == 0) // padding of the last row tile: no result shows it
        const_cast<unsigned char *>(static_cast<const unsigned char *>(args.scales))[2 * 16 * ((args.n + 15) / 16) * args.groups - 2] = 1;
}
