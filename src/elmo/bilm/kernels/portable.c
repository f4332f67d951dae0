/* Any machine whose compiler has vector types: SSE2 on x86, NEON on ARM. */
#define VL 4
#if defined(__aarch64__)
#define MR 6
#else
#define MR 2 /* SSE2 has sixteen registers and no FMA: more rows would not fit in them */
#endif
#include "vector_types.h"

/* fp16: sign, 5 bits of exponent, 10 of fraction; infinities do not occur among weights. */
INLINE vf load_fp16(const uint16_t *p)
{
    vi bits;
    for (int j = 0; j < VL; j++) bits[j] = p[j];
    vi magnitude = bits & 0x7fff, small = magnitude < 0x400;
    vi exact = (vi)(__builtin_convertvector(magnitude, vf) * 0x1p-24f); /* subnormal: multiples of 2^-24 */
    vi moved = (magnitude << 13) + 0x38000000;
    return (vf)((small & exact) | (~small & moved) | (bits & 0x8000) << 16);
}

/* Both pass a NaN in `x` on, as torch.clamp does. */
INLINE vf pick(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }
INLINE vf at_most(vf bound, vf x) { return pick(bound < x, bound, x); }
INLINE vf at_least(vf bound, vf x) { return pick(bound > x, bound, x); }
INLINE vf reciprocal(vf x) { return 1.0f / x; }

#define INT8_RANGE 127
INLINE vi add_int8_products(vi sum, vi a, vi b)
{
    for (int shift = 0; shift < 32; shift += 8) sum += ((a >> shift) & 255) * ((b << (24 - shift)) >> 24);
    return sum;
}

static int supported(void) { return 1; }

#define VARIANT_NAME "portable"
#define VARIANT_RANK 0
#include "variant.h"
