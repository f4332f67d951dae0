/* The element-wise part of a highway layer, forward and backward; see elmo_highway in kernels.h. */

INLINE vf load_some(const float *p, int64_t width)
{
    float padded[VL] = {0};
    if (width >= VL) return load(p);
    memcpy(padded, p, width * sizeof(float));
    return load(padded);
}

INLINE void store_some(float *p, vf x, int64_t width)
{
    float padded[VL];
    store(padded, x);
    if (width >= VL) store(p, x);
    else memcpy(p, padded, width * sizeof(float));
}

static void highway_forward(const elmo_highway *h, int64_t part, int64_t parts)
{
    for (int64_t i = part * h->num_rows / parts; i < (part + 1) * h->num_rows / parts; i++) {
        const float *x = h->x + i * h->dim;
        float *gate = h->sums + 2 * i * h->dim, *transform = gate + h->dim, *y = h->y + i * h->dim;
        for (int64_t j = 0; j < h->dim; j += VL) {
            int64_t width = h->dim - j;
            vf g = sigmoid(load_some(gate + j, width)), t = at_least((vf){0}, load_some(transform + j, width));
            vf from = load_some(x + j, width);
            store_some(gate + j, g, width);
            store_some(transform + j, t, width);
            store_some(y + j, from + g * (t - from), width);
        }
    }
}

static void highway_backward(const elmo_highway *h, int64_t part, int64_t parts)
{
    for (int64_t i = part * h->num_rows / parts; i < (part + 1) * h->num_rows / parts; i++) {
        const float *gate = h->sums + 2 * i * h->dim, *transform = gate + h->dim;
        float *d_gate = h->d_sums + 2 * i * h->dim, *d_transform = d_gate + h->dim;
        for (int64_t j = 0; j < h->dim; j += VL) {
            int64_t width = h->dim - j;
            vf g = load_some(gate + j, width), t = load_some(transform + j, width);
            vf x = load_some(h->x + i * h->dim + j, width), d = load_some(h->d_y + i * h->dim + j, width);
            store_some(d_gate + j, d * (t - x) * (g - g * g), width);
            store_some(d_transform + j, (vf)((vi)(d * g) & (t > 0.0f)), width);
            store_some(h->d_x + i * h->dim + j, d - d * g, width);
        }
    }
}
