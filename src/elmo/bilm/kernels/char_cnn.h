/* The character CNN: see elmo_char_cnn in kernels.h.

   Blocks are numbered from the last bank to the first, because the widest filters come last and take longest: threads
   that take blocks in turn then finish at about the same time.

   Words are padded at the end, and the filters see the padding.  All windows that contain only padding have the same
   value, which is computed once. */

typedef struct {
    const elmo_bank *bank;
    int64_t number; /* in its bank */
    int64_t filters;
} filter_block;

static filter_block find_block(const elmo_char_cnn *n, int64_t index)
{
    for (int64_t i = n->num_banks - 1;; i--) {
        const elmo_bank *bank = &n->banks[i];
        int64_t blocks = ceil_div(bank->num_filters, NR);
        if (index < blocks) return (filter_block){bank, index, min64(NR, bank->num_filters - index * NR)};
        index -= blocks;
    }
}

/* products[place][character][NR] */
static void make_products(const elmo_char_cnn *n, filter_block b, float *products)
{
    const float *weight = b.bank->weight + b.number * b.bank->width * n->dim * NR, *rows[MR];
    for (int64_t place = 0; place < b.bank->width; place++, weight += n->dim * NR)
        for (int64_t c = 0; c < n->num_characters; c += MR) {
            int64_t count = min64(MR, n->num_characters - c);
            for (int64_t i = 0; i < count; i++) rows[i] = n->embedding + (c + i) * n->dim;
            chain_fp32(count, rows, INT64_MAX, 0, 0, n->dim, (const char *)weight, NOTHING_AHEAD(weight),
                            products + (place * n->num_characters + c) * NR, 1);
        }
}

INLINE void add_window(const float *products, int64_t characters, const int32_t *spelt, int64_t width, vf sum[4])
{
    const float *row = products + spelt[0] * NR;
    for (int j = 0; j < 4; j++) sum[j] = load(row + j * VL);
    for (int64_t place = 1; place < width; place++) {
        row = products + (place * characters + spelt[place]) * NR;
        for (int j = 0; j < 4; j++) sum[j] += load(row + j * VL);
    }
}

/* The number of windows that contain a character of the word, and whether windows that contain only padding follow. */
INLINE int64_t own_windows(const elmo_char_cnn *n, int64_t width, int64_t length, int *padded)
{
    int64_t all = n->max_characters - width + 1;
    *padded = length < all;
    return min64(length, all);
}

INLINE void word_maximum(const elmo_char_cnn *n, int64_t width, const float *products, const vf padding[4],
                         int64_t word, vf best[4], vi at[4], const int places)
{
    const int32_t *spelt = n->spelling + word * n->max_characters;
    int padded;
    int64_t windows = own_windows(n, width, n->lengths[word], &padded);
    for (int j = 0; j < 4; j++) {
        best[j] = padded ? padding[j] : splat(-INFINITY);
        if (places) at[j] = (vi){0} + (int32_t)windows;
    }
    for (int64_t s = 0; s < windows; s++) {
        vf sum[4];
        add_window(products, n->num_characters, spelt + s, width, sum);
        for (int j = 0; j < 4; j++) {
            if (places) {
                vi larger = sum[j] > best[j];
                at[j] = (at[j] & ~larger) | (((vi){0} + (int32_t)s) & larger);
            }
            best[j] = at_least(best[j], sum[j]);
        }
    }
}

static void padding_window(const elmo_char_cnn *n, int64_t width, const float *products, vf sum[4])
{
    for (int j = 0; j < 4; j++) sum[j] = (vf){0};
    for (int64_t place = 0; place < width; place++)
        for (int j = 0; j < 4; j++)
            sum[j] += load(products + (place * n->num_characters + n->padding) * NR + j * VL);
}

