/* bomb: appended to examples/templates/naive/kernel.cu, whose kernel it builds; BOMB chooses how the compiler fails:
 *   0 not at all   1 endless: 2^60 template instantiations   2 more memory than a compile worker may have   3 an error
 *   4 a candidate that compiles, so that another follows the failures */
template <int DEPTH, int PLACE> struct endless {
    static constexpr int value = endless<DEPTH - 1, 2 * PLACE>::value ^ endless<DEPTH - 1, 2 * PLACE + 1>::value;
};
template <int PLACE> struct endless<0, PLACE> {
    static constexpr int value = PLACE;
};
static_assert(endless<BOMB == 1 ? 60 : 0, 1>::value != 0, "never false");

__device__ int huge[BOMB == 2 ? 0x7fffffffll : 1ll] = {1}; // an initialiser of 8 GiB

static_assert(BOMB != 3, "refused on purpose");
