"""The softmax over words with its gradients, in C: what `elmo.pretrain.softmax` does chunk by chunk with torch."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from elmo.bilm.kernels import binding
from elmo.bilm.kernels.linear import turned

MOST_WORDS = 65_536
"""Beyond these a token's logits do not stay in any cache, and torch's products serve as well."""


class Shares(NamedTuple):
    """Sums over the words, and the gradients of ln of each token's sum."""

    log_total: Tensor
    """(tokens,): ln of the sum of exp(logit) over the words and the target."""
    d_states: Tensor
    d_words: Tensor
    d_bias: Tensor


def share_out(states: Tensor, words: Tensor, bias: Tensor, *, absent: Tensor, target: Tensor) -> Shares:
    """Every token's target competes with all words but the one in `absent` (-1: none).

    The gradients are the words' parts; what passes through the target's own logit is the caller's to add.
    """
    states, words, bias = states.contiguous(), words.contiguous(), bias.contiguous()
    absent, target = absent.contiguous(), target.contiguous()
    (num_tokens, dim), num_words, threads = states.shape, len(words), binding.num_threads()
    log_total, d_states = states.new_empty(num_tokens), states.new_empty(num_tokens, dim)
    d_words, d_bias = states.new_empty(threads, num_words, dim), states.new_empty(threads, num_words)
    sideways = turned(words)
    job = binding.Softmax(
        num_tokens=num_tokens,
        num_words=num_words,
        dim=dim,
        states=states.data_ptr(),
        words=words.data_ptr(),
        turned=sideways.data_ptr(),
        turned_stride=sideways.stride(0),
        bias=bias.data_ptr(),
        absent=absent.data_ptr(),
        target=target.data_ptr(),
        log_total=log_total.data_ptr(),
        d_states=d_states.data_ptr(),
        d_words=d_words.data_ptr(),
        d_bias=d_bias.data_ptr(),
    )
    if binding.library().elmo_softmax_loss(job, threads, threads) != 0:
        raise MemoryError("No memory for the softmax's working buffers; use fewer negatives.")
    return Shares(log_total, d_states, d_words.sum(dim=0), d_bias.sum(dim=0))


def fits(states: Tensor, num_words: int) -> bool:
    """Whether the kernel can take these: float32 on the CPU, and not too many words."""
    return binding.available() and binding.takes(states) and 0 < num_words <= MOST_WORDS and len(states) > 0
