/* x86 with AVX2, FMA and F16C.  The pragmas stand in for compiler flags, which would hold for every file. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif
#define VARIANT_AVX2
#define VARIANT_NAME elmo_avx2
#define VARIANT_LABEL "avx2"
#include <immintrin.h>
#include "variant.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
