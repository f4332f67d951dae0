/* Tiles with weights of fewer bits, several to a 32-bit word: four bytes, or a pair of bfloat16.

   The left-hand side is converted row by row when it is used.  Bytes are round(x / scale) plus an offset that makes
   them unsigned, as the processors' instructions want it. */

typedef int32_t vi_loose __attribute__((vector_size(4 * VL), aligned(1), may_alias));
typedef int32_t word __attribute__((may_alias));

/* How words are multiplied: in one instruction, or in several. */
enum { BYTES_AT_ONCE, BYTES_IN_STEPS, PAIRS_AT_ONCE, PAIRS_IN_STEPS };

#if defined(VARIANT_AVX512)
#define HAS_BYTES elmo_has_vnni
#define HAS_PAIRS elmo_has_bf16
/* In steps, two products are added in sixteen bits first, and smaller bytes on the left keep that exact. */
#define BYTE_RANGE (elmo_has_vnni ? 127 : 63)
INLINE vi add_fours(vi sum, vi a, vi b)
{
    __m512i pairs = _mm512_maddubs_epi16((__m512i)a, (__m512i)b);
    return sum + (vi)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
}
#elif defined(VARIANT_AVX2)
#define HAS_BYTES 0
#define HAS_PAIRS 0
#define BYTE_RANGE 63
INLINE vi add_fours(vi sum, vi a, vi b)
{
    __m256i pairs = _mm256_maddubs_epi16((__m256i)a, (__m256i)b);
    return sum + (vi)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
#else
#define HAS_BYTES 0
#define HAS_PAIRS 0
#define BYTE_RANGE 127
INLINE vi add_fours(vi sum, vi a, vi b)
{
    for (int shift = 0; shift < 32; shift += 8) sum += ((a >> shift) & 255) * ((b << (24 - shift)) >> 24);
    return sum;
}
#endif

/* sum += the products of a word's parts; sums of bytes are whole numbers, of pairs floats. */
INLINE vi add_words(const int how, vi sum, vi a, vi b)
{
#if defined(VARIANT_AVX512) /* in assembly, because the compiler would want these sets switched on for the whole file */
    if (how == BYTES_AT_ONCE) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    if (how == PAIRS_AT_ONCE) __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#endif
    if (how == BYTES_IN_STEPS) sum = add_fours(sum, a, b);
    if (how == PAIRS_IN_STEPS) {
        vf first = (vf)sum + (vf)(a << 16) * (vf)(b << 16);
        sum = (vi)(first + (vf)(a & -65536) * (vf)(b & -65536));
    }
    return sum;
}

INLINE void tile_of_words(const int rows, const int how, const float *const *a, int64_t from, int64_t words,
                          const char *b, fetching ahead, int32_t *sums)
{
    vi acc[MR][4];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) acc[r][j] = (vi){0};
    for (int64_t k = from; k < from + words; k++) {
        vi b0 = ((const vi_loose *)b)[0], b1 = ((const vi_loose *)b)[1];
        vi b2 = ((const vi_loose *)b)[2], b3 = ((const vi_loose *)b)[3];
        fetch(&ahead);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            vi x = ((const word *)a[r])[k] - (vi){0};
            acc[r][0] = add_words(how, acc[r][0], x, b0);
            acc[r][1] = add_words(how, acc[r][1], x, b1);
            acc[r][2] = add_words(how, acc[r][2], x, b2);
            acc[r][3] = add_words(how, acc[r][3], x, b3);
        }
        b += NR * 4;
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) *(vi_loose *)(sums + r * NR + j * VL) = acc[r][j];
}

#define WORDS(name)                                                                                                    \
    static void name(int64_t rows, const float *const *a, int64_t from, int64_t words, const char *b,                  \
                     fetching ahead, int32_t *sums)                                                                    \
    {                                                                                                                  \
        FOR_ROWS(rows)                                                                                                 \
    }
