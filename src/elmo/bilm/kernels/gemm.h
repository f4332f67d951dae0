/* Products with a matrix packed once.

   Packed, a matrix B [K, N] is a row of panels; panel p holds columns p NR .. p NR + NR - 1 as [K][NR], zero past N.
   A tile is up to MR rows of A times one panel, summed in registers over a stretch of K, then added to a small
   buffer: the sum is thus cut into chains of at most CHAIN terms, which keeps its rounding error that of a short
   sum.  Rows of A are given by pointers, so that gathered, strided and reversed rows cost nothing. */

#define CHAIN 256
/* Terms of K for which a panel stays in the second-level cache while all rows pass over it. */
#define STRETCH 512
#define LINE 64

INLINE int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/* Rows a power of two apart would fall into the same few sets of the cache: one line more. */
INLINE int64_t spaced(int64_t width) { return ceil_div(width, 16) * 16 + 16; }

/* Rows of a left-hand matrix: the k-th term of a row stands at (k / block) * jump + k % block.  Only products with
   gradients of gates, which lie in panels, need blocks; for a plain row the block never ends. */
typedef struct {
    const float *const *rows;
    int64_t block, jump;
} left_rows;

#define PLAIN INT64_MAX

INLINE void tile_terms(const int rows, const float *const *a, int64_t block, int64_t jump, int64_t from,
                       int64_t terms, const float *b, const char *ahead, int64_t ahead_step, float *sums, int first)
{
    vf acc[MR][4];
    const float *row[MR];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        row[r] = a[r] + (from / block) * jump + from % block;
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) acc[r][j] = (vf){0};
    }
    while (terms > 0) {
        int64_t length = min64(block, terms);
        for (int64_t k = 0; k < length; k++) {
            vf b0 = load(b), b1 = load(b + VL), b2 = load(b + 2 * VL), b3 = load(b + 3 * VL);
            __builtin_prefetch(ahead);
            ahead += ahead_step;
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                vf x = splat(row[r][k]);
                acc[r][0] += x * b0;
                acc[r][1] += x * b1;
                acc[r][2] += x * b2;
                acc[r][3] += x * b3;
            }
            b += NR;
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) row[r] += jump;
        terms -= length;
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            float *sum = sums + r * NR + j * VL;
            store(sum, first ? acc[r][j] : load(sum) + acc[r][j]);
        }
}

/* One chain: sums (+)= `terms` terms from term `from` on, which must begin a block. */
static void tile_chain(int64_t rows, const float *const *a, int64_t block, int64_t jump, int64_t from, int64_t terms,
                       const float *b, const char *ahead, int64_t ahead_step, float *sums, int first)
{
#define TILE(n) tile_terms(n, a, block, jump, from, terms, b, ahead, ahead_step, sums, first)
    switch (rows) {
    case 1: TILE(1); break;
    case 2: TILE(2); break;
#if MR >= 3
    case 3: TILE(3); break;
#endif
#if MR >= 6
    case 4: TILE(4); break;
    case 5: TILE(5); break;
    case 6: TILE(6); break;
#endif
    }
#undef TILE
}

/* The tile number `tile` of `tiles` of a panel, rows from `start` on, over terms `from` .. `to`.  While many tiles share a panel, each also
   fetches its part of `next`, the panel that comes after; a lone tile fetches some way ahead in its own. */
