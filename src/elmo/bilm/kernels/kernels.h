/* What the Python side hands over, and what every variant (portable, AVX2, AVX-512) provides.

   The structures are mirrored field by field in binding.py.  All matrices are row major float32; "packed" is the
   layout of gemm.h; gates are interleaved: the pre-activations of one row are [cell panel][i, f, g, o][VL cells],
   `gate_width` floats in all, cells padded with zeros to a whole panel. */

#ifndef ELMO_KERNELS_H
#define ELMO_KERNELS_H

#include <stdint.h>

typedef struct {
    int64_t input_dim, num_cells, hidden_dim;
    const float *input_weight;      /* packed [input_dim, gate_width] */
    const float *recurrent_weight;  /* packed [hidden_dim, gate_width] */
    const float *projection_weight; /* packed [num_cells, hidden_dim]; NULL: the hidden state is the cell's output */
    const float *bias;              /* [gate_width], the forget gate's constant included */
    float cell_clip, projection_clip; /* infinity: none */
    int64_t skip;                   /* add the layer's input to its output */
} elmo_layer;

/* One direction of the biLM over a ragged batch, for inference. */
typedef struct {
    const elmo_layer *layers;
    int64_t num_layers;
    int64_t batch, steps, reverse;
    const int64_t *positions; /* [batch, steps]: the word at each place */
    const int64_t *lengths;   /* [batch] */
    const int64_t *rows;      /* the rows of the batch to do, `num_rows` of them */
    int64_t num_rows;
    int64_t num_words;
    const float *words;       /* [num_words, input_dim] */
    float *products;          /* first layer's input products, bias included, one row of gate_width per slot;
                                 NULL: made in the call */
    const int64_t *slots;     /* [num_words]: the row of `products` that holds each word's; NULL: its own number */
    const float *hidden_in, *cell_in;             /* [num_layers, batch, ...] or NULL for zeros */
    int64_t hidden_in_layer, hidden_in_row;       /* strides in floats; row stride 0: one state for every row */
    int64_t cell_in_layer, cell_in_row;
    float *hidden_out, *cell_out;                 /* [num_layers, batch, ...], contiguous; NULL: not wanted */
    float *out;       /* this direction's half of [layers + 1, batch, steps - 2 trim, 2 hidden]; NULL: state only */
    int64_t out_layer, out_row, out_step;         /* strides in floats */
    int64_t tokens;   /* whether `out` begins with the token vectors; otherwise with the first LSTM layer */
    int64_t trim;     /* tokens to leave out at both ends of each row: 1 drops the sentence markers */
} elmo_direction;

/* out = activation(left right + bias), `right` packed. */
typedef struct {
    int64_t num_rows, inner, num_columns;
    const float *left;
    int64_t left_stride;
    const float *right;
    const float *bias; /* [num_columns] or NULL */
    float *out;
    int64_t out_stride;
    int64_t activation;
} elmo_product;

enum { ELMO_IDENTITY = 0, ELMO_RELU = 1, ELMO_TANH = 2, ELMO_SIGMOID = 3 };

typedef struct {
    const char *name;
    int64_t vector_length;
    /* `order` [num_columns padded to a panel] says which row of `matrix` each packed column is (-1: zeros);
       `transposed`: of which column. */
    void (*pack)(const float *matrix, int64_t stride, int64_t transposed, const int64_t *order, int64_t inner,
                 int64_t num_panels, float *packed);
    void (*product)(const elmo_product *product, int64_t part, int64_t num_parts);
    int (*forward)(const elmo_direction *direction);
    void (*activate)(const float *in, float *out, int64_t length, int64_t activation);
} elmo_variant;

extern const elmo_variant elmo_portable;
#if defined(__x86_64__)
extern const elmo_variant elmo_avx2, elmo_avx512;
#endif

/* pool.c: run task(context, 0..num_tasks-1) on up to `num_threads` threads, the caller's included. */
typedef void (*elmo_task)(void *context, int64_t index);
void elmo_parallel(elmo_task task, void *context, int64_t num_tasks, int64_t num_threads);

/* scratch.c: big blocks of memory kept from call to call, aligned to a cache line; NULL if there is none. */
void *elmo_scratch_take(int64_t bytes);
void elmo_scratch_give(void *block);

#endif
