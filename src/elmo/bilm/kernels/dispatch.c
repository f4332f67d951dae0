/* The functions that Python calls: they choose the variant for this processor and divide work among threads. */

#include "kernels.h"

#include <string.h>

enum { MOST_VARIANTS = 8 };

static const elmo_variant *variants[MOST_VARIANTS]; /* the slowest first */
static int64_t num_variants;
static const elmo_variant *chosen;

void elmo_register(const elmo_variant *variant)
{
    if (num_variants == MOST_VARIANTS) return;
    int64_t place = num_variants++;
    for (; place && variants[place - 1]->rank > variant->rank; place--) variants[place] = variants[place - 1];
    variants[place] = variant;
}

const char *elmo_variant_name(int64_t index)
{
    return index >= 0 && index < num_variants ? variants[index]->name : 0;
}

int elmo_choose(const char *name)
{
    const elmo_variant *found = 0;
    for (int64_t i = 0; i < num_variants; i++)
        if ((!*name || !strcmp(name, variants[i]->name)) && variants[i]->supported()) found = variants[i];
    if (found) chosen = found;
    return found ? 0 : -1;
}

const char *elmo_name(void) { return chosen->name; }
int elmo_fast_bf16(void) { return chosen->fast_bf16(); }
int64_t elmo_vector_length(void) { return chosen->vector_length; }

enum { PACK_PARTS = 8 };

static void pack_part(void *context, int64_t part)
{
    const elmo_packing *p = context;
    chosen->pack(p, part * p->num_panels / PACK_PARTS, (part + 1) * p->num_panels / PACK_PARTS);
}

void elmo_pack(elmo_packing *packing, int64_t num_threads)
{
    elmo_parallel(pack_part, packing, PACK_PARTS, num_threads);
}

typedef struct {
    const float *packed;
    int64_t inner, num_panels, format;
    elmo_matrix *to;
} convert_job;

static void convert_part(void *context, int64_t part)
{
    const convert_job *j = context;
    int64_t first = part * j->num_panels / PACK_PARTS, last = (part + 1) * j->num_panels / PACK_PARTS;
    int64_t width = 4 * chosen->vector_length, inner = j->inner;
    int64_t bytes = j->format == ELMO_INT8       ? (inner + 3) / 4 * 4 * width
                    : j->format == ELMO_BFLOAT16 ? (inner + 1) / 2 * 4 * width
                                                 : inner * width * 2;
    chosen->convert(j->packed + first * inner * width, inner, last - first, j->format,
                    (char *)j->to->panels + first * bytes, (float *)j->to->scale + first * width,
                    (int32_t *)j->to->correction + first * width);
}

/* `to` has its format and the memory for it. */
void elmo_convert(const float *packed, int64_t inner, int64_t num_panels, elmo_matrix *to, int64_t num_threads)
{
    convert_job job = {packed, inner, num_panels, to->format, to};
    elmo_parallel(convert_part, &job, PACK_PARTS, num_threads);
}

void elmo_activate(const float *in, float *out, int64_t length, int64_t activation)
{
    chosen->activate(in, out, length, activation);
}

typedef struct {
    const elmo_product *products;
    int64_t parts;
} product_job;

static void product_part(void *context, int64_t index)
{
    const product_job *j = context;
    chosen->product(&j->products[index / j->parts], index % j->parts, j->parts);
}

/* Up to ELMO_PRODUCT_ROWS rows of one product.  One thread computes the same rows together, so the result is identical
   bit for bit. */
static void product_rows(void *context, int64_t index)
{
    const product_job *j = context;
    elmo_product p = j->products[index / j->parts];
    int64_t first = index % j->parts * ELMO_PRODUCT_ROWS;
    if (first >= p.num_rows) return;
    p.num_rows = p.num_rows - first < ELMO_PRODUCT_ROWS ? p.num_rows - first : ELMO_PRODUCT_ROWS;
    if (p.left_rows) p.left_rows += first;
    else p.left += first * p.left_stride;
    if (p.out_rows) p.out_rows += first;
    else p.out += first * p.out_stride;
    chosen->product(&p, 0, 1);
}