#define TILE(n) tile_of_words(n, BYTES_IN_STEPS, a, from, words, b, ahead, sums)
WORDS(bytes_in_steps)
#undef TILE
#define TILE(n) tile_of_words(n, PAIRS_IN_STEPS, a, from, words, b, ahead, sums)
WORDS(pairs_in_steps)
#undef TILE
#if defined(VARIANT_AVX512)
#define TILE(n) tile_of_words(n, BYTES_AT_ONCE, a, from, words, b, ahead, sums)
WORDS(bytes_at_once)
#undef TILE
#define TILE(n) tile_of_words(n, PAIRS_AT_ONCE, a, from, words, b, ahead, sums)
WORDS(pairs_at_once)
#undef TILE
#else
#define bytes_at_once bytes_in_steps
#define pairs_at_once pairs_in_steps
#endif
#undef WORDS

INLINE int64_t terms_of_word(int64_t format) { return format == ELMO_BYTES ? 4 : 2; }

/* sums (+)= the product of some rows with panel p over the words `from` .. `to`, in floats. */
static void sum_of_words(int64_t rows, left_rows a, int64_t start, const elmo_matrix *b, int64_t p, const char *panel,
                         int64_t from, int64_t to, fetching ahead, float *sums, int first)
{
    int32_t exact[MR * NR] __attribute__((aligned(64)));
    int bytes = b->format == ELMO_BYTES;
    (bytes ? HAS_BYTES ? bytes_at_once : bytes_in_steps : HAS_PAIRS ? pairs_at_once : pairs_in_steps)(
        rows, a.rows + start, from, to - from, panel, ahead, exact);
    for (int64_t r = 0; r < rows; r++)
        for (int j = 0; j < NR; j += VL) {
            vi whole = *(const vi_loose *)(exact + r * NR + j);
            vf x = (vf)whole;
            if (bytes) {
                vi correction = *(const vi_loose *)(b->correction + p * NR + j);
                x = __builtin_convertvector(whole - correction, vf) * load(b->scale + p * NR + j) * a.scale[start + r];
            }
            store(sums + r * NR + j, first ? x : load(sums + r * NR + j) + x);
        }
}

/* The nearest bfloat16, ties to even. */
INLINE uint16_t pair_half(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float quantize_row(const float *row, int64_t inner, uint8_t *bytes)
{
    float range = BYTE_RANGE, offset = range + 1.5f, most = 0.0f; /* the half rounds, as the conversion cuts off */
    for (int64_t k = 0; k < inner; k++) most = fabsf(row[k]) > most ? fabsf(row[k]) : most;
    float inverse = most > 0.0f ? range / most : 0.0f;
    for (int64_t k = 0; k < inner; k++) bytes[k] = (uint8_t)(int32_t)(row[k] * inverse + offset);
    return most / range;
}

static void pair_row(const float *row, int64_t block, int64_t jump, int64_t inner, uint16_t *pairs)
{
    for (int64_t from = 0; from < inner; from += block, row += jump) {
        int64_t count = min64(block, inner - from);
        for (int64_t k = 0; k < count; k++) pairs[from + k] = pair_half(row[k]);
        if (count < block) break;
    }
}

/* Rows in the format that a right-hand side wants, in scratch memory (if any) that the caller gives back. */
typedef struct {
    void *memory;
    left_rows rows;
} fitted;

static fitted fit_rows(int64_t num_rows, left_rows a, int64_t inner, const elmo_matrix *b)
{
    if (b->format != ELMO_BYTES && b->format != ELMO_PAIRS) return (fitted){0, a};
    if (a.format == b->format || !a.rows) return (fitted){0, a};
    int bytes = b->format == ELMO_BYTES;
    int64_t stride = ceil_div(inner * (bytes ? 1 : 2), LINE) * LINE + LINE;
    char *memory = elmo_scratch_take(num_rows * (stride + (int64_t)sizeof(char *) + 4) + 2 * LINE), *to = memory;
    const float **pointers = (const float **)(memory + num_rows * stride);
    float *scale = (float *)(pointers + num_rows);
    for (int64_t i = 0; i < num_rows; i++, to += stride) {
        memset(to + stride - 2 * LINE, 0, 2 * LINE); /* a last word that is not full */
        if (bytes) scale[i] = quantize_row(a.rows[i], inner, (uint8_t *)to);
        else pair_row(a.rows[i], a.block, a.jump, inner, (uint16_t *)to);
        pointers[i] = (const float *)to;
    }
    return (fitted){memory, {pointers, INT64_MAX, 0, scale, b->format}};
}
