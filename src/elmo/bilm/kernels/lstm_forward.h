/* Inference: one direction's stack of LSTM layers over a ragged batch.

   A step multiplies, activates and clips tile by tile: the gates of VL cells and MR rows never leave the first-level
   cache.  Input products do not depend on the recurrence: the first layer's are computed once per distinct word, the
   upper layers' for several steps at once where one step has too few rows to reuse a weight. */

/* A step with at least this many rows computes its input product in the same pass over the tiles. */
#define WIDE_STEP 48
/* Otherwise, input products are computed for several steps that have about this many rows together. */
#define BLOCK_ROWS 96

INLINE int64_t cell_panels(const elmo_layer *w) { return ceil_div(w->num_cells, VL); }
INLINE int64_t padded_cells(const elmo_layer *w) { return cell_panels(w) * VL; }
INLINE int64_t gate_width(const elmo_layer *w) { return cell_panels(w) * NR; }

/* c = sigmoid(f) c' + sigmoid(i) tanh(g), clipped; m = sigmoid(o) tanh(c).  Each product of a sigmoid and a tanh
   takes one division. */
INLINE void cell_update(const float *sums, const float *inputs, const float *previous, float clip, float *cell,
                        float *output)
{
    vf i = load(sums) + load(inputs), f = load(sums + VL) + load(inputs + VL);
    vf g = load(sums + 2 * VL) + load(inputs + 2 * VL), o = load(sums + 3 * VL) + load(inputs + 3 * VL);
    vf above, below;
    tanh_parts(g, &above, &below);
    vf c = above * reciprocal(below * sigmoid_below(i));
    if (previous) c += load(previous) * reciprocal(sigmoid_below(f));
    c = clamp(c, clip);
    store(cell, c);
    tanh_parts(c, &above, &below);
    store(output, above * reciprocal(below * sigmoid_below(o)));
}

/* The rows of one step.  `inputs` are pre-activations, or just the bias when `x` has the layer's input rows. */
typedef struct {
    int64_t num_rows;
    const float **x, **hidden; /* NULL: none, and zeros */
    const float **inputs;
    const float **previous;    /* cells; NULL: zeros */
    float **cell, **output;
} step_rows;

/* `backwards`: from the last panel to the first.  Steps alternate, so that weights that do not all fit in the cache are
   partly still there from the end of the previous step. */
static void lstm_step(const elmo_layer *w, const step_rows *s, int backwards)
{
    int64_t panels = cell_panels(w), tiles = ceil_div(s->num_rows, MR);
    float sums[MR * NR] __attribute__((aligned(64)));
    converted_rows x = convert_rows(s->num_rows, PLAIN(s->x), w->input_dim, &w->input_weight);
    converted_rows hidden = convert_rows(s->num_rows, PLAIN(s->hidden), w->hidden_dim, &w->recurrent_weight);
    memset(sums, 0, sizeof sums);
    for (int64_t i = 0; i < panels; i++) {
        int64_t p = backwards ? panels - 1 - i : i, next = i + 1 == panels ? p : backwards ? p - 1 : p + 1;
        const char *next_x = panel_at(&w->input_weight, w->input_dim, next, 0);
        const char *next_h = panel_at(&w->recurrent_weight, w->hidden_dim, next, 0);
        for (int64_t tile = 0; tile < tiles; tile++) {
            int64_t start = tile * s->num_rows / tiles, stop = (tile + 1) * s->num_rows / tiles;
            for (int64_t r = start; r < stop; r++) {
                for (int64_t j = 0; j < NR; j += 16) __builtin_prefetch(s->inputs[r] + p * NR + j);
                if (s->previous) __builtin_prefetch(s->previous[r] + p * VL);
                __builtin_prefetch(s->cell[r] + p * VL, 1);
                __builtin_prefetch(s->output[r] + p * VL, 1);
            }
            if (s->x)
                tile_sum(stop - start, x.rows, start, w->input_dim, 0, w->input_dim, &w->input_weight, p, tile, tiles, next_x,
                         sums, 1);
            if (s->hidden)
                tile_sum(stop - start, hidden.rows, start, w->hidden_dim, 0, w->hidden_dim, &w->recurrent_weight, p, tile,
                         tiles, next_h, sums, !s->x);
            for (int64_t r = start; r < stop; r++)
                cell_update(sums + (r - start) * NR, s->inputs[r] + p * NR,
                            s->previous ? s->previous[r] + p * VL : 0, w->cell_clip, s->cell[r] + p * VL,
                            s->output[r] + p * VL);
        }
    }
    elmo_scratch_give(x.memory);
    elmo_scratch_give(hidden.memory);
}

static void add_and_clip(int64_t width, float *hidden, float clip, const float *x, float *out)
{
    for (int64_t j = 0; j < width; j++) {
        float h = hidden[j];
        h = h > clip ? clip : h < -clip ? -clip : h;
        hidden[j] = h;
        if (x) out[j] = h + x[j];
    }
}

