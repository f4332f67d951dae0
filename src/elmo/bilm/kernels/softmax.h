/* Softmax over words, loss and gradients in one pass; see elmo_softmax in kernels.h.

   Tokens are processed in groups of a few panels, words in stretches.  First all logits of a group are computed,
   stretch by stretch, and replaced by exp(logit - maximum of the stretch).  When the sum is known, they become
   probabilities and are multiplied for the gradients, again stretch by stretch.  They thus pass through the second-level
   cache twice and never leave the last-level cache. */

enum { GROUP = 2, WORDS_AT_ONCE = 512 };

INLINE vf exponential(vf x) /* x <= 0; at least e^-80 */
{
    vf scale, fraction;
    exp_parts(clamp(x, 80.0f), &scale, &fraction);
    return scale * fraction + scale;
}

typedef struct {
    float *logits;          /* [GROUP][num_words][NR] */
    float *greatest;        /* [GROUP][stretches][NR] */
    float *tokens;          /* [GROUP][dim][NR]: states of a panel, for the logits */
    float *states;          /* [dim / NR][GROUP * NR][NR]: the same, for the gradients of words */
    float *d_states;        /* [GROUP][dim][NR] */
    float *most, *total;    /* [GROUP][NR]: the greatest logit, and the sum relative to it */
    float *d_words, *d_bias;
    const float **left;
    float **out;
} softmax_space;

static void lay_out_softmax(const elmo_softmax *s, arena *memory, softmax_space *w)
{
    int64_t panels = ceil_div(s->dim, NR), most = s->dim > WORDS_AT_ONCE ? s->dim : WORDS_AT_ONCE;
    w->logits = carve(memory, GROUP * s->num_words * NR * sizeof(float));
    w->greatest = carve(memory, GROUP * ceil_div(s->num_words, WORDS_AT_ONCE) * NR * sizeof(float));
    w->tokens = carve(memory, GROUP * s->dim * NR * sizeof(float));
    w->states = carve(memory, panels * GROUP * NR * NR * sizeof(float));
    w->d_states = carve(memory, GROUP * s->dim * NR * sizeof(float));
    w->most = carve(memory, GROUP * NR * sizeof(float));
    w->total = carve(memory, GROUP * NR * sizeof(float));
    w->left = carve(memory, most * sizeof(float *));
    w->out = carve(memory, most * sizeof(float *));
}

/* The states of tokens `first` .. `last` - 1 in both forms; zeros after them. */
static void place_states(const elmo_softmax *s, int64_t first, int64_t last, softmax_space *w)
{
    memset(w->states, 0, ceil_div(s->dim, NR) * GROUP * NR * NR * sizeof(float));
    memset(w->tokens, 0, GROUP * s->dim * NR * sizeof(float));
    for (int64_t n = 0; n < last - first; n++) {
        const float *state = s->states + (first + n) * s->dim;
        float *token = w->tokens + n / NR * s->dim * NR + n % NR;
        for (int64_t k = 0; k < s->dim; k++) token[k * NR] = state[k];
        for (int64_t k = 0; k < s->dim; k += NR)
            memcpy(w->states + (k * GROUP + n) * NR, state + k, min64(NR, s->dim - k) * sizeof(float));
    }
}

/* One stretch of one panel of tokens, after its product: adds biases, excludes words, takes exponentials. */
static void exponentials(const elmo_softmax *s, int64_t first, int64_t last, const int64_t *absent, int64_t tokens,
                         float *logits, float *greatest, float *most, float *total)
{
    for (int64_t n = 0; n < tokens; n++)
        if (absent[n] >= first && absent[n] < last) logits[(absent[n] - first) * NR + n] = -INFINITY;
    for (int64_t j = 0; j < NR; j += VL) {
        vf peak = splat(-1e30f), sum = {0};
        for (int64_t i = 0; i < last - first; i++) {
            vf x = load(logits + i * NR + j) + s->bias[first + i];
            store(logits + i * NR + j, x);
            peak = at_least(peak, x);
        }
        for (int64_t i = 0; i < last - first; i++) {
            vf x = exponential(load(logits + i * NR + j) - peak);
            store(logits + i * NR + j, x);
            sum += x;
        }
        vf before = load(most + j), now = at_least(before, peak);
        store(greatest + j, peak);
        store(most + j, now);
        store(total + j, load(total + j) * exponential(before - now) + sum * exponential(peak - now));
    }
}

/* Exponentials -> probabilities; their sums over the tokens are the gradients of the biases. */
static void probabilities(const float *greatest, const float *most, const float *inverse, int64_t rows, float *logits,
                          float *d_bias)
{
    vf factor[4];
    for (int j = 0; j < 4; j++)
        factor[j] = exponential(load(greatest + j * VL) - load(most + j * VL)) * load(inverse + j * VL);
    for (int64_t i = 0; i < rows; i++) {
        vf sum = {0};
        for (int j = 0; j < 4; j++) {
            vf x = load(logits + i * NR + j * VL) * factor[j];
            store(logits + i * NR + j * VL, x);
            sum += x;
        }
        float whole = 0.0f;
        for (int j = 0; j < VL; j++) whole += sum[j];
        d_bias[i] += whole;
    }
}

