/* Training: one layer forward, saving what the gradient needs, and backward.

   Rows of the batch are independent in the recurrence, so each thread takes some of them through all steps, forward and
   backward.  The gradients of the weights are products over all steps and rows; they are computed afterwards, divided
   among threads by panels.  Backward writes their operands in panels, so that they need no packing. */

INLINE int64_t first_row(const elmo_training *t, int64_t part, int64_t parts) { return part * t->batch / parts; }
INLINE int64_t num_kept(const elmo_training *t) { return t->batch * t->steps; }

/* The rows of one step that have a token, with pointers to their data. */
typedef struct {
    int64_t num_rows;
    int64_t *row; /* in the batch */
    const float **x, **hidden, **left;
    float **output, **projected;
} active_rows;

static void lay_out_rows(int64_t rows, arena *memory, active_rows *a)
{
    a->row = carve(memory, rows * sizeof(int64_t));
    a->x = carve(memory, rows * sizeof(float *));
    a->hidden = carve(memory, rows * sizeof(float *));
    a->left = carve(memory, rows * sizeof(float *));
    a->output = carve(memory, rows * sizeof(float *));
    a->projected = carve(memory, rows * sizeof(float *));
}

static void find_active(const elmo_training *t, int64_t first, int64_t last, int64_t step, active_rows *a)
{
    a->num_rows = 0;
    for (int64_t b = first; b < last; b++)
        if (step < t->lengths[b]) a->row[a->num_rows++] = b;
}

/* As cell_update in lstm_forward.h, but stores the gates and the cell before its clip. */
INLINE void cell_forward(const float *sums, const float *bias, const float *previous, float previous_clip, float clip,
                         float *gates, float *cell, float *output)
{
    vf i = sigmoid(load(sums) + load(bias)), f = sigmoid(load(sums + VL) + load(bias + VL));
    vf g = tanh_vf(load(sums + 2 * VL) + load(bias + 2 * VL)), o = sigmoid(load(sums + 3 * VL) + load(bias + 3 * VL));
    vf c = f * clamp(load(previous), previous_clip) + i * g;
    store(gates, i);
    store(gates + VL, f);
    store(gates + 2 * VL, g);
    store(gates + 3 * VL, o);
    store(cell, c);
    store(output, o * tanh_vf(clamp(c, clip)));
}

/* The cells before a step, row b at `rows + b * stride`.  Those of an earlier step are stored before the clip; those of
   the initial state are not clipped, as in the reference. */
typedef struct {
    const float *rows;
    int64_t stride;
    float clip;
} previous_cells;

static previous_cells cells_before(const elmo_training *t, int64_t step, const float *initial)
{
    int64_t cells = padded_cells(&t->layer);
    if (step == 0) return (previous_cells){initial, cells, INFINITY};
    return (previous_cells){t->cells + (step - 1) * t->batch * cells, cells, t->layer.cell_clip};
}

/* The initial cells, padded; row b at the result + b * padded cells, for the rows `first` .. `last` - 1 only. */
static const float *initial_cells(const elmo_training *t, int64_t first, int64_t last, float *memory)
{
    int64_t cells = padded_cells(&t->layer), real = t->layer.num_cells;
    memset(memory, 0, (last - first) * cells * sizeof(float));
    for (int64_t b = first; b < last; b++)
        memcpy(memory + (b - first) * cells, t->cell_in + b * real, real * sizeof(float));
    return memory - first * cells;
}

