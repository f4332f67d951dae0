/* Complete products: tiles in an order that suits the caches, then bias and activation. */

/* Terms of K for which a panel stays in the second-level cache while all rows pass over it. */
#define STRETCH 512

INLINE const char *panel_at(const elmo_matrix *b, int64_t inner, int64_t p, int64_t k)
{
    if (b->format == ELMO_INT8) return (const char *)b->panels + (p * ceil_div(inner, 4) * 4 + k) * NR;
    if (b->format == ELMO_BFLOAT16) return (const char *)b->panels + (p * ceil_div(inner, 2) * 2 + k) * NR * 2;
    return (const char *)b->panels + (p * inner + k) * NR * (b->format == ELMO_FLOAT16 ? 2 : 4);
}

/* The tile number `tile` of `tiles` of panel p, rows from `start` on, over terms `from` .. `to`.  Each of several tiles
   also prefetches its share of `next`, the start of the next panel, spread evenly over its terms: memory is read while
   the sums come from the cache.  A single tile reads sequentially, which the hardware prefetcher handles best. */
static void tile_sum(int64_t rows, left_rows a, int64_t start, int64_t inner, int64_t from, int64_t to,
                     const elmo_matrix *b, int64_t p, int64_t tile, int64_t tiles, const char *next, float *sums,
                     int first)
{
    if (!a.rows) return; /* there was no memory to convert them: the result is reported as lost */
    int groups = b->format == ELMO_INT8 || b->format == ELMO_BFLOAT16;
    int64_t terms = groups ? terms_of_group(b->format) : 1, bytes = NR * (b->format == ELMO_FLOAT16 ? 2 : 4);
    int64_t share = (to - from) / terms * bytes / tiles;
    const char *panel = panel_at(b, inner, p, from);
    fetching ahead = NOTHING_AHEAD(panel);
    if (tiles > 1) ahead = (fetching){next + tile * share, share / 2, ceil_div(bytes, 2 * tiles)};
    if (groups) {
        sum_of_groups(rows, a, start, b, p, panel, from / terms, ceil_div(to, terms), ahead, sums, first);
        return;
    }
    for (int64_t k = from; k < to; k += CHAIN, first = 0, ahead.from += CHAIN * ahead.step)
        (b->format == ELMO_FLOAT16 ? chain_fp16 : chain_fp32)(
            rows, a.rows + start, a.block, a.jump, k, min64(CHAIN, to - k), panel_at(b, inner, p, k), ahead,
            sums, first);
}

INLINE vf activate_vf(vf x, int64_t activation)
{
    switch (activation) {
    case ELMO_RELU: return at_least((vf){0}, x);
    case ELMO_TANH: return tanh_vf(x);
    case ELMO_SIGMOID: return sigmoid(x);
    default: return x;
    }
}

/* Writes one row of a finished tile: adds it to the result of earlier stretches; after the last one, adds the bias and
   applies the activation. */
INLINE void finish_vector(const float *sum, float *target, const float *bias, int64_t activation, int add, int last)
{
    vf x = load(sum);
    if (add) x += load(target);
    if (last && bias) x += load(bias);
    store(target, last ? activate_vf(x, activation) : x);
}

static void finish_row(const float *sums, float *target, int64_t width, const float *bias, int64_t activation,
                       int add, int last)
{
    int64_t j = 0;
    if (activation == ELMO_IDENTITY) /* a separate loop, because this is the usual case */
        for (; j + VL <= width; j += VL) finish_vector(sums + j, target + j, bias ? bias + j : 0, 0, add, last);
    else
        for (; j + VL <= width; j += VL) finish_vector(sums + j, target + j, bias ? bias + j : 0, activation, add, last);
    if (j == width) return;
    float padded[2][VL] = {{0}}; /* the last, partial vector */
    memcpy(padded[0], target + j, (width - j) * sizeof(float));
    if (bias) memcpy(padded[1], bias + j, (width - j) * sizeof(float));
    finish_vector(sums + j, padded[0], bias ? padded[1] : 0, activation, add, last);
    memcpy(target + j, padded[0], (width - j) * sizeof(float));
}

