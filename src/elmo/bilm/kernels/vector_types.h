/* A vector of floats of any width.  The file of an instruction set defines VL, the number of floats in a vector,
   and MR, the maximum number of rows in a register tile, before it includes this.  NR = 4 VL is the number of columns
   of a tile: the four gates of VL cells, or 4 VL plain columns. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define NR (4 * VL)

#define INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(4 * VL)));
typedef float vf_loose __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(4 * VL)));

INLINE vf load(const float *p) { return *(const vf_loose *)p; }
INLINE void store(float *p, vf v) { *(vf_loose *)p = v; }
INLINE vf splat(float x) { return x - (vf){0}; }