static void step_forward(const elmo_training *t, const active_rows *a, int64_t step, previous_cells previous)
{
    const elmo_layer *w = &t->layer;
    int64_t panels = cell_panels(w), tiles = ceil_div(a->num_rows, MR), kept = num_kept(t);
    int64_t cells = padded_cells(w);
    converted_rows x = convert_rows(a->num_rows, PLAIN(a->x), w->input_dim, &w->input_weight);
    converted_rows hidden = convert_rows(a->num_rows, PLAIN(a->hidden), w->hidden_dim, &w->recurrent_weight);
    float sums[MR * NR] __attribute__((aligned(64)));
    for (int64_t p = 0; p < panels; p++) {
        int64_t next = p + 1 < panels ? p + 1 : p;
        const char *next_x = panel_at(&w->input_weight, w->input_dim, next, 0);
        const char *next_h = panel_at(&w->recurrent_weight, w->hidden_dim, next, 0);
        for (int64_t tile = 0; tile < tiles; tile++) {
            int64_t start = tile * a->num_rows / tiles, stop = (tile + 1) * a->num_rows / tiles;
            for (int64_t r = start; r < stop; r++) {
                int64_t n = step * t->batch + a->row[r];
                for (int64_t j = 0; j < NR; j += 16) __builtin_prefetch(t->gates + (p * kept + n) * NR + j, 1);
                __builtin_prefetch(t->cells + n * cells + p * VL, 1);
                __builtin_prefetch(previous.rows + a->row[r] * previous.stride + p * VL);
            }
            tile_sum(stop - start, x.rows, start, w->input_dim, 0, w->input_dim, &w->input_weight, p, tile, tiles, next_x, sums,
                     1);
            tile_sum(stop - start, hidden.rows, start, w->hidden_dim, 0, w->hidden_dim, &w->recurrent_weight, p, tile, tiles,
                     next_h, sums, 0);
            for (int64_t r = start; r < stop; r++) {
                int64_t b = a->row[r], n = step * t->batch + b;
                cell_forward(sums + (r - start) * NR, w->bias + p * NR, previous.rows + b * previous.stride + p * VL,
                             previous.clip, w->cell_clip, t->gates + (p * kept + n) * NR,
                             t->cells + n * cells + p * VL, a->output[r] + p * VL);
            }
        }
    }
    elmo_scratch_give(x.memory);
    elmo_scratch_give(hidden.memory);
}

static void emit_hidden(const elmo_training *t, const active_rows *a, int64_t step)
{
    const elmo_layer *w = &t->layer;
    int64_t width = w->hidden_dim;
    if (w->projection_weight.panels)
        multiply(a->num_rows, PLAIN(a->output), w->num_cells, &w->projection_weight, width, 0, ceil_div(width, NR), 0, ELMO_IDENTITY, 0, a->projected);
    for (int64_t r = 0; r < a->num_rows; r++) {
        float *out = t->out + (a->row[r] * t->steps + step) * width;
        const float *from = w->projection_weight.panels ? a->projected[r] : a->output[r];
        memcpy(out, from, width * sizeof(float));
        if (w->projection_weight.panels) add_and_clip(width, out, w->projection_clip, 0, 0);
    }
}

/* The state after a row's last token, and zeros after it. */
static void final_row(const elmo_training *t, int64_t b)
{
    const elmo_layer *w = &t->layer;
    int64_t length = min64(t->lengths[b], t->steps), cells = w->num_cells, width = w->hidden_dim;
    const float *hidden = length ? t->out + (b * t->steps + length - 1) * width : t->hidden_in + b * width;
    const float *cell = length ? t->cells + ((length - 1) * t->batch + b) * padded_cells(w) : t->cell_in + b * cells;
    memcpy(t->hidden_out + b * width, hidden, width * sizeof(float));
    memcpy(t->cell_out + b * cells, cell, cells * sizeof(float));
    if (length) add_and_clip(cells, t->cell_out + b * cells, w->cell_clip, 0, 0);
    memset(t->out + (b * t->steps + length) * width, 0, (t->steps - length) * width * sizeof(float));
}

static void forward_rows(const elmo_training *t, int64_t first, int64_t last, arena *memory)
{
    const elmo_layer *w = &t->layer;
    int64_t rows = last - first, cells = padded_cells(w), spacing = spaced(cells), width = w->hidden_dim;
    active_rows a;
    lay_out_rows(rows, memory, &a);
    float *start = carve(memory, rows * cells * sizeof(float));
    float *outputs = carve(memory, rows * spacing * sizeof(float));
    if (!memory->base) return;
    const float *initial = initial_cells(t, first, last, start);
    for (int64_t step = 0; step < t->steps; step++) {
        find_active(t, first, last, step, &a);
        for (int64_t r = 0; r < a.num_rows; r++) {
            int64_t b = a.row[r];
            a.x[r] = t->x + b * t->x_row + step * t->x_step;
            a.hidden[r] = step ? t->out + (b * t->steps + step - 1) * width : t->hidden_in + b * width;
            a.output[r] = outputs + r * spacing;
            a.projected[r] = t->raw + (step * t->batch + b) * width;
        }
        step_forward(t, &a, step, cells_before(t, step, initial));
        emit_hidden(t, &a, step);
    }
    for (int64_t b = first; b < last; b++) final_row(t, b);
}

