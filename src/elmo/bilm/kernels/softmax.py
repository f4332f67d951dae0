"""The softmax over words with its gradients, in C: what `reference.log_partition` computes chunk by chunk."""

from __future__ import annotations

from torch import Tensor

from elmo.bilm.kernels import binding
from elmo.bilm.kernels.dense import transposed
from elmo.bilm.reference import LogPartition

MOST_WORDS = 65_536
"""Beyond these a token's logits do not stay in any cache, and torch's products serve as well."""


def log_partition(states: Tensor, words: Tensor, bias: Tensor, *, absent: Tensor, target: Tensor) -> LogPartition:
    """As `reference.log_partition`, in float32."""
    states, words, bias = states.contiguous(), words.contiguous(), bias.contiguous()
    absent, target = absent.contiguous(), target.contiguous()
    (num_tokens, dim), num_words, threads = states.shape, len(words), binding.num_threads()
    log_total, d_states = states.new_empty(num_tokens), states.new_empty(num_tokens, dim)
    d_words, d_bias = states.new_empty(threads, num_words, dim), states.new_empty(threads, num_words)
    sideways = transposed(words)
    job = binding.struct.elmo_softmax(
        num_tokens=num_tokens,
        num_words=num_words,
        dim=dim,
        states=states.data_ptr(),
        words=words.data_ptr(),
        transposed=sideways.data_ptr(),
        transposed_stride=sideways.stride(0),
        bias=bias.data_ptr(),
        absent=absent.data_ptr(),
        target=target.data_ptr(),
        log_total=log_total.data_ptr(),
        d_states=d_states.data_ptr(),
        d_words=d_words.data_ptr(),
        d_bias=d_bias.data_ptr(),
    )
    binding.check(binding.library().elmo_softmax_loss(job, threads, threads))
    return LogPartition(log_total, d_states, d_words.sum(dim=0), d_bias.sum(dim=0))