typedef struct {
    const float *matrix;
    int64_t num_rows, num_columns, stride;
    float *out;
    int64_t out_stride;
} transpose_job;

enum { TRANSPOSE_PARTS = 16, SIDE = 32 };

static void transpose_part(void *context, int64_t part)
{
    const transpose_job *j = context;
    int64_t blocks = (j->num_columns + SIDE - 1) / SIDE, last = (part + 1) * blocks / TRANSPOSE_PARTS * SIDE;
    if (last > j->num_columns) last = j->num_columns;
    for (int64_t column = part * blocks / TRANSPOSE_PARTS * SIDE; column < last; column += SIDE)
        for (int64_t row = 0; row < j->num_rows; row += SIDE) {
            int64_t rows = j->num_rows - row < SIDE ? j->num_rows - row : SIDE;
            for (int64_t c = column; c < column + SIDE && c < last; c++)
                for (int64_t r = 0; r < rows; r++)
                    j->out[c * j->out_stride + row + r] = j->matrix[(row + r) * j->stride + c];
        }
}

/* out[c][r] = matrix[r][c] */
void elmo_transpose(const float *matrix, int64_t num_rows, int64_t num_columns, int64_t stride, float *out,
                    int64_t out_stride, int64_t num_threads)
{
    transpose_job job = {matrix, num_rows, num_columns, stride, out, out_stride};
    elmo_parallel(transpose_part, &job, TRANSPOSE_PARTS, num_threads);
}

typedef struct {
    const elmo_highway *highway;
    int64_t backward;
} highway_job;

/* With fewer numbers, waking other threads takes longer than the work. */
enum { HIGHWAY_PARTS = 8, FEW_NUMBERS = 1 << 16 };

static void highway_part(void *context, int64_t part)
{
    const highway_job *j = context;
    (j->backward ? chosen->highway_backward : chosen->highway)(j->highway, part, HIGHWAY_PARTS);
}

void elmo_highway_layer(const elmo_highway *highway, int64_t backward, int64_t num_threads)
{
    highway_job job = {highway, backward};
    if (highway->num_rows * highway->dim < FEW_NUMBERS) num_threads = 1;
    elmo_parallel(highway_part, &job, HIGHWAY_PARTS, num_threads);
}

int elmo_multiply(const elmo_product *products, int64_t count, int64_t num_threads)
{
    if (count < num_threads) {
        product_job job = {products, (num_threads + count - 1) / count};
        return elmo_parallel(product_part, &job, count * job.parts, num_threads);
    }
    /* More pieces than threads, so that a thread on a busy core takes fewer of them. */
    int64_t rows = 0;
    for (int64_t i = 0; i < count; i++) rows = products[i].num_rows > rows ? products[i].num_rows : rows;
    product_job job = {products, (rows + ELMO_PRODUCT_ROWS - 1) / ELMO_PRODUCT_ROWS};
    return elmo_parallel(product_rows, &job, count * job.parts, num_threads);
}

typedef struct {
    const elmo_direction *directions;
    int64_t groups;
} forward_job;

/* A group takes every `groups`th row, so that long and short sentences are spread evenly. */
static void forward_part(void *context, int64_t index)
{
    const forward_job *j = context;
    elmo_direction d = j->directions[index / j->groups];
    int64_t group = index % j->groups, count = 0;
    int64_t *rows = elmo_scratch_take((d.num_rows + 1) * sizeof(int64_t));
    if (!rows) return;
    for (int64_t r = group; r < d.num_rows; r += j->groups) rows[count++] = d.rows ? d.rows[r] : r;
    d.rows = rows;
    d.num_rows = count;
    if (count) chosen->forward(&d);
    elmo_scratch_give(rows);
}

/* The first layer's input products that are still to be computed: all of them, in memory for this call (`made`), or
   those with a negative slot, listed in `lists`. */
