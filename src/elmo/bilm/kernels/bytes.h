/* Tiles with weights of eight bits.  The left-hand side is quantised row by row when it is used: byte = round(x / scale)
   plus an offset that makes it unsigned, as the processors' instructions want it.  Four terms make a 32-bit word. */

#if defined(VARIANT_AVX512)
/* Without VNNI two products are added in sixteen bits first, and smaller bytes on the left keep that exact. */
#define BYTE_RANGE (elmo_has_vnni ? 127 : 63)
INLINE vi add_fours(vi sum, vi a, vi b, const int vnni)
{
    if (vnni) {
        __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
        return sum;
    }
    __m512i pairs = _mm512_maddubs_epi16((__m512i)a, (__m512i)b);
    return sum + (vi)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
}
#elif defined(VARIANT_AVX2)
#define BYTE_RANGE 63
INLINE vi add_fours(vi sum, vi a, vi b, const int vnni)
{
    (void)vnni;
    __m256i pairs = _mm256_maddubs_epi16((__m256i)a, (__m256i)b);
    return sum + (vi)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
#else
#define BYTE_RANGE 127
INLINE vi add_fours(vi sum, vi a, vi b, const int vnni)
{
    (void)vnni;
    for (int shift = 0; shift < 32; shift += 8) sum += ((a >> shift) & 255) * ((b << (24 - shift)) >> 24);
    return sum;
}
#endif

typedef int32_t vi_loose __attribute__((vector_size(4 * VL), aligned(1), may_alias));
typedef int32_t word __attribute__((may_alias));

INLINE void tile_of_bytes(const int rows, const int vnni, const float *const *a, int64_t words, const char *b,
                          const char *ahead, int64_t ahead_step, int32_t *sums)
{
    vi acc[MR][4];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) acc[r][j] = (vi){0};
    for (int64_t k = 0; k < words; k++) {
        vi b0 = ((const vi_loose *)b)[0], b1 = ((const vi_loose *)b)[1];
        vi b2 = ((const vi_loose *)b)[2], b3 = ((const vi_loose *)b)[3];
        __builtin_prefetch(ahead);
        ahead += ahead_step;
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            vi x = ((const word *)a[r])[k] - (vi){0};
            acc[r][0] = add_fours(acc[r][0], x, b0, vnni);
            acc[r][1] = add_fours(acc[r][1], x, b1, vnni);
            acc[r][2] = add_fours(acc[r][2], x, b2, vnni);
            acc[r][3] = add_fours(acc[r][3], x, b3, vnni);
        }
        b += NR * 4;
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) *(vi_loose *)(sums + r * NR + j * VL) = acc[r][j];
}

static void words_of_bytes(int64_t rows, const float *const *a, int64_t words, const char *b, const char *ahead,
                           int64_t ahead_step, int32_t *sums)
{
#if defined(VARIANT_AVX512)
    if (!elmo_has_vnni) {
#define TILE(n) tile_of_bytes(n, 0, a, words, b, ahead, ahead_step, sums)
        FOR_ROWS(rows)
#undef TILE
        return;
    }
#endif
#define TILE(n) tile_of_bytes(n, 1, a, words, b, ahead, ahead_step, sums)
    FOR_ROWS(rows)
#undef TILE
}

/* sums (+)= the whole product of some rows with panel p, back in floats. */
static void sum_of_bytes(int64_t rows, left_rows a, int64_t start, int64_t inner, const elmo_matrix *b, int64_t p,
                         const char *ahead, int64_t ahead_step, float *sums, int first)
{
    int32_t exact[MR * NR] __attribute__((aligned(64)));
    int64_t words = ceil_div(inner, 4);
    words_of_bytes(rows, a.rows + start, words, (const char *)b->panels + p * words * NR * 4, ahead, ahead_step, exact);
    for (int64_t r = 0; r < rows; r++)
        for (int j = 0; j < NR; j += VL) {
            vi whole = *(const vi_loose *)(exact + r * NR + j);
            vi correction = *(const vi_loose *)(b->correction + p * NR + j);
            vf x = __builtin_convertvector(whole - correction, vf) * load(b->scale + p * NR + j) * a.scale[start + r];
            store(sums + r * NR + j, first ? x : load(sums + r * NR + j) + x);
        }
}

/* Bytes of rows, in scratch memory that the caller gives back. */
typedef struct {
    void *memory;
    left_rows rows;
} quantized;

static quantized quantize_rows(int64_t num_rows, const float *const *rows, int64_t inner)
{
    int64_t stride = ceil_div(inner, LINE) * LINE + LINE;
    char *memory = elmo_scratch_take(num_rows * (stride + (int64_t)sizeof(char *) + 4) + 2 * LINE);
    if (!memory) return (quantized){0, {0}};
    uint8_t *bytes = (uint8_t *)memory;
    const float **pointers = (const float **)(memory + num_rows * stride);
    float *scale = (float *)(pointers + num_rows);
    float range = BYTE_RANGE, offset = range + 1.5f; /* the half rounds, as the conversion cuts off */
    for (int64_t i = 0; i < num_rows; i++, bytes += stride) {
        float most = 0.0f;
        for (int64_t k = 0; k < inner; k++) most = fabsf(rows[i][k]) > most ? fabsf(rows[i][k]) : most;
        float inverse = most > 0.0f ? range / most : 0.0f;
        for (int64_t k = 0; k < inner; k++) bytes[k] = (uint8_t)(int32_t)(rows[i][k] * inverse + offset);
        memset(bytes + inner, 0, (4 - inner % 4) % 4);
        pointers[i] = (const float *)bytes;
        scale[i] = most / range;
    }
    return (quantized){memory, {pointers, INT64_MAX, 0, scale}};
}