/* Gradients through one vector of cells.  `d_cell` holds the gradient of c from the next step and receives that for the
   previous one; a clip passes the gradient where it did not change the value. */
INLINE void cell_backward(vf d_output, const float *gates, const float *cell, const float *previous,
                          float previous_clip, float clip, float *d_cell, float *d_gates, float *output)
{
    vf i = load(gates), f = load(gates + VL), g = load(gates + 2 * VL), o = load(gates + 3 * VL);
    vf raw = load(cell), c = clamp(raw, clip), squashed = tanh_vf(c);
    vf dc = load(d_cell) + d_output * o * (1.0f - squashed * squashed);
    dc = (vf)((vi)dc & (raw == c));
    store(output, o * squashed);
    store(d_gates, dc * g * (i - i * i));
    store(d_gates + VL, dc * clamp(load(previous), previous_clip) * (f - f * f));
    store(d_gates + 2 * VL, dc * i * (1.0f - g * g));
    store(d_gates + 3 * VL, d_output * squashed * (o - o * o));
    store(d_cell, dc * f);
}

/* One tile's rows and the NR cells of panel `p`; `sums` holds the gradient of m. */
static void tile_backward(const elmo_training *t, const active_rows *a, int64_t step, previous_cells previous,
                          int64_t p, int64_t start, int64_t stop, const float *sums, float *d_cells)
{
    const elmo_layer *w = &t->layer;
    int64_t kept = num_kept(t), cells = padded_cells(w), last = min64(cell_panels(w), 4 * p + 4);
    for (int64_t q = 4 * p; q < last; q++) { /* a panel of cells has four panels of gates */
        for (int64_t r = start; r < stop; r++) {
            int64_t b = a->row[r], n = step * t->batch + b;
            cell_backward(load(sums + (r - start) * NR + (q - 4 * p) * VL), t->gates + (q * kept + n) * NR,
                          t->cells + n * cells + q * VL, previous.rows + b * previous.stride + q * VL, previous.clip,
                          w->cell_clip, d_cells + b * cells + q * VL, t->d_gates + (q * kept + n) * NR,
                          t->outputs + (p * kept + n) * NR + (q - 4 * p) * VL);
        }
    }
}

static void prefetch_tile(const elmo_training *t, const active_rows *a, int64_t step, previous_cells previous, int64_t p,
                       int64_t start, int64_t stop)
{
    int64_t kept = num_kept(t), cells = padded_cells(&t->layer), last = min64(cell_panels(&t->layer), 4 * p + 4);
    for (int64_t q = 4 * p; q < last; q++)
        for (int64_t r = start; r < stop; r++) {
            int64_t n = step * t->batch + a->row[r];
            for (int64_t j = 0; j < NR; j += 16) {
                __builtin_prefetch(t->gates + (q * kept + n) * NR + j);
                __builtin_prefetch(t->d_gates + (q * kept + n) * NR + j, 1);
            }
            __builtin_prefetch(t->cells + n * cells + q * VL);
            __builtin_prefetch(previous.rows + a->row[r] * previous.stride + q * VL);
            __builtin_prefetch(t->outputs + (p * kept + n) * NR + (q - 4 * p) * VL, 1);
        }
}