/* Working memory of a direction; rows are `spaced` apart. */
typedef struct {
    prefix_tree tree;
    int64_t hidden_stride, cell_stride;
    float *hidden;       /* [nodes]: h, the recurrent state after each node */
    float *layer[2];     /* [nodes]: outputs of this layer and of the one below */
    float *cell[2];      /* [widest level]: this level and the one before */
    float *output;       /* [widest level]: m, before the projection */
    float *inputs;       /* [most nodes of a block, gate_width] */
    const float **x, **gates, **recurrent, **previous; /* [widest block]: rows of a step */
    float **current, **emitted, **projected;
} workspace;

static void lay_out(const elmo_direction *d, arena *memory, workspace *s)
{
    int64_t cells = 0, hidden = 0;
    for (int64_t l = 0; l < d->num_layers; l++) {
        const elmo_layer *w = &d->layers[l];
        int64_t wide = w->projection_weight.panels ? w->hidden_dim : padded_cells(w);
        cells = padded_cells(w) > cells ? padded_cells(w) : cells;
        hidden = wide > hidden ? wide : hidden;
    }
    s->hidden_stride = spaced(hidden);
    s->cell_stride = spaced(cells);
    int64_t nodes = s->tree.num_nodes, rows = s->tree.widest > d->num_rows ? s->tree.widest : d->num_rows;
    int64_t block = rows > BLOCK_ROWS ? rows : BLOCK_ROWS;
    s->hidden = carve(memory, nodes * s->hidden_stride * sizeof(float));
    for (int i = 0; i < 2; i++) {
        s->layer[i] = carve(memory, nodes * s->hidden_stride * sizeof(float));
        s->cell[i] = carve(memory, rows * s->cell_stride * sizeof(float));
    }
    s->output = carve(memory, rows * s->cell_stride * sizeof(float));
    s->inputs = carve(memory, (s->tree.widest < WIDE_STEP ? BLOCK_ROWS : block) * 4 * cells * sizeof(float));
    s->x = carve(memory, block * sizeof(float *));
    s->gates = carve(memory, block * sizeof(float *));
    s->recurrent = carve(memory, rows * sizeof(float *));
    s->previous = carve(memory, rows * sizeof(float *));
    s->current = carve(memory, rows * sizeof(float *));
    s->emitted = carve(memory, rows * sizeof(float *));
    s->projected = carve(memory, rows * sizeof(float *));
}

/* The cells before the first step, copied to cell[1], which level 0 reads; h is read in place. */
static void start_state(const elmo_direction *d, int64_t l, workspace *s)
{
    int64_t cells = d->layers[l].num_cells, rows = one_state(d) ? 1 : d->num_rows;
    for (int64_t r = 0; r < rows; r++) {
        float *cell = s->cell[1] + r * s->cell_stride;
        memset(cell, 0, s->cell_stride * sizeof(float));
        memcpy(cell, d->cell_in + l * d->cell_in_layer + d->rows[r] * d->cell_in_row, cells * sizeof(float));
    }
}

/* Input products of the nodes `first` .. `last` - 1 of an upper layer. */
static void block_inputs(const elmo_layer *w, workspace *s, const float *below, int64_t first, int64_t last)
{
    for (int64_t n = first; n < last; n++) {
        s->x[n - first] = below + n * s->hidden_stride;
        s->gates[n - first] = s->inputs + (n - first) * gate_width(w);
    }
    multiply(last - first, PLAIN(s->x), w->input_dim, &w->input_weight, gate_width(w), 0, cell_panels(w), w->bias,
             ELMO_IDENTITY, 0, (float *const *)s->gates);
}

/* Pointers to the state of each row's parent, and to where its own goes. */
static step_rows level_rows(const elmo_direction *d, int64_t l, workspace *s, int64_t t)
{
    const elmo_layer *w = &d->layers[l];
    int64_t first = s->tree.level[t], rows = s->tree.level[t + 1] - first;
    for (int64_t i = 0; i < rows; i++) {
        int64_t parent = s->tree.parent[first + i];
        if (t > 0) s->recurrent[i] = s->hidden + (s->tree.level[t - 1] + parent) * s->hidden_stride;
        else if (d->hidden_in)
            s->recurrent[i] = d->hidden_in + l * d->hidden_in_layer + d->rows[parent] * d->hidden_in_row;
        s->previous[i] = s->cell[(t + 1) & 1] + parent * s->cell_stride;
        s->current[i] = s->cell[t & 1] + i * s->cell_stride;
        s->projected[i] = s->hidden + (first + i) * s->hidden_stride;
        s->emitted[i] = w->projection_weight.panels ? s->output + i * s->cell_stride : s->projected[i];
    }
    int fresh = t == 0 && !d->hidden_in;
    return (step_rows){rows, 0, fresh ? 0 : s->recurrent, s->gates, fresh ? 0 : s->previous, s->current, s->emitted};
}

