/* The structures and functions that Python uses, and the functions that each instruction set provides.

   header.py reads this file to call the library, so it keeps to what is understood there.  All matrices are row major
   float32; "packed" is the layout of gemm.h; gates are interleaved: the pre-activations of one row are
   [cell panel][i, f, g, o][VL cells], `gate_width` floats in all, cells padded with zeros to a whole panel. */

#ifndef ELMO_KERNELS_H
#define ELMO_KERNELS_H

#include <stdint.h>

/* Results of the functions that can fail; 0 is success. */
enum { ELMO_NO_MEMORY = -1, ELMO_BAD_LENGTH = -2, ELMO_BAD_POSITION = -3, ELMO_BAD_CHARACTER = -4 };

/* A packed matrix.  fp16 numbers are in the same order.  int8 come in groups of four: [inner / 4][NR][4], column j in
   units of scale[j]; `correction` is what the offset of the left-hand int8, which are stored unsigned, adds to a
   column.  bf16 come in groups of two: [inner / 2][NR][2]. */
enum { ELMO_FLOAT32 = 0, ELMO_FLOAT16 = 1, ELMO_INT8 = 2, ELMO_BFLOAT16 = 3 };

typedef struct {
    const void *panels; /* NULL: no matrix */
    int64_t format;
    const float *scale;        /* [columns padded to a panel] */
    const int32_t *correction; /* the same */
} elmo_matrix;

typedef struct {
    int64_t input_dim, num_cells, hidden_dim;
    elmo_matrix input_weight;      /* [input_dim, gate_width] */
    elmo_matrix recurrent_weight;  /* [hidden_dim, gate_width] */
    elmo_matrix projection_weight; /* [num_cells, hidden_dim]; none: the hidden state is the cell's output */
    const float *bias;              /* [gate_width], the forget gate's constant included */
    float cell_clip, projection_clip; /* infinity: none */
    int64_t skip;                   /* add the layer's input to its output */
} elmo_layer;

/* One direction of the biLM over a ragged batch, for inference. */
typedef struct {
    const elmo_layer *layers;
    int64_t num_layers;
    int64_t batch, steps, reverse;
    const int64_t *positions; /* [batch, steps]: the word at each position */
    const int64_t *lengths;   /* [batch] */
    const int64_t *rows;      /* the rows of the batch to compute, `num_rows` of them */
    int64_t num_rows;
    int64_t num_words;
    const float *words;       /* [num_words, input_dim] */
    float *products;          /* first layer's input products, bias included, one row of gate_width per slot;
                                 NULL: computed in the call and not stored */
    const int64_t *slots;     /* [num_words]: the row of `products` that holds each word's, or -1 minus the row that
                                 the call has to fill; NULL: the word's index */
    const float *hidden_in, *cell_in;             /* [num_layers, batch, ...] or NULL for zeros */
    int64_t hidden_in_layer, hidden_in_row;       /* strides in floats; row stride 0: one state for every row */
    int64_t cell_in_layer, cell_in_row;
    float *hidden_out, *cell_out;                 /* [num_layers, batch, ...], contiguous; NULL: not needed */
    float *out;       /* this direction's half of [layers + 1, batch, steps - 2 trim, 2 hidden]; NULL: state only */
    int64_t out_layer, out_row, out_step;         /* strides in floats */
    int64_t tokens;   /* whether `out` begins with the token vectors; otherwise with the first LSTM layer */
    int64_t trim;     /* tokens to leave out at both ends of each row: 1 drops the sentence markers */
} elmo_direction;

/* Rows of a product that are computed together. */
enum { ELMO_PRODUCT_ROWS = 240 };

/* out = activation(left right + bias), or out += left right, `right` packed.  Row i of the product is computed from row
   left_rows[i] and written to row out_rows[i]; NULL: row i. */
typedef struct {
    int64_t num_rows, inner, num_columns;
    const float *left;
    int64_t left_stride;
    elmo_matrix right;
    const float *bias; /* [num_columns] or NULL */
    float *out;
    int64_t out_stride;
    int64_t activation;
    int64_t accumulate;
    const int64_t *left_rows, *out_rows;
} elmo_product;

/* A highway layer after its product: y = g t + (1 - g) x with g = sigmoid(sums of the carry half), t = relu(sums of
   the transform half).  Forward leaves g and t in `sums`, where backward finds them. */
typedef struct {
    int64_t num_rows, dim;
    const float *x;       /* [num_rows, dim] */
    float *sums;          /* [num_rows, 2 dim]: carry, then transform */
    float *y;             /* [num_rows, dim] */
    const float *d_y;
    float *d_sums, *d_x;  /* gradient of the sums; the part of x's that does not pass through them */
} elmo_highway;