static void tile_sum(int64_t rows, left_rows a, int64_t start, int64_t from, int64_t to, const float *panel,
                     int64_t tile, int64_t tiles, const float *next, float *sums, int first)
{
    const int64_t lines_per_term = NR * (int64_t)sizeof(float) / LINE;
    int64_t done = 0, step = LINE;
    const char *ahead = (const char *)next + tile * (to - from) * LINE;
    if (tiles < lines_per_term) {
        ahead = (const char *)(panel + from * NR) + 4096;
        step = NR * sizeof(float);
    } else if (tile >= lines_per_term) {
        ahead = (const char *)panel;
        step = 0;
    }
    for (int64_t k = from; k < to; k += CHAIN) {
        int64_t terms = min64(CHAIN, to - k);
        tile_chain(rows, a.rows + start, a.block, a.jump, k, terms, panel + k * NR, ahead + done * step, step, sums,
                   first);
        done += terms;
        first = 0;
    }
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

/* One row of a finished tile to its place: added to what earlier stretches left there, then, after the last, with
   bias and activation. */
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
    if (activation == ELMO_IDENTITY) /* apart, so that the usual case is a plain loop */
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
static void multiply(int64_t num_rows, left_rows a, int64_t inner, const float *packed,
                     int64_t num_columns, int64_t first_panel, int64_t last_panel, const float *bias,
                     int64_t activation, int accumulate, float *const *out)
{
    int64_t tiles = ceil_div(num_rows, MR);
    int64_t stretch = tiles > 1 ? STRETCH : inner;
    float sums[MR * NR] __attribute__((aligned(64)));
    for (int64_t from = 0; from < inner; from += stretch) {
        int64_t to = min64(from + stretch, inner);
        for (int64_t p = first_panel; p < last_panel; p++) {
            const float *panel = packed + p * inner * NR;
            const float *next = p + 1 < last_panel ? panel + (inner + from) * NR
                                                   : packed + (first_panel * inner + to) * NR;
            int64_t column = p * NR, width = min64(NR, num_columns - column);
            for (int64_t tile = 0; tile < tiles; tile++) {
                int64_t start = tile * num_rows / tiles, stop = (tile + 1) * num_rows / tiles;
                for (int64_t i = start; i < stop; i++)
                    for (int64_t j = 0; j < width; j += 16) __builtin_prefetch(out[i] + column + j, 1);
                tile_sum(stop - start, a, start, from, to, panel, tile, tiles, next, sums, 1);
                for (int64_t i = start; i < stop; i++)
                    finish_row(sums + (i - start) * NR, out[i] + column, width, bias ? bias + column : 0, activation,
                               accumulate || from > 0, to == inner);
            }
        }
    }
}

static void pack_transposed(const elmo_packing *m, const int64_t *columns, float *packed)
{
    for (int64_t k = 0; k < m->inner; k++, packed += NR) {
        int64_t row = m->inner_order ? m->inner_order[k] : k;
        const float *from = m->matrix + row * m->stride, *second = m->second + row * m->second_stride - m->split;
        if (row < 0) memset(packed, 0, NR * sizeof(float));
        else if (columns[NR - 1] == columns[0] + NR - 1 && columns[NR - 1] < m->split)
            memcpy(packed, from + columns[0], NR * sizeof(float));
        else
            for (int j = 0; j < NR; j++)
                packed[j] = columns[j] < 0 ? 0.0f : columns[j] < m->split ? from[columns[j]] : second[columns[j]];
    }
}

static void pack(const elmo_packing *m, int64_t first_panel, int64_t last_panel)
{
    for (int64_t p = first_panel; p < last_panel; p++) {
        const int64_t *columns = m->columns + p * NR;
        float *packed = m->packed + p * m->inner * NR;
        if (m->transposed) {
            pack_transposed(m, columns, packed);
            continue;
        }
        for (int64_t k0 = 0; k0 < m->inner; k0 += LINE) { /* short stretches: the panel's lines stay in cache */
            int64_t k1 = min64(k0 + LINE, m->inner);
            for (int j = 0; j < NR; j++) {
                const float *row = m->matrix + columns[j] * m->stride;
                if (columns[j] < 0)
                    for (int64_t k = k0; k < k1; k++) packed[k * NR + j] = 0.0f;
                else
                    for (int64_t k = k0; k < k1; k++) packed[k * NR + j] = row[k];
            }
        }
    }
}

/* Rows of a product are shared out among `num_parts` threads when there are enough of them, panels otherwise. */
static void product(const elmo_product *p, int64_t part, int64_t num_parts)
{
    int64_t panels = ceil_div(p->num_columns, NR), blocks = ceil_div(p->num_rows, MR);
    int by_rows = blocks >= 8 * num_parts;
    int64_t first_row = by_rows ? min64(p->num_rows, part * blocks / num_parts * MR) : 0;
    int64_t last_row = by_rows ? min64(p->num_rows, (part + 1) * blocks / num_parts * MR) : p->num_rows;
    int64_t first_panel = by_rows ? 0 : part * panels / num_parts;
    int64_t last_panel = by_rows ? panels : (part + 1) * panels / num_parts;
    enum { ROWS = 240 };
    const float *a[ROWS];
    float *out[ROWS];
    /* Stretches of rows a power of two apart fall into the same few sets of the cache: a copy spaces them. */
    int64_t spacing = spaced(p->inner);
    float *copy = p->inner > STRETCH && p->num_rows > MR ? elmo_scratch_take(ROWS * spacing * sizeof(float)) : 0;
    for (int64_t row = first_row; row < last_row; row += ROWS) {
        int64_t rows = min64(ROWS, last_row - row);
        for (int64_t i = 0; i < rows; i++) {
            a[i] = p->left + (row + i) * p->left_stride;
            out[i] = p->out + (row + i) * p->out_stride;
            if (!copy) continue;
            memcpy(copy + i * spacing, a[i], p->inner * sizeof(float));
            a[i] = copy + i * spacing;
        }
        multiply(rows, (left_rows){a, PLAIN, 0}, p->inner, p->right, p->num_columns, first_panel, last_panel, p->bias, p->activation,
                 (int)p->accumulate, out);
    }
    elmo_scratch_give(copy);
}
