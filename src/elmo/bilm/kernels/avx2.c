/* x86 with AVX2, FMA and F16C.  The pragmas replace compiler flags, which would apply to every file. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif
#define VL 8
#define MR 3
#include <immintrin.h>
#include "vector_types.h"

INLINE vf load_fp16(const uint16_t *p) { return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }

/* Both pass a NaN in `x` on, as torch.clamp does. */
INLINE vf at_most(vf bound, vf x) { return (vf)_mm256_min_ps((__m256)bound, (__m256)x); }
INLINE vf at_least(vf bound, vf x) { return (vf)_mm256_max_ps((__m256)bound, (__m256)x); }
INLINE vf reciprocal(vf x) { return 1.0f / x; }

/* The instruction adds two products in 16 bits; a smaller range on the left keeps the sum exact. */
#define INT8_RANGE 63
INLINE vi add_int8_products(vi sum, vi a, vi b)
{
    __m256i pairs = _mm256_maddubs_epi16((__m256i)a, (__m256i)b);
    return sum + (vi)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

static int supported(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

#define VARIANT_NAME "avx2"
#define VARIANT_RANK 1
#include "variant.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