/* How a matrix is packed.  Column j of the result is row columns[j] of `matrix` (-1: zeros); if `transposed`, it is that
   column, and row k of the result is row inner_order[k], again -1 for zeros.  Transposed columns from `split` on come
   from `second`, counted from 0. */
typedef struct {
    const float *matrix, *second;
    int64_t stride, second_stride, split;
    int64_t transposed;
    const int64_t *columns, *inner_order; /* inner_order NULL: row k */
    int64_t inner, num_panels;
    float *packed;
} elmo_packing;

/* One layer over full windows or ragged rows, for training.  Row n of what is stored is step * batch + row of the batch.
   "In panels" means [columns / NR][steps * batch][NR], the packed layout of a matrix with steps * batch rows. */
typedef struct {
    elmo_layer layer;
    elmo_matrix cell_weight; /* projection_weight transposed: [hidden_dim, num_cells]; none without projection */
    elmo_matrix back_weight; /* [gate_width, hidden_dim + input_dim]: recurrent and input weights side by side */
    int64_t batch, steps;
    const int64_t *lengths;                          /* [batch] */
    const float *x;                                  /* input rows at x + row * x_row + step * x_step */
    int64_t x_row, x_step;
    const float *hidden_in, *cell_in;                /* [batch, ...] */
    float *out;                                      /* [batch, steps, hidden_dim], zeros past a row's end */
    float *hidden_out, *cell_out;                    /* [batch, ...] */
    float *gates;                                    /* in panels: i, f, g, o after their activation */
    float *cells;                                    /* [steps * batch, padded cells], before the clip */
    float *raw;                                      /* [steps * batch, hidden_dim], before the clip */
    const float *d_out, *d_hidden_out, *d_cell_out;  /* gradients of the results, contiguous */
    float *d_x;                                      /* [batch, steps, input_dim] */
    float *d_hidden_in, *d_cell_in;                  /* [batch, ...] */
    float *d_input_weight, *d_recurrent_weight, *d_bias, *d_projection_weight; /* as torch stores the weights */
    float *d_gates;                                  /* in panels */
    float *outputs;                                  /* in panels: m, computed again */
    float *d_projected;                              /* [steps * batch, hidden_dim]: of h before the clip */
    float *transposed;                               /* [input_dim + 2 hidden_dim + 1, spaced steps * batch] */
} elmo_training;

/* The character CNN's convolutions, maximum and activation over distinct words.

   A window's sum is a sum over its places of products that depend only on the character and the place, so the products
   of the characters that occur are computed once, and a window needs only additions.  The characters that occur are
   renumbered from 0.  Filters are processed NR at a time (a block); weights are [block][width * dim][NR], zero padded. */
typedef struct {
    int64_t width, num_filters, first_filter;
    const float *weight, *bias;   /* bias padded to whole blocks */
    float *d_weight, *d_bias;     /* the same layout; NULL without gradients */
} elmo_bank;

typedef struct {
    const elmo_bank *banks;
    int64_t num_banks, num_blocks;
    int64_t dim, max_characters, activation, num_filters;
    int64_t num_words;
    const int32_t *spelling;      /* [num_words, max_characters], the new numbers */
    const int32_t *lengths;       /* characters of each word, without padding at the end */
    int64_t num_characters;       /* different ones that occur */
    int64_t padding;              /* the new number of padding */
    const float *embedding;       /* [num_characters, dim] */
    float *out;                   /* [num_words, num_filters] */
    uint8_t *winner;              /* [num_words, num_filters]: the place of the maximum; NULL: not needed */
    const float *d_out;
    float *d_embedding;           /* [num_blocks, num_characters, dim]: each block's part */
} elmo_char_cnn;

/* The token encoder over distinct words, for inference: convolutions, highway layers, linear layer. */
typedef struct {
    elmo_matrix carry, transform; /* [num_filters, num_filters] */
    const float *carry_bias, *transform_bias;
} elmo_gates;

typedef struct {
    elmo_char_cnn cnn;        /* without words; `embedding` has a row for every id, `padding` is an id */
    int64_t num_ids;
    const elmo_gates *highways;
    int64_t num_highways;
    elmo_matrix projection;   /* [num_filters, out_dim] */
    const float *projection_bias;
    int64_t out_dim;
} elmo_encoder;

/* The denominator of each token's softmax over `num_words` words and its target, with all gradients.  A logit is the
   product of state and word plus the word's bias; the target's is given.  d_words and d_bias have a part per thread,
   which the caller adds up. */
typedef struct {
    int64_t num_tokens, num_words, dim;
    const float *states;    /* [num_tokens, dim] */
    const float *words;     /* [num_words, dim] */
    const float *transposed; /* the same transposed: [dim, transposed_stride] */
    int64_t transposed_stride;
    const float *bias;      /* [num_words] */
    const int64_t *absent;  /* [num_tokens]: the word excluded for a token, -1 for none */
    const float *target;    /* [num_tokens]: the target's logit */
    float *log_total;       /* [num_tokens]: log of the sum */
    float *d_states;        /* [num_tokens, dim], without the target's part, as are the next two */
    float *d_words;         /* [parts, num_words, dim] */
    float *d_bias;          /* [parts, num_words] */
} elmo_softmax;

