/* One vector of floats, whatever the machine's width, and the few functions that the compiler's operators lack.

   The including file defines VARIANT_AVX512, VARIANT_AVX2 or neither (portable: 4 floats, SSE2 or NEON by the
   compiler).  VL is the number of floats in a vector, MR the most rows in a register tile, NR = 4 VL the columns of
   a tile: the four gates of VL cells, or 4 VL plain columns. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(VARIANT_AVX512)
#include <immintrin.h>
#define VL 16
#define MR 6
#elif defined(VARIANT_AVX2)
#include <immintrin.h>
#define VL 8
#define MR 3
#else
#define VL 4
#if defined(__aarch64__)
#define MR 6
#else
#define MR 2 /* SSE2 has sixteen registers and no fused product: more rows would not stay in them */
#endif
#endif
#define NR (4 * VL)

#define INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(4 * VL)));
typedef float vf_loose __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(4 * VL)));

INLINE vf load(const float *p) { return *(const vf_loose *)p; }
INLINE void store(float *p, vf v) { *(vf_loose *)p = v; }
INLINE vf splat(float x) { return x - (vf){0}; }

/* Half-precision numbers: sign, 5 bits of exponent, 10 of fraction; infinities do not occur among weights. */
#if defined(VARIANT_AVX512)
INLINE vf load_halves(const uint16_t *p) { return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
#elif defined(VARIANT_AVX2)
INLINE vf load_halves(const uint16_t *p) { return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
#else
INLINE vf load_halves(const uint16_t *p)
{
    vi bits;
    for (int j = 0; j < VL; j++) bits[j] = p[j];
    vi magnitude = bits & 0x7fff, small = magnitude < 0x400;
    vi exact = (vi)(__builtin_convertvector(magnitude, vf) * 0x1p-24f); /* no exponent: multiples of 2^-24 */
    vi moved = (magnitude << 13) + 0x38000000;
    return (vf)((small & exact) | (~small & moved) | (bits & 0x8000) << 16);
}
#endif

/* The nearest half, ties to even; what is too large becomes the largest half. */
INLINE uint16_t half_of(float x)
{
    float magnitude = fabsf(x) > 65504.0f ? 65504.0f : fabsf(x);
    uint32_t bits;
    memcpy(&bits, &x, 4);
    uint16_t sign = bits >> 16 & 0x8000;
    if (magnitude < 0x1p-14f) return sign | (uint16_t)lrintf(magnitude * 0x1p24f);
    memcpy(&bits, &magnitude, 4);
    bits += 0xfff + (bits >> 13 & 1);
    return sign | (uint16_t)((bits - 0x38000000) >> 13);
}

/* In both, a NaN in `x` comes through, as in torch.clamp. */
#if defined(VARIANT_AVX512)
INLINE vf at_most(vf bound, vf x) { return (vf)_mm512_min_ps((__m512)bound, (__m512)x); }
INLINE vf at_least(vf bound, vf x) { return (vf)_mm512_max_ps((__m512)bound, (__m512)x); }
INLINE vf reciprocal(vf x)
{
    vf y = (vf)_mm512_rcp14_ps((__m512)x);
    return y + y * (1.0f - x * y);
}
#elif defined(VARIANT_AVX2)
INLINE vf at_most(vf bound, vf x) { return (vf)_mm256_min_ps((__m256)bound, (__m256)x); }
INLINE vf at_least(vf bound, vf x) { return (vf)_mm256_max_ps((__m256)bound, (__m256)x); }
INLINE vf reciprocal(vf x) { return 1.0f / x; }
#else
INLINE vf pick(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }
INLINE vf at_most(vf bound, vf x) { return pick(bound < x, bound, x); }
INLINE vf at_least(vf bound, vf x) { return pick(bound > x, bound, x); }
INLINE vf reciprocal(vf x) { return 1.0f / x; }
#endif

INLINE vf clamp(vf x, float bound) { return at_most(splat(bound), at_least(splat(-bound), x)); }

/* exp(x) = scale * (1 + fraction), both exact to about an ulp; |x| must be below 87. */
INLINE void exp_parts(vf x, vf *scale, vf *fraction)
{
    const float shifter = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer kept in the low bits */
    vf shifted = x * 1.44269504088896341f + shifter;
    vf n = shifted - shifter;
    vf r = x - n * 0.693145751953125f;
    r = r - n * 1.42860682030941723212e-6f;
    *scale = (vf)(((vi)shifted + (127 - 0x4B400000)) << 23);
    vf p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    *fraction = p * (r * r) + r;
}

/* The denominator of the logistic function: sigmoid(x) = 1 / (1 + exp(-x)). */
INLINE vf sigmoid_below(vf x)
{
    vf scale, fraction;
    exp_parts(clamp(-x, 64.0f), &scale, &fraction);
    return scale * fraction + (scale + 1.0f);
}

/* tanh(x) = above / below with above = exp(2x) - 1, so that small x keep their relative precision. */
INLINE void tanh_parts(vf x, vf *above, vf *below)
{
    vf scale, fraction;
    exp_parts(clamp(x + x, 20.0f), &scale, &fraction);
    *above = scale * fraction + (scale - 1.0f);
    *below = *above + 2.0f;
}

INLINE vf sigmoid(vf x) { return reciprocal(sigmoid_below(x)); }

INLINE vf tanh_vf(vf x)
{
    vf above, below;
    tanh_parts(x, &above, &below);
    return above * reciprocal(below);
}