static void step_backward(const elmo_training *t, const active_rows *a, int64_t step, previous_cells previous,
                          float *d_cells)
{
    const elmo_layer *w = &t->layer;
    int64_t panels = ceil_div(w->num_cells, NR), tiles = ceil_div(a->num_rows, MR);
    converted_rows left = convert_rows(a->num_rows, PLAIN(a->left), w->hidden_dim, &t->cell_weight);
    float sums[MR * NR] __attribute__((aligned(64)));
    for (int64_t p = 0; p < panels; p++) {
        if (w->num_cells - p * NR < NR) memset(sums, 0, sizeof sums);
        const char *next = panel_at(&t->cell_weight, w->hidden_dim, p + 1 < panels ? p + 1 : p, 0);
        for (int64_t tile = 0; tile < tiles; tile++) {
            int64_t start = tile * a->num_rows / tiles, stop = (tile + 1) * a->num_rows / tiles;
            prefetch_tile(t, a, step, previous, p, start, stop);
            if (t->cell_weight.panels)
                tile_sum(stop - start, left.rows, start, w->hidden_dim, 0, w->hidden_dim, &t->cell_weight, p, tile, tiles,
                         next, sums, 1);
            else /* without projection h is m */
                for (int64_t r = start; r < stop; r++)
                    memcpy(sums + (r - start) * NR, a->left[r] + p * NR,
                           min64(NR, w->num_cells - p * NR) * sizeof(float));
            tile_backward(t, a, step, previous, p, start, stop, sums, d_cells);
        }
    }
    elmo_scratch_give(left.memory);
}

/* The gradient of h before its clip: from the layer above and from the next step. */
static void hidden_backward(const elmo_training *t, int64_t b, int64_t step, const float *d_hidden)
{
    const elmo_layer *w = &t->layer;
    int64_t width = w->hidden_dim, n = step * t->batch + b;
    const float *d_out = t->d_out + (b * t->steps + step) * width, *raw = t->raw + n * width;
    float *to = t->d_projected + n * width;
    float clip = w->projection_weight.panels ? w->projection_clip : INFINITY;
    for (int64_t j = 0; j < width; j++) {
        float d = d_out[j] + d_hidden[j];
        to[j] = clip == INFINITY || (raw[j] <= clip && raw[j] >= -clip) ? d : 0.0f;
    }
}

/* Where there is no token all gradients are zeros, also for the products over all rows. */
static void no_gradient(const elmo_training *t, int64_t b, int64_t step)
{
    const elmo_layer *w = &t->layer;
    int64_t kept = num_kept(t), n = step * t->batch + b;
    memset(t->d_projected + n * w->hidden_dim, 0, w->hidden_dim * sizeof(float));
    memset(t->d_x + (b * t->steps + step) * w->input_dim, 0, w->input_dim * sizeof(float));
    for (int64_t q = 0; q < cell_panels(w); q++) memset(t->d_gates + (q * kept + n) * NR, 0, NR * sizeof(float));
    for (int64_t p = 0; p < ceil_div(w->num_cells, NR); p++)
        memset(t->outputs + (p * kept + n) * NR, 0, NR * sizeof(float));
}

static void backward_rows(const elmo_training *t, int64_t first, int64_t last, arena *memory)
{
    const elmo_layer *w = &t->layer;
    int64_t rows = last - first, cells = padded_cells(w), width = w->hidden_dim, wide = width + w->input_dim;
    int64_t kept = num_kept(t), spacing = spaced(wide);
    active_rows a;
    lay_out_rows(rows, memory, &a);
    float *start = carve(memory, rows * cells * sizeof(float));
    float *d_cells = carve(memory, rows * cells * sizeof(float));
    float *back = carve(memory, rows * spacing * sizeof(float));
    if (!memory->base) return;
    const float *initial = initial_cells(t, first, last, start);
    memset(d_cells, 0, rows * cells * sizeof(float));
    for (int64_t b = first; b < last; b++) {
        memcpy(d_cells + (b - first) * cells, t->d_cell_out + b * w->num_cells, w->num_cells * sizeof(float));
        memcpy(t->d_hidden_in + b * width, t->d_hidden_out + b * width, width * sizeof(float));
    }
    for (int64_t step = t->steps - 1; step >= 0; step--) {
        find_active(t, first, last, step, &a);
        for (int64_t b = first; b < last; b++)
            if (step >= t->lengths[b]) no_gradient(t, b, step);
        for (int64_t r = 0; r < a.num_rows; r++) {
            int64_t b = a.row[r], n = step * t->batch + b;
            hidden_backward(t, b, step, t->d_hidden_in + b * width);
            a.left[r] = t->d_projected + n * width;
            a.x[r] = t->d_gates + n * NR;
            a.projected[r] = back + r * spacing;
        }
        step_backward(t, &a, step, cells_before(t, step, initial), d_cells - first * cells);
        multiply(a.num_rows, (left_rows){a.x, NR, kept * NR, 0, ELMO_FLOAT32}, gate_width(w), &t->back_weight, wide, 0,
                 ceil_div(wide, NR), 0, ELMO_IDENTITY, 0, a.projected);
        for (int64_t r = 0; r < a.num_rows; r++) {
            int64_t b = a.row[r];
            memcpy(t->d_hidden_in + b * width, a.projected[r], width * sizeof(float));
            memcpy(t->d_x + (b * t->steps + step) * w->input_dim, a.projected[r] + width,
                   w->input_dim * sizeof(float));
        }
    }
    for (int64_t b = first; b < last; b++)
        memcpy(t->d_cell_in + b * w->num_cells, d_cells + (b - first) * cells, w->num_cells * sizeof(float));
}

