/* Everything that is compiled once per instruction set.  The file that includes this one defines the vectors and the few
   functions that differ; the table of all functions registers itself when the library is loaded. */
#include "kernels.h"
#include "vector.h"
#include "tiles.h"
#include "low_precision.h"
#include "gemm.h"
#include "packing.h"
#include "prefix_tree.h"
#include "lstm_forward.h"
#include "lstm_training.h"
#include "char_cnn.h"
#include "highway.h"
#include "softmax.h"

static void activate(const float *in, float *out, int64_t length, int64_t activation)
{
    for (int64_t i = 0; i < length; i += VL) {
        float part[VL] = {0};
        int64_t width = min64(VL, length - i);
        memcpy(part, in + i, width * sizeof(float));
        store(part, activate_vf(load(part), activation));
        memcpy(out + i, part, width * sizeof(float));
    }
}

static int fast_bf16(void) { return BF16_INSTRUCTION; }

static const elmo_variant variant = {
    VARIANT_NAME,    VARIANT_RANK,   VL,              supported,     fast_bf16,       pack,
    convert,         product,        forward,         train_forward, train_backward,  train_transpose,
    train_weights,   highway_forward, highway_backward, convolve,    convolve_backward, softmax_part,
    activate,
};

__attribute__((constructor)) static void register_variant(void) { elmo_register(&variant); }