enum { ELMO_IDENTITY = 0, ELMO_RELU = 1, ELMO_TANH = 2, ELMO_SIGMOID = 3 };

typedef struct {
    const char *name;
    int64_t rank;          /* the supported variant with the highest rank is used */
    int64_t vector_length; /* floats */
    int (*supported)(void);
    int (*fast_bf16)(void); /* whether bf16 products are faster than float32 products */
    void (*pack)(const elmo_packing *packing, int64_t first_panel, int64_t last_panel);
    /* Converts the float32 output of `pack`; fills scale and correction where the format has them. */
    void (*convert)(const float *packed, int64_t inner, int64_t num_panels, int64_t format, void *panels, float *scale,
                    int32_t *correction);
    void (*product)(const elmo_product *product, int64_t part, int64_t num_parts);
    void (*forward)(const elmo_direction *direction);
    void (*train_forward)(const elmo_training *training, int64_t part, int64_t num_parts);
    void (*train_backward)(const elmo_training *training, int64_t part, int64_t num_parts);
    void (*train_transpose)(const elmo_training *training, int64_t part, int64_t num_parts);
    void (*train_weights)(const elmo_training *training, int64_t part, int64_t num_parts);
    void (*highway)(const elmo_highway *highway, int64_t part, int64_t num_parts);
    void (*highway_backward)(const elmo_highway *highway, int64_t part, int64_t num_parts);
    void (*convolve)(const elmo_char_cnn *cnn, int64_t block);
    void (*convolve_backward)(const elmo_char_cnn *cnn, int64_t block);
    void (*softmax)(const elmo_softmax *softmax, int64_t part, int64_t num_parts);
    void (*activate)(const float *in, float *out, int64_t length, int64_t activation);
} elmo_variant;

/* dispatch.c: the instruction sets; each registers itself when the library is loaded. */
void elmo_register(const elmo_variant *variant);
const char *elmo_variant_name(int64_t index); /* NULL after the last one */
int elmo_choose(const char *name);            /* "" for the fastest; 0 if this processor supports it */
const char *elmo_name(void);
int elmo_fast_bf16(void);
int64_t elmo_vector_length(void);
int64_t elmo_layout(void); /* changes with the structures: a library built from other sources must not be called */

/* dispatch.c: a variant's functions, divided among threads.  Those that can fail return 0 or a number of the enum above. */
void elmo_pack(elmo_packing *packing, int64_t num_threads);
void elmo_convert(const float *packed, int64_t inner, int64_t num_panels, elmo_matrix *to, int64_t num_threads);
void elmo_activate(const float *in, float *out, int64_t length, int64_t activation);
int elmo_multiply(const elmo_product *products, int64_t count, int64_t num_threads);
void elmo_transpose(const float *matrix, int64_t num_rows, int64_t num_columns, int64_t stride, float *out,
                    int64_t out_stride, int64_t num_threads); /* out[c][r] = matrix[r][c] */
void elmo_highway_layer(const elmo_highway *highway, int64_t backward, int64_t num_threads);
int elmo_forward(elmo_direction *directions, int64_t count, int64_t num_threads);
int elmo_train_forward(const elmo_training *training, int64_t num_threads);
int elmo_train_backward(const elmo_training *training, int64_t num_threads);
int64_t elmo_spell(const int64_t *ids, int64_t num_words, int64_t num_columns, int64_t max_characters, int64_t num_ids,
                   int64_t padding, int32_t *spelling, int32_t *lengths, int64_t *kept);
int elmo_convolve(const elmo_char_cnn *cnn, int64_t backward, int64_t num_threads);
int elmo_softmax_loss(const elmo_softmax *softmax, int64_t parts, int64_t num_threads);

/* encoder.c */
int elmo_encode(const elmo_encoder *e, const int64_t *ids, int64_t num_words, int64_t num_columns, float *out,
                int64_t num_threads);

/* pool.c: run task(context, 0..num_tasks-1) on up to `num_threads` threads, the caller's included.  ELMO_NO_MEMORY if a
   task took a scratch block and got none: it then does as little as it can. */
typedef void (*elmo_task)(void *context, int64_t index);
int elmo_parallel(elmo_task task, void *context, int64_t num_tasks, int64_t num_threads);

/* pool.c: memory, aligned to a cache line; NULL if there is none.  Scratch blocks are reused from call to call. */
void *elmo_map(int64_t bytes);
void elmo_unmap(void *base, int64_t bytes);
void *elmo_scratch_take(int64_t bytes);
void elmo_scratch_give(void *block);

#endif