static int missing_products(elmo_direction *d, elmo_product *product, void **made, void **lists)
{
    const elmo_layer *w = d->layers;
    int64_t vl = chosen->vector_length, width = (w->num_cells + vl - 1) / vl * vl * 4, count = d->num_words;
    int64_t *words = 0, *slots = 0;
    if (!d->products) {
        d->products = *made = elmo_scratch_take(count * width * sizeof(float));
        if (!*made) return ELMO_NO_MEMORY;
    } else {
        words = *lists = elmo_scratch_take(2 * count * sizeof(int64_t));
        if (!*lists) return ELMO_NO_MEMORY;
        slots = words + count;
        count = 0;
        for (int64_t word = 0; word < d->num_words; word++) {
            if (d->slots[word] >= 0) continue;
            words[count] = word;
            slots[count++] = -1 - d->slots[word];
        }
    }
    *product = (elmo_product){.num_rows = count, .inner = w->input_dim, .num_columns = width,
                              .left = d->words, .left_stride = w->input_dim, .left_rows = words,
                              .right = w->input_weight, .bias = w->bias,
                              .out = d->products, .out_stride = width, .out_rows = slots};
    return 0;
}

/* ELMO_BAD_LENGTH or ELMO_BAD_POSITION if a direction would read outside its arrays. */
static int check_direction(const elmo_direction *d)
{
    for (int64_t row = 0; row < d->batch; row++) {
        if (d->lengths[row] < 0 || d->lengths[row] > d->steps) return ELMO_BAD_LENGTH;
        for (int64_t step = 0; step < d->lengths[row]; step++) {
            int64_t word = d->positions[row * d->steps + step];
            if (word < 0 || word >= d->num_words) return ELMO_BAD_POSITION;
        }
    }
    return 0;
}

int elmo_forward(elmo_direction *directions, int64_t count, int64_t num_threads)
{
    enum { MOST = 4, ROWS_PER_GROUP = 16 };
    elmo_product products[MOST];
    void *made[MOST] = {0}, *lists[MOST] = {0};
    int64_t to_make = 0, groups = num_threads / count, rows = directions[0].num_rows;
    if (count > MOST) return ELMO_NO_MEMORY;
    int wrong = check_direction(directions); /* all of them read the same sentences */
    for (int64_t i = 0; i < count && !wrong; i++) {
        wrong = missing_products(&directions[i], &products[i], &made[i], &lists[i]);
        if (!wrong) to_make += products[i].num_rows;
    }
    if (to_make && !wrong) wrong = elmo_multiply(products, count, num_threads);
    if (groups > rows / ROWS_PER_GROUP) groups = rows / ROWS_PER_GROUP;
    forward_job job = {directions, groups > 1 ? groups : 1};
    if (!wrong) wrong = elmo_parallel(forward_part, &job, count * job.groups, num_threads);
    for (int64_t i = 0; i < count; i++) {
        elmo_scratch_give(lists[i]);
        elmo_scratch_give(made[i]);
        if (made[i]) directions[i].products = 0;
    }
    return wrong;
}

typedef struct {
    const elmo_training *training;
    int64_t parts;
} training_job;

static void train_forward_part(void *context, int64_t part)
{
    const training_job *j = context;
    chosen->train_forward(j->training, part, j->parts);
}

static void train_backward_part(void *context, int64_t part)
{
    const training_job *j = context;
    chosen->train_backward(j->training, part, j->parts);
}

static void train_transpose_part(void *context, int64_t part)
{
    const training_job *j = context;
    chosen->train_transpose(j->training, part, j->parts);
}

static void train_weights_part(void *context, int64_t part)
{
    const training_job *j = context;
    chosen->train_weights(j->training, part, j->parts);
}

/* With fewer rows than this, reading the weights takes a thread longer than the time that its work saves. */
static int64_t row_parts(const elmo_training *t, int64_t num_threads)
{
    enum { ROWS_PER_PART = 8 };
    int64_t most = t->batch / ROWS_PER_PART;
    return most < 1 ? 1 : most < num_threads ? most : num_threads;
}

