/* Everything that is compiled once per instruction set; VARIANT_NAME is the table it ends in. */
#include "kernels.h"
#include "vector.h"
#include "tiles.h"
#include "words.h"
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

const elmo_variant VARIANT_NAME = {VARIANT_LABEL, VL, pack, convert, product, forward, train_forward, train_backward,
                                   train_turn, train_weights, highway_forward, highway_backward, convolve,
                                   convolve_backward, softmax_part, activate};