static void group_logits(const elmo_softmax *s, int64_t token, int64_t panels, softmax_space *w)
{
    int64_t stretches = ceil_div(s->num_words, WORDS_AT_ONCE);
    for (int64_t first = 0, at = 0; first < s->num_words; first += WORDS_AT_ONCE, at++) {
        int64_t last = min64(first + WORDS_AT_ONCE, s->num_words);
        for (int64_t i = first; i < last; i++) w->left[i - first] = s->words + i * s->dim;
        for (int64_t g = 0; g < panels; g++) {
            float *logits = w->logits + (g * s->num_words + first) * NR;
            elmo_matrix tokens = {w->tokens + g * s->dim * NR, ELMO_FLOAT32, 0, 0};
            for (int64_t i = first; i < last; i++) w->out[i - first] = logits + (i - first) * NR;
            multiply(last - first, PLAIN(w->left), s->dim, &tokens, NR, 0, 1, 0, ELMO_IDENTITY, 0, w->out);
            exponentials(s, first, last, s->absent + token + g * NR, min64(NR, s->num_tokens - token - g * NR), logits,
                         w->greatest + (g * stretches + at) * NR, w->most + g * NR, w->total + g * NR);
        }
    }
}

static void group_gradients(const elmo_softmax *s, int64_t panels, softmax_space *w)
{
    int64_t stretches = ceil_div(s->num_words, WORDS_AT_ONCE);
    elmo_matrix states = {w->states, ELMO_FLOAT32, 0, 0};
    for (int64_t first = 0, at = 0; first < s->num_words; first += WORDS_AT_ONCE, at++) {
        int64_t rows = min64(WORDS_AT_ONCE, s->num_words - first);
        for (int64_t g = 0; g < panels; g++) {
            elmo_matrix right = {w->logits + (g * s->num_words + first) * NR, ELMO_FLOAT32, 0, 0};
            probabilities(w->greatest + (g * stretches + at) * NR, w->most + g * NR, w->total + g * NR, rows,
                          (float *)right.panels, w->d_bias + first);
            for (int64_t k = 0; k < s->dim; k++) {
                w->left[k] = s->transposed + k * s->transposed_stride + first;
                w->out[k] = w->d_states + (g * s->dim + k) * NR;
            }
            multiply(s->dim, PLAIN(w->left), rows, &right, NR, 0, 1, 0, ELMO_IDENTITY, first > 0, w->out);
        }
        for (int64_t i = 0; i < rows; i++) {
            w->left[i] = w->logits + (first + i) * NR;
            w->out[i] = w->d_words + (first + i) * s->dim;
        }
        left_rows left = {w->left, NR, s->num_words * NR, 0, ELMO_FLOAT32};
        multiply(rows, left, GROUP * NR, &states, s->dim, 0, ceil_div(s->dim, NR), 0, ELMO_IDENTITY, 1, w->out);
    }
}

/* A group of tokens; the places after the last token contribute nothing. */
static void softmax_group(const elmo_softmax *s, int64_t first, int64_t last, softmax_space *w)
{
    int64_t panels = ceil_div(last - first, NR);
    place_states(s, first, last, w);
    memset(w->logits + panels * s->num_words * NR, 0, (GROUP - panels) * s->num_words * NR * sizeof(float));
    for (int64_t n = 0; n < GROUP * NR; n++) {
        w->most[n] = first + n < last ? s->target[first + n] : 0.0f;
        w->total[n] = 1.0f; /* exp of the target's logit, relative to itself */
    }
    group_logits(s, first, panels, w);
    for (int64_t n = 0; n < GROUP * NR; n++) {
        if (first + n < last) s->log_total[first + n] = w->most[n] + logf(w->total[n]);
        w->total[n] = first + n < last ? 1.0f / w->total[n] : 0.0f;
    }
    group_gradients(s, panels, w);
    for (int64_t n = 0; n < last - first; n++)
        for (int64_t k = 0; k < s->dim; k++)
            s->d_states[(first + n) * s->dim + k] = w->d_states[(n / NR * s->dim + k) * NR + n % NR];
}

/* One part of the groups, with its own copy of the gradients of words. */
static void softmax_part(const elmo_softmax *s, int64_t part, int64_t parts)
{
    int64_t groups = ceil_div(s->num_tokens, GROUP * NR);
    softmax_space w;
    arena memory = {0, 0};
    lay_out_softmax(s, &memory, &w); /* only counts */
    memory.base = elmo_scratch_take(memory.used);
    if (!memory.base) return;
    memory.used = 0;
    lay_out_softmax(s, &memory, &w);
    w.d_words = s->d_words + part * s->num_words * s->dim;
    w.d_bias = s->d_bias + part * s->num_words;
    memset(w.d_words, 0, s->num_words * s->dim * sizeof(float));
    memset(w.d_bias, 0, s->num_words * sizeof(float));
    for (int64_t group = part * groups / parts; group < (part + 1) * groups / parts; group++)
        softmax_group(s, group * GROUP * NR, min64((group + 1) * GROUP * NR, s->num_tokens), &w);
    elmo_scratch_give(memory.base);
}
