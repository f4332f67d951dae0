/* x86 with AVX-512 (F, BW, DQ, VL). */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#endif
#define VARIANT_AVX512
#define VARIANT_NAME elmo_avx512
#define VARIANT_LABEL "avx512"
#include <immintrin.h>
#include "variant.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