typedef void (*rows_task)(const elmo_training *, int64_t, int64_t, arena *);

static void with_scratch(rows_task task, const elmo_training *t, int64_t part, int64_t parts)
{
    int64_t first = first_row(t, part, parts), last = first_row(t, part + 1, parts);
    arena memory = {0, 0};
    task(t, first, last, &memory);
    memory.base = elmo_scratch_take(memory.used);
    if (!memory.base) return;
    memory.used = 0;
    task(t, first, last, &memory);
    elmo_scratch_give(memory.base);
}

static void train_forward(const elmo_training *t, int64_t part, int64_t parts)
{
    with_scratch(forward_rows, t, part, parts);
}

static void train_backward(const elmo_training *t, int64_t part, int64_t parts)
{
    with_scratch(backward_rows, t, part, parts);
}

INLINE int64_t transposed_stride(const elmo_training *t) { return spaced(num_kept(t)); }

static void transpose_rows(const float *const *rows, int64_t count, int64_t width, float *to, int64_t stride)
{
    for (int64_t j = 0; j < width; j++)
        for (int64_t i = 0; i < count; i++) to[j * stride + i] = rows[i][j];
}

/* x^T, the h before each step transposed, a row of ones (for the bias), and the gradient of h transposed. */
static void train_transpose(const elmo_training *t, int64_t part, int64_t parts)
{
    const elmo_layer *w = &t->layer;
    int64_t width = w->hidden_dim, stride = transposed_stride(t), first = part * t->steps / parts;
    float *hidden_to = t->transposed + w->input_dim * stride, *ones = hidden_to + width * stride, *d_to = ones + stride;
    enum { ROWS = 16 };
    const float *x[ROWS], *hidden[ROWS], *d[ROWS];
    for (int64_t step = first; step < (part + 1) * t->steps / parts; step++) {
        for (int64_t from = 0; from < t->batch; from += ROWS) {
            int64_t count = min64(ROWS, t->batch - from), n = step * t->batch + from;
            for (int64_t i = 0; i < count; i++) {
                int64_t b = from + i;
                d[i] = t->d_projected + (n + i) * width;
                x[i] = t->x + b * t->x_row + step * t->x_step;
                hidden[i] = step ? t->out + (b * t->steps + step - 1) * width : t->hidden_in + b * width;
                ones[n + i] = 1.0f;
            }
            transpose_rows(x, count, w->input_dim, t->transposed + n, stride);
            transpose_rows(hidden, count, width, hidden_to + n, stride);
            if (w->projection_weight.panels) transpose_rows(d, count, width, d_to + n, stride);
        }
    }
}

/* One panel's gradients, [input_dim + hidden_dim + 1][NR], to their rows in torch's order. */
static void place_gradients(const elmo_training *t, int64_t p, const float *sums)
{
    const elmo_layer *w = &t->layer;
    int64_t width = w->hidden_dim, inputs = w->input_dim;
    for (int64_t lane = 0; lane < NR; lane++) {
        int64_t cell = p * VL + lane % VL, row = lane / VL * w->num_cells + cell;
        if (cell >= w->num_cells) continue;
        for (int64_t j = 0; j < inputs; j++) t->d_input_weight[row * inputs + j] = sums[j * NR + lane];
        for (int64_t j = 0; j < width; j++) t->d_recurrent_weight[row * width + j] = sums[(inputs + j) * NR + lane];
        t->d_bias[row] = sums[(inputs + width) * NR + lane];
    }
}

