/* Functions of vectors that are the same for all instruction sets. */

/* The nearest fp16 number, ties to even; larger numbers become the largest one. */
INLINE uint16_t to_fp16(float x)
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
