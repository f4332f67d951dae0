/* The token encoder in one call.  Its parts are in char_cnn.h, gemm.h and highway.h. */

#include "kernels.h"

#include <string.h>

/* Words that are encoded at a time: bounds the memory. */
enum { WORDS_AT_ONCE = 960 };

static int highway_layer(const elmo_encoder *e, const elmo_gates *w, int64_t rows, float *x, float *sums,
                         int64_t num_threads)
{
    int64_t dim = e->cnn.num_filters;
    const elmo_product halves[2] = {
        {rows, dim, dim, x, dim, w->carry, w->carry_bias, sums, 2 * dim, ELMO_IDENTITY, 0},
        {rows, dim, dim, x, dim, w->transform, w->transform_bias, sums + dim, 2 * dim, ELMO_IDENTITY, 0},
    };
    const elmo_highway layer = {.num_rows = rows, .dim = dim, .x = x, .sums = sums, .y = x};
    if (elmo_multiply(halves, 2, num_threads)) return ELMO_NO_MEMORY;
    elmo_highway_layer(&layer, 0, num_threads);
    return 0;
}

static int encode_words(const elmo_encoder *e, const elmo_char_cnn *cnn, float *sums, float *out, int64_t num_threads)
{
    int64_t rows = cnn->num_words, dim = cnn->num_filters;
    if (elmo_convolve(cnn, 0, num_threads)) return ELMO_NO_MEMORY;
    for (int64_t i = 0; i < e->num_highways; i++)
        if (highway_layer(e, &e->highways[i], rows, cnn->out, sums, num_threads)) return ELMO_NO_MEMORY;
    const elmo_product projection = {rows,          dim,                e->out_dim, cnn->out,   dim,
                                     e->projection, e->projection_bias, out,        e->out_dim, ELMO_IDENTITY, 0};
    return elmo_multiply(&projection, 1, num_threads);
}

/* Words given by character ids, [num_words, num_columns], become vectors, [num_words, out_dim]. */
int elmo_encode(const elmo_encoder *e, const int64_t *ids, int64_t num_words, int64_t num_columns, float *out,
                int64_t num_threads)
{
    int64_t at_once = num_words < WORDS_AT_ONCE ? num_words : WORDS_AT_ONCE;
    int64_t places = e->cnn.max_characters, dim = e->cnn.dim, filters = e->cnn.num_filters;
    elmo_char_cnn cnn = e->cnn;
    int64_t *kept = elmo_scratch_take(e->num_ids * (sizeof(int64_t) + dim * sizeof(float)));
    int32_t *spelling = elmo_scratch_take(num_words * (places + 1) * sizeof(int32_t));
    float *found = elmo_scratch_take(at_once * filters * 3 * sizeof(float));
    int result = kept && spelling && found ? 0 : ELMO_NO_MEMORY;
    if (result == 0) {
        int32_t *lengths = spelling + num_words * places;
        float *rows = (float *)(kept + e->num_ids);
        cnn.num_characters = elmo_spell(ids, num_words, num_columns, places, e->num_ids, e->cnn.padding, spelling,
                                        lengths, kept);
        if (cnn.num_characters < 0) result = (int)cnn.num_characters;
        for (int64_t c = 0; c < cnn.num_characters; c++) {
            if (kept[c] == e->cnn.padding) cnn.padding = c;
            memcpy(rows + c * dim, e->cnn.embedding + kept[c] * dim, dim * sizeof(float));
        }
        cnn.embedding = rows;
        cnn.out = found;
        for (int64_t word = 0; word < num_words && result == 0; word += at_once) {
            cnn.num_words = num_words - word < at_once ? num_words - word : at_once;
            cnn.spelling = spelling + word * places;
            cnn.lengths = lengths + word;
            result = encode_words(e, &cnn, found + at_once * filters, out + word * e->out_dim, num_threads);
        }
    }
    elmo_scratch_give(found);
    elmo_scratch_give(spelling);
    elmo_scratch_give(kept);
    return result;
}
