/* Tiles of a product with a matrix packed once.

   Packed, a matrix B [K, N] is a row of panels; panel p holds columns p NR .. p NR + NR - 1 as [K][NR], zero past N.
   A tile is up to MR rows of A times one panel, summed in registers over a stretch of K, then added to a small
   buffer.  The sum is thus split into chains of at most CHAIN terms, so that its rounding error is that of a
   short sum.  Rows of A are given by pointers, so that gathered, strided and reversed rows need no copy. */

#define CHAIN 256
#define LINE 64

INLINE int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/* Rows at a power-of-two stride map to the same few cache sets; one more line avoids this. */
INLINE int64_t spaced(int64_t width) { return ceil_div(width, 16) * 16 + 16; }

/* Rows of a left-hand matrix: the k-th term of a row is at (k / block) * jump + k % block.  Only products with
   gradients of gates, which are stored in panels, need blocks; a plain row is one block.  For an int8 or bf16 right-hand
   side the rows are converted to its format (see low_precision.h); int8 numbers are in units of scale[row]. */
typedef struct {
    const float *const *rows;
    int64_t block, jump;
    const float *scale;
    int64_t format; /* ELMO_FLOAT32, or ELMO_INT8 or ELMO_BFLOAT16 when converted */
} left_rows;

#define PLAIN(pointers) ((left_rows){(const float *const *)(pointers), INT64_MAX, 0, 0, ELMO_FLOAT32})

/* Memory to prefetch while a tile is summed: at every term the lines at `from` and at `second` bytes after it, then
   `from` advances by `step` bytes.  A step shorter than a line prefetches some lines twice, at almost no cost. */
typedef struct {
    const char *from;
    int64_t second, step;
} fetching;

#define NOTHING_AHEAD(anywhere) ((fetching){(const char *)(anywhere), 0, 0})

INLINE void fetch(fetching *f)
{
    __builtin_prefetch(f->from);
    __builtin_prefetch(f->from + f->second);
    f->from += f->step;
}

INLINE vf load_format(const char *b, int j, const int64_t format)
{
    return format == ELMO_FLOAT16 ? load_fp16((const uint16_t *)b + j * VL) : load((const float *)b + j * VL);
}

INLINE void tile_terms(const int rows, const int64_t format, const float *const *a, int64_t block, int64_t jump,
                       int64_t from, int64_t terms, const char *b, fetching ahead, float *sums, int first)
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
            vf b0 = load_format(b, 0, format), b1 = load_format(b, 1, format);
            vf b2 = load_format(b, 2, format), b3 = load_format(b, 3, format);
            fetch(&ahead);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                vf x = splat(row[r][k]);
                acc[r][0] += x * b0;
                acc[r][1] += x * b1;
                acc[r][2] += x * b2;
                acc[r][3] += x * b3;
            }
            b += NR * (format == ELMO_FLOAT16 ? 2 : 4);
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

/* TILE(rows), with the number of rows as a compile-time constant. */
#if MR == 6
#define FOR_ROWS(rows)                                                                                                 \
    switch (rows) {                                                                                                    \
    case 1: TILE(1); break;                                                                                            \
    case 2: TILE(2); break;                                                                                            \
    case 3: TILE(3); break;                                                                                            \
    case 4: TILE(4); break;                                                                                            \
    case 5: TILE(5); break;                                                                                            \
    case 6: TILE(6); break;                                                                                            \
    }
#elif MR == 3
#define FOR_ROWS(rows)                                                                                                 \
    switch (rows) {                                                                                                    \
    case 1: TILE(1); break;                                                                                            \
    case 2: TILE(2); break;                                                                                            \
    case 3: TILE(3); break;                                                                                            \
    }
#elif MR == 2
#define FOR_ROWS(rows)                                                                                                 \
    switch (rows) {                                                                                                    \
    case 1: TILE(1); break;                                                                                            \
    case 2: TILE(2); break;                                                                                            \
    }
#else
#error "FOR_ROWS has no case for this MR"
#endif

/* One chain: sums (+)= `terms` terms from term `from` on, which must begin a block. */
static void chain_fp32(int64_t rows, const float *const *a, int64_t block, int64_t jump, int64_t from,
                            int64_t terms, const char *b, fetching ahead, float *sums, int first)
{
#define TILE(n) tile_terms(n, ELMO_FLOAT32, a, block, jump, from, terms, b, ahead, sums, first)
    FOR_ROWS(rows)
#undef TILE
}

static void chain_fp16(int64_t rows, const float *const *a, int64_t block, int64_t jump, int64_t from,
                            int64_t terms, const char *b, fetching ahead, float *sums, int first)
{
#define TILE(n) tile_terms(n, ELMO_FLOAT16, a, block, jump, from, terms, b, ahead, sums, first)
    FOR_ROWS(rows)
#undef TILE
}