/* Writes the state of the rows that end at this level. */
static void final_states(const elmo_direction *d, int64_t l, const workspace *s, int64_t t)
{
    const elmo_layer *w = &d->layers[l];
    if (!d->hidden_out) return;
    for (int64_t r = 0; r < d->num_rows; r++) {
        int64_t row = d->rows[r];
        if (d->lengths[row] != t + 1) continue;
        int64_t node = s->tree.node[r * s->tree.num_levels + t], at = l * d->batch + row;
        memcpy(d->hidden_out + at * w->hidden_dim, s->hidden + node * s->hidden_stride,
               w->hidden_dim * sizeof(float));
        memcpy(d->cell_out + at * w->num_cells, s->cell[t & 1] + (node - s->tree.level[t]) * s->cell_stride,
               w->num_cells * sizeof(float));
    }
}

/* Writes a layer (NULL: the token vectors) to the output, zeros past each row's end. */
static void place_layer(const elmo_direction *d, const workspace *s, const float *nodes, int64_t width, float *out)
{
    for (int64_t r = 0; r < d->num_rows; r++) {
        int64_t row = d->rows[r], last = d->lengths[row] - 1;
        float *to = out + row * d->out_row;
        for (int64_t place = d->trim; place < d->steps - d->trim; place++, to += d->out_step) {
            if (place > last - d->trim) {
                memset(to, 0, width * sizeof(float));
                continue;
            }
            int64_t step = d->reverse ? last - place : place;
            const float *from = nodes ? nodes + s->tree.node[r * s->tree.num_levels + step] * s->hidden_stride
                                      : d->words + d->positions[row * d->steps + place] * width;
            memcpy(to, from, width * sizeof(float));
        }
    }
}

INLINE int64_t slot_of(const elmo_direction *d, int64_t word)
{
    int64_t slot = d->slots ? d->slots[word] : word;
    return slot < 0 ? -1 - slot : slot;
}

/* One layer over all levels; `below` holds its input rows (NULL: the first layer), `above` takes its output. */
static void run_layer(const elmo_direction *d, int64_t l, workspace *s, const float *below, float *above)
{
    const elmo_layer *w = &d->layers[l];
    const prefix_tree *tree = &s->tree;
    int64_t block = 0, block_end = 0;
    if (d->hidden_in) start_state(d, l, s);
    for (int64_t t = 0; t < tree->num_levels; t++) {
        int64_t first = tree->level[t], rows = tree->level[t + 1] - first;
        int wide = below && rows >= WIDE_STEP;
        if (below && !wide && t >= block_end) {
            for (block = t, block_end = t + 1; block_end < tree->num_levels; block_end++) {
                if (tree->level[block_end + 1] - tree->level[block] > BLOCK_ROWS) break;
            }
            block_inputs(w, s, below, first, tree->level[block_end]);
        }
        for (int64_t i = 0; i < rows; i++) {
            int64_t word = tree->word[first + i];
            if (!below) s->gates[i] = d->products + slot_of(d, word) * gate_width(w);
            else if (wide) s->gates[i] = w->bias;
            else s->gates[i] = s->inputs + (first - tree->level[block] + i) * gate_width(w);
            if (wide) s->x[i] = below + (first + i) * s->hidden_stride;
        }
        step_rows step = level_rows(d, l, s, t);
        step.x = wide ? s->x : 0;
        lstm_step(w, &step, t & 1);
        if (w->projection_weight.panels)
            multiply(rows, PLAIN(s->emitted), w->num_cells, &w->projection_weight, w->hidden_dim, 0, ceil_div(w->hidden_dim, NR), 0, ELMO_IDENTITY, 0,
                     s->projected);
        for (int64_t i = 0; i < rows; i++)
            add_and_clip(w->hidden_dim, s->projected[i], w->projection_weight.panels ? w->projection_clip : INFINITY,
                         w->skip ? below + (first + i) * s->hidden_stride : 0,
                         above + (first + i) * s->hidden_stride);
        final_states(d, l, s, t);
    }
}

static void forward(const elmo_direction *d)
{
    arena count = {0, 0};
    workspace s;
    build_tree(d, &count, &s.tree);
    arena tree_memory = {elmo_scratch_take(count.used), 0};
    if (!tree_memory.base) return;
    build_tree(d, &tree_memory, &s.tree);
    count.used = 0;
    lay_out(d, &count, &s);
    arena memory = {elmo_scratch_take(count.used), 0};
    if (!memory.base) {
        elmo_scratch_give(tree_memory.base);
        return;
    }
    lay_out(d, &memory, &s);
    const float *below = 0;
    float *out = d->out;
    if (out && d->tokens) {
        place_layer(d, &s, 0, d->layers[0].input_dim, out);
        out += d->out_layer;
    }
    for (int64_t l = 0; l < d->num_layers; l++) {
        const elmo_layer *w = &d->layers[l];
        /* Without a skip connection the output is h itself; swapping keeps h of the layer below while this one runs. */
        float *above = s.layer[l & 1];
        run_layer(d, l, &s, below, above);
        if (!w->skip) {
            float *swap = s.hidden;
            s.hidden = above;
            s.layer[l & 1] = above = swap;
        }
        below = above;
        if (out) place_layer(d, &s, below, w->hidden_dim, out + l * d->out_layer);
    }
    elmo_scratch_give(memory.base);
    elmo_scratch_give(tree_memory.base);
}
