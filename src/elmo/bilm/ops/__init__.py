"""The functions of `reference` as torch operators: torch's dispatcher picks the fast CPU kernel where there is one.

`registration.operator` gives each of them the same implementations, by dispatch key:

    CPU                        the kernel for float32, if it is compiled and switched on; otherwise the reference
    CompositeExplicitAutograd  the reference, for every other device
    Autograd                   with gradients: the kernel's own forward and backward, or the reference op by op
    fake                       shapes and dtypes alone: torch.compile, torch.export and the meta device use these

Under autocast the reference runs op by op, by torch's own rules; with bfloat16, on a processor that multiplies it, the
kernels run.
"""

from elmo.bilm.ops.lstm import lstm_layer, lstm_stacks
from elmo.bilm.ops.softmax import log_partition
from elmo.bilm.ops.token_encoder import convolve, encode_words, highway, linear, pad_words

__all__ = ["convolve", "encode_words", "highway", "linear", "log_partition", "lstm_layer", "lstm_stacks", "pad_words"]
