/* x86 with AVX-512 (F, BW, DQ, VL), and VNNI and BF16 where the processor has them.  The pragmas replace compiler flags,
   which would apply to every file. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#endif
#define VL 16
#define MR 6
#include <immintrin.h>
#include "vector_types.h"

static int has_vnni, has_bf16; /* instructions for sums of int8 products and of bf16 products */

INLINE vf load_fp16(const uint16_t *p) { return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }

/* Both pass a NaN in `x` on, as torch.clamp does. */
INLINE vf at_most(vf bound, vf x) { return (vf)_mm512_min_ps((__m512)bound, (__m512)x); }
INLINE vf at_least(vf bound, vf x) { return (vf)_mm512_max_ps((__m512)bound, (__m512)x); }
INLINE vf reciprocal(vf x)
{
    vf y = (vf)_mm512_rcp14_ps((__m512)x);
    return y + y * (1.0f - x * y);
}

/* The instruction adds two products in 16 bits; a smaller range on the left keeps the sum exact. */
#define INT8_RANGE (has_vnni ? 127 : 63)
INLINE vi add_int8_products(vi sum, vi a, vi b)
{
    __m512i pairs = _mm512_maddubs_epi16((__m512i)a, (__m512i)b);
    return sum + (vi)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
}

/* In assembly, because intrinsics would need these instruction sets enabled for the whole file. */
#define INT8_INSTRUCTION has_vnni
INLINE vi add_int8_at_once(vi sum, vi a, vi b)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}

#define BF16_INSTRUCTION has_bf16
INLINE vi add_bf16_at_once(vi sum, vi a, vi b)
{
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}

static int supported(void)
{
    __builtin_cpu_init();
    has_vnni = __builtin_cpu_supports("avx512vnni") > 0;
    has_bf16 = __builtin_cpu_supports("avx512bf16") > 0;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
           __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

#define VARIANT_NAME "avx512"
#define VARIANT_RANK 2
#include "variant.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