/* out[i] (+)= activation(a[i] B + bias) for the panels first_panel .. last_panel - 1 of B. */
static void multiply(int64_t num_rows, left_rows a, int64_t inner, const elmo_matrix *b, int64_t num_columns,
                     int64_t first_panel, int64_t last_panel, const float *bias, int64_t activation, int accumulate,
                     float *const *out)
{
    int64_t tiles = ceil_div(num_rows, MR);
    int64_t stretch = tiles == 1 || b->format == ELMO_INT8 ? inner : b->format == ELMO_BFLOAT16 ? 2 * STRETCH : STRETCH;
    float sums[MR * NR] __attribute__((aligned(64)));
    converted_rows left = convert_rows(num_rows, a, inner, b);
    a = left.rows;
    for (int64_t from = 0; from < inner; from += stretch) {
        int64_t to = min64(from + stretch, inner);
        for (int64_t p = first_panel; p < last_panel; p++) {
            const char *next = p + 1 < last_panel ? panel_at(b, inner, p + 1, from) : panel_at(b, inner, first_panel, to);
            int64_t column = p * NR, width = min64(NR, num_columns - column);
            for (int64_t tile = 0; tile < tiles; tile++) {
                int64_t start = tile * num_rows / tiles, stop = (tile + 1) * num_rows / tiles;
                for (int64_t i = start; i < stop; i++)
                    for (int64_t j = 0; j < width; j += 16) __builtin_prefetch(out[i] + column + j, 1);
                tile_sum(stop - start, a, start, inner, from, to, b, p, tile, tiles, next, sums, 1);
                for (int64_t i = start; i < stop; i++)
                    finish_row(sums + (i - start) * NR, out[i] + column, width, bias ? bias + column : 0, activation,
                               accumulate || from > 0, to == inner);
            }
        }
    }
    elmo_scratch_give(left.memory);
}

/* Divides the rows of a product among `num_parts` threads when there are enough of them, otherwise the panels. */
static void product(const elmo_product *p, int64_t part, int64_t num_parts)
{
    int64_t panels = ceil_div(p->num_columns, NR), blocks = ceil_div(p->num_rows, MR);
    int by_rows = blocks >= 8 * num_parts;
    int64_t first_row = by_rows ? min64(p->num_rows, part * blocks / num_parts * MR) : 0;
    int64_t last_row = by_rows ? min64(p->num_rows, (part + 1) * blocks / num_parts * MR) : p->num_rows;
    int64_t first_panel = by_rows ? 0 : part * panels / num_parts;
    int64_t last_panel = by_rows ? panels : (part + 1) * panels / num_parts;
    enum { ROWS = ELMO_PRODUCT_ROWS };
    const float *a[ROWS];
    float *out[ROWS];
    /* Rows at a power-of-two stride map to the same few cache sets; a copy with another stride avoids this. */
    int64_t spacing = spaced(p->inner);
    int spread = p->inner > STRETCH && p->num_rows > MR && p->right.format != ELMO_INT8 && p->right.format != ELMO_BFLOAT16;
    float *copy = spread ? elmo_scratch_take(ROWS * spacing * sizeof(float)) : 0;
    for (int64_t row = first_row; row < last_row; row += ROWS) {
        int64_t rows = min64(ROWS, last_row - row);
        for (int64_t i = 0; i < rows; i++) {
            a[i] = p->left + (p->left_rows ? p->left_rows[row + i] : row + i) * p->left_stride;
            out[i] = p->out + (p->out_rows ? p->out_rows[row + i] : row + i) * p->out_stride;
            if (!copy) continue;
            memcpy(copy + i * spacing, a[i], p->inner * sizeof(float));
            a[i] = copy + i * spacing;
        }
        multiply(rows, PLAIN(a), p->inner, &p->right, p->num_columns, first_panel, last_panel, p->bias, p->activation,
                 (int)p->accumulate, out);
    }
    elmo_scratch_give(copy);
}