int elmo_train_forward(const elmo_training *training, int64_t num_threads)
{
    for (int64_t row = 0; row < training->batch; row++)
        if (training->lengths[row] < 0 || training->lengths[row] > training->steps) return ELMO_BAD_LENGTH;
    training_job job = {training, row_parts(training, num_threads)};
    return elmo_parallel(train_forward_part, &job, job.parts, num_threads);
}

int elmo_train_backward(const elmo_training *training, int64_t num_threads)
{
    training_job job = {training, row_parts(training, num_threads)};
    if (elmo_parallel(train_backward_part, &job, job.parts, num_threads)) return ELMO_NO_MEMORY;
    job.parts = num_threads;
    elmo_parallel(train_transpose_part, &job, job.parts, num_threads);
    return elmo_parallel(train_weights_part, &job, job.parts, num_threads);
}

/* Renumbers the characters that occur, from 0 in the order of their ids.  `ids` is [num_words, num_columns]; places past
   num_columns are padding.  Fills spelling, lengths and `kept` (the id of each new number, room for num_ids) and
   returns how many there are, or ELMO_BAD_CHARACTER if an id is out of range. */
int64_t elmo_spell(const int64_t *ids, int64_t num_words, int64_t num_columns, int64_t max_characters, int64_t num_ids,
                   int64_t padding, int32_t *spelling, int32_t *lengths, int64_t *kept)
{
    int64_t count = 0;
    memset(kept, 0, num_ids * sizeof(int64_t)); /* first: whether an id occurs; then: its new number */
    kept[padding] = 1;
    for (int64_t i = 0; i < num_words * num_columns; i++) {
        if (ids[i] < 0 || ids[i] >= num_ids) return ELMO_BAD_CHARACTER;
        kept[ids[i]] = 1;
    }
    for (int64_t id = 0; id < num_ids; id++) kept[id] = kept[id] ? count++ : -1;
    for (int64_t w = 0; w < num_words; w++, ids += num_columns, spelling += max_characters) {
        int64_t length = 0;
        for (int64_t i = 0; i < max_characters; i++) {
            int64_t id = i < num_columns ? ids[i] : padding;
            spelling[i] = (int32_t)kept[id];
            if (id != padding) length = i + 1;
        }
        lengths[w] = (int32_t)length;
    }
    for (int64_t id = 0, next = 0; id < num_ids; id++)
        if (kept[id] >= 0) kept[next++] = id;
    return count;
}

static void convolve_block(void *context, int64_t block) { chosen->convolve(context, block); }
static void convolve_backward_block(void *context, int64_t block) { chosen->convolve_backward(context, block); }

int elmo_convolve(const elmo_char_cnn *cnn, int64_t backward, int64_t num_threads)
{
    elmo_task task = backward ? convolve_backward_block : convolve_block;
    return elmo_parallel(task, (void *)cnn, cnn->num_blocks, num_threads);
}

typedef struct {
    const elmo_softmax *softmax;
    int64_t parts;
} softmax_job;

static void softmax_task(void *context, int64_t part)
{
    const softmax_job *j = context;
    chosen->softmax(j->softmax, part, j->parts);
}

int elmo_softmax_loss(const elmo_softmax *softmax, int64_t parts, int64_t num_threads)
{
    softmax_job job = {softmax, parts};
    return elmo_parallel(softmax_task, &job, parts, num_threads);
}

/* Sizes of all structures of kernels.h, in its order: a library built from other sources must not be called. */
int64_t elmo_layout(void)
{
    const int64_t sizes[] = {sizeof(elmo_matrix),   sizeof(elmo_layer),    sizeof(elmo_direction), sizeof(elmo_product),
                             sizeof(elmo_highway),  sizeof(elmo_packing),  sizeof(elmo_training),  sizeof(elmo_bank),
                             sizeof(elmo_char_cnn), sizeof(elmo_gates),    sizeof(elmo_encoder),   sizeof(elmo_softmax)};
    uint64_t mixed = 0;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) mixed = mixed * 1009 + (uint64_t)sizes[i];
    return (int64_t)mixed;
}
