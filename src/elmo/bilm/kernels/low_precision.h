/* Tiles with low-precision weights, in groups of 32 bits: four int8, or two bf16.

   The left-hand side is converted row by row when it is used.  Its int8 numbers are round(x / scale) plus an offset
   that makes them unsigned, as the instructions require. */

typedef int32_t vi_loose __attribute__((vector_size(4 * VL), aligned(1), may_alias));
typedef int32_t group __attribute__((may_alias));

/* How groups are multiplied: in one instruction, or in several. */
enum { INT8_AT_ONCE, INT8_IN_STEPS, BF16_AT_ONCE, BF16_IN_STEPS };

INLINE vi add_bf16_products(vi sum, vi a, vi b)
{
    vf first = (vf)sum + (vf)(a << 16) * (vf)(b << 16);
    return (vi)(first + (vf)(a & -65536) * (vf)(b & -65536));
}

#ifndef INT8_INSTRUCTION
#define INT8_INSTRUCTION 0
#define add_int8_at_once add_int8_products
#endif
#ifndef BF16_INSTRUCTION
#define BF16_INSTRUCTION 0
#define add_bf16_at_once add_bf16_products
#endif

/* sum += the products of a group's parts; sums of int8 are integers, sums of bf16 are floats. */
INLINE vi add_groups(const int how, vi sum, vi a, vi b)
{
    switch (how) {
    case INT8_AT_ONCE: return add_int8_at_once(sum, a, b);
    case INT8_IN_STEPS: return add_int8_products(sum, a, b);
    case BF16_AT_ONCE: return add_bf16_at_once(sum, a, b);
    default: return add_bf16_products(sum, a, b);
    }
}

INLINE void tile_of_groups(const int rows, const int how, const float *const *a, int64_t from, int64_t groups,
                          const char *b, fetching ahead, int32_t *sums)
{
    vi acc[MR][4];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) acc[r][j] = (vi){0};
    for (int64_t k = from; k < from + groups; k++) {
        vi b0 = ((const vi_loose *)b)[0], b1 = ((const vi_loose *)b)[1];
        vi b2 = ((const vi_loose *)b)[2], b3 = ((const vi_loose *)b)[3];
        fetch(&ahead);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            vi x = ((const group *)a[r])[k] - (vi){0};
            acc[r][0] = add_groups(how, acc[r][0], x, b0);
            acc[r][1] = add_groups(how, acc[r][1], x, b1);
            acc[r][2] = add_groups(how, acc[r][2], x, b2);
            acc[r][3] = add_groups(how, acc[r][3], x, b3);
        }
        b += NR * 4;
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) *(vi_loose *)(sums + r * NR + j * VL) = acc[r][j];
}

#define GROUPS(name)                                                                                                    \
    static void name(int64_t rows, const float *const *a, int64_t from, int64_t groups, const char *b,                  \
                     fetching ahead, int32_t *sums)                                                                    \
    {                                                                                                                  \
        FOR_ROWS(rows)                                                                                                 \
    }
#define TILE(n) tile_of_groups(n, INT8_IN_STEPS, a, from, groups, b, ahead, sums)
GROUPS(int8_in_steps)
#undef TILE
#define TILE(n) tile_of_groups(n, BF16_IN_STEPS, a, from, groups, b, ahead, sums)
GROUPS(bf16_in_steps)
#undef TILE
#define TILE(n) tile_of_groups(n, INT8_AT_ONCE, a, from, groups, b, ahead, sums)
GROUPS(int8_at_once)
#undef TILE
#define TILE(n) tile_of_groups(n, BF16_AT_ONCE, a, from, groups, b, ahead, sums)
GROUPS(bf16_at_once)
#undef TILE
#undef GROUPS

INLINE int64_t terms_of_group(int64_t format) { return format == ELMO_INT8 ? 4 : 2; }

/* sums (+)= the product of some rows with panel p over the groups `from` .. `to`, in floats. */
static void sum_of_groups(int64_t rows, left_rows a, int64_t start, const elmo_matrix *b, int64_t p, const char *panel,
                         int64_t from, int64_t to, fetching ahead, float *sums, int first)
{
    int32_t exact[MR * NR] __attribute__((aligned(64)));
    int is_int8 = b->format == ELMO_INT8;
    (is_int8 ? INT8_INSTRUCTION ? int8_at_once : int8_in_steps : BF16_INSTRUCTION ? bf16_at_once : bf16_in_steps)(
        rows, a.rows + start, from, to - from, panel, ahead, exact);
    for (int64_t r = 0; r < rows; r++)
        for (int j = 0; j < NR; j += VL) {
            vi whole = *(const vi_loose *)(exact + r * NR + j);
            vf x = (vf)whole;
            if (is_int8) {
                vi correction = *(const vi_loose *)(b->correction + p * NR + j);
                x = __builtin_convertvector(whole - correction, vf) * load(b->scale + p * NR + j) * a.scale[start + r];
            }
            store(sums + r * NR + j, first ? x : load(sums + r * NR + j) + x);
        }
}

/* The nearest bfloat16, ties to even. */
INLINE uint16_t to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float quantize_row(const float *row, int64_t inner, uint8_t *to)
{
    float range = INT8_RANGE, offset = range + 1.5f, most = 0.0f; /* 0.5 because the conversion truncates */
    for (int64_t k = 0; k < inner; k++) most = fabsf(row[k]) > most ? fabsf(row[k]) : most;
    float inverse = most > 0.0f ? range / most : 0.0f;
    for (int64_t k = 0; k < inner; k++) to[k] = (uint8_t)(int32_t)(row[k] * inverse + offset);
    return most / range;
}

static void bf16_row(const float *row, int64_t block, int64_t jump, int64_t inner, uint16_t *to)
{
    for (int64_t from = 0; from < inner; from += block, row += jump) {
        int64_t count = min64(block, inner - from);
        for (int64_t k = 0; k < count; k++) to[from + k] = to_bf16(row[k]);
        if (count < block) break;
    }
}

/* Rows converted to the format of a right-hand side, in scratch memory (if any) that the caller releases; no rows if
   there was no memory. */
typedef struct {
    void *memory;
    left_rows rows;
} converted_rows;

static converted_rows convert_rows(int64_t num_rows, left_rows a, int64_t inner, const elmo_matrix *b)
{
    if (b->format != ELMO_INT8 && b->format != ELMO_BFLOAT16) return (converted_rows){0, a};
    if (a.format == b->format || !a.rows) return (converted_rows){0, a};
    int is_int8 = b->format == ELMO_INT8;
    int64_t stride = ceil_div(inner * (is_int8 ? 1 : 2), LINE) * LINE + LINE;
    char *memory = elmo_scratch_take(num_rows * (stride + (int64_t)sizeof(char *) + 4) + 2 * LINE), *to = memory;
    if (!memory) return (converted_rows){0, {0}};
    const float **pointers = (const float **)(memory + num_rows * stride);
    float *scale = (float *)(pointers + num_rows);
    for (int64_t i = 0; i < num_rows; i++, to += stride) {
        memset(to + stride - 2 * LINE, 0, 2 * LINE); /* pads the last group */
        if (is_int8) scale[i] = quantize_row(a.rows[i], inner, (uint8_t *)to);
        else bf16_row(a.rows[i], a.block, a.jump, inner, (uint16_t *)to);
        pointers[i] = (const float *)to;
    }
    return (converted_rows){memory, {pointers, INT64_MAX, 0, scale, b->format}};
}