/* A panel written by backward, as the right-hand side of a product; converted to bf16 in `memory` if the weights are. */
static elmo_matrix right_panel(const elmo_training *t, const float *panel, uint16_t *memory)
{
    int64_t kept = num_kept(t);
    if (t->back_weight.format != ELMO_BFLOAT16) return (elmo_matrix){panel, ELMO_FLOAT32, 0, 0};
    for (int64_t n = 0; n < kept; n++)
        for (int64_t j = 0; j < NR; j++) memory[(n / 2 * NR + j) * 2 + n % 2] = to_bf16(panel[n * NR + j]);
    for (int64_t j = 0; kept % 2 && j < NR; j++) memory[(kept / 2 * NR + j) * 2 + 1] = 0;
    return (elmo_matrix){memory, ELMO_BFLOAT16, 0, 0};
}

/* Memory of train_weights. */
typedef struct {
    const float **left;
    float **out, *sums;
    uint16_t *bf16;
} weights_space;

static void gate_weights(const elmo_training *t, weights_space *s, left_rows left, int64_t first, int64_t last)
{
    int64_t rows = t->layer.input_dim + t->layer.hidden_dim + 1, kept = num_kept(t);
    for (int64_t j = 0; j < rows; j++) s->out[j] = s->sums + j * NR;
    for (int64_t p = first; p < last; p++) {
        elmo_matrix panel = right_panel(t, t->d_gates + p * kept * NR, s->bf16);
        multiply(rows, left, kept, &panel, NR, 0, 1, 0, ELMO_IDENTITY, 0, s->out);
        place_gradients(t, p, s->sums);
    }
}

static void projection_weights(const elmo_training *t, weights_space *s, left_rows left, int64_t first, int64_t last)
{
    int64_t width = t->layer.hidden_dim, cells = t->layer.num_cells, kept = num_kept(t);
    for (int64_t p = first; p < last; p++) {
        elmo_matrix panel = right_panel(t, t->outputs + p * kept * NR, s->bf16);
        for (int64_t j = 0; j < width; j++) s->out[j] = t->d_projection_weight + j * cells + p * NR;
        multiply(width, left, kept, &panel, min64(NR, cells - p * NR), 0, 1, 0, ELMO_IDENTITY, 0, s->out);
    }
}

static void train_weights(const elmo_training *t, int64_t part, int64_t parts)
{
    const elmo_layer *w = &t->layer;
    int64_t width = w->hidden_dim, rows = w->input_dim + width + 1, kept = num_kept(t);
    weights_space s;
    arena memory = {0, 0};
    for (int pass = 0; pass < 2; pass++) { /* the first pass only counts the bytes */
        if (pass) memory.base = elmo_scratch_take(memory.used);
        if (pass && !memory.base) return;
        memory.used = 0;
        s.left = carve(&memory, (rows + width) * sizeof(float *));
        s.out = carve(&memory, (rows + width) * sizeof(float *));
        s.sums = carve(&memory, rows * NR * sizeof(float));
        s.bf16 = carve(&memory, (kept + 1) * NR * sizeof(uint16_t));
    }
    for (int64_t j = 0; j < rows + width; j++) s.left[j] = t->transposed + j * transposed_stride(t);
    int64_t panels = cell_panels(w), blocks = ceil_div(w->num_cells, NR);
    converted_rows gates = convert_rows(rows, PLAIN(s.left), kept, &t->back_weight);
    gate_weights(t, &s, gates.rows, part * panels / parts, (part + 1) * panels / parts);
    elmo_scratch_give(gates.memory);
    if (w->projection_weight.panels) {
        converted_rows projection = convert_rows(width, PLAIN(s.left + rows), kept, &t->back_weight);
        projection_weights(t, &s, projection.rows, part * blocks / parts, (part + 1) * blocks / parts);
        elmo_scratch_give(projection.memory);
    }
    elmo_scratch_give(memory.base);
}