INLINE void convolve_words(const elmo_char_cnn *n, filter_block b, const float *products, const int places)
{
    vf padding[4], best[4];
    vi at[4];
    const float *bias = b.bank->bias + b.number * NR;
    int64_t column = b.bank->first_filter + b.number * NR;
    padding_window(n, b.bank->width, products, padding);
    for (int64_t word = 0; word < n->num_words; word++) {
        float found[NR];
        int32_t where[NR];
        word_maximum(n, b.bank->width, products, padding, word, best, at, places);
        for (int j = 0; j < 4; j++) {
            store(found + j * VL, activate_vf(best[j] + load(bias + j * VL), n->activation));
            if (places) memcpy(where + j * VL, &at[j], sizeof at[j]);
        }
        memcpy(n->out + word * n->num_filters + column, found, b.filters * sizeof(float));
        if (places)
            for (int64_t f = 0; f < b.filters; f++)
                n->winner[word * n->num_filters + column + f] = (uint8_t)where[f];
    }
}

static void convolve(const elmo_char_cnn *n, int64_t index)
{
    filter_block b = find_block(n, index);
    float *products = elmo_scratch_take(b.bank->width * n->num_characters * NR * sizeof(float));
    if (!products) return;
    make_products(n, b, products);
    if (n->winner) convolve_words(n, b, products, 1);
    else convolve_words(n, b, products, 0);
    elmo_scratch_give(products);
}

/* Gradients of the products: each word's goes to the characters of the window with the maximum. */
static void products_backward(const elmo_char_cnn *n, filter_block b, float *d_products, float *d_bias)
{
    int64_t column = b.bank->first_filter + b.number * NR, width = b.bank->width, step = n->num_characters * NR;
    for (int64_t word = 0; word < n->num_words; word++) {
        int64_t start = word * n->num_filters + column;
        const int32_t *spelt = n->spelling + word * n->max_characters;
        for (int64_t f = 0; f < b.filters; f++) {
            float found = n->out[start + f], d = n->d_out[start + f];
            if (n->activation == ELMO_RELU) d = found > 0.0f ? d : 0.0f;
            if (n->activation == ELMO_TANH) d *= 1.0f - found * found;
            if (d == 0.0f) continue;
            d_bias[f] += d;
            const int32_t *at = spelt + n->winner[start + f];
            float *to = d_products + f;
            for (int64_t place = 0; place < width; place++, to += step) to[at[place] * NR] += d;
        }
    }
}

/* products = embedding x weight, so each gradient is a product with the other. */
static void factors_backward(const elmo_char_cnn *n, filter_block b, const float *d_products, float *d_embedding)
{
    int64_t dim = n->dim, offset = b.number * b.bank->width * dim * NR;
    const float *weight = b.bank->weight + offset;
    float *d_weight = b.bank->d_weight + offset;
    for (int64_t place = 0; place < b.bank->width; place++)
        for (int64_t c = 0; c < n->num_characters; c++, d_products += NR)
            for (int64_t k = 0; k < dim; k++) {
                vf x = splat(n->embedding[c * dim + k]), dot = {0};
                for (int64_t j = 0; j < NR; j += VL) {
                    int64_t at = (place * dim + k) * NR + j;
                    vf d = load(d_products + j);
                    store(d_weight + at, load(d_weight + at) + x * d);
                    dot += d * load(weight + at);
                }
                float total = 0.0f;
                for (int lane = 0; lane < VL; lane++) total += dot[lane];
                d_embedding[c * dim + k] += total;
            }
}

static void convolve_backward(const elmo_char_cnn *n, int64_t index)
{
    filter_block b = find_block(n, index);
    int64_t products = b.bank->width * n->num_characters * NR, weights = b.bank->width * n->dim * NR;
    float *d_products = elmo_scratch_take(products * sizeof(float));
    float *d_embedding = n->d_embedding + index * n->num_characters * n->dim;
    if (!d_products) return;
    memset(d_products, 0, products * sizeof(float));
    memset(d_embedding, 0, n->num_characters * n->dim * sizeof(float));
    memset(b.bank->d_weight + b.number * weights, 0, weights * sizeof(float));
    memset(b.bank->d_bias + b.number * NR, 0, NR * sizeof(float));
    products_backward(n, b, d_products, b.bank->d_bias + b.number * NR);
    factors_backward(n, b, d_products, d_embedding);
    elmo_scratch_give(d_products);
}
