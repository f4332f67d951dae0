"""The equations of the biLM as pure functions of tensors (paper, sections 3.1 and 3.2): the specification.

    characters -> convolve -> highway -> linear                            one vector for each distinct word
    tokens     -> lstm_layer -> lstm_layer (+ skip connection) -> ...      for each direction: lstm_stack
    both directions                                                       lstm_stacks
    log_partition                                                         the softmax over words, for training

They run on every device, in every dtype and with gradients. `ops` gives the same functions with a fast CPU kernel
where there is one; tests hold the two equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from elmo.bilm.config import Activation, LstmConfig
from elmo.bilm.kernels.binding import Precision


class LayerWeights(NamedTuple):
    """One LSTM layer of one direction; gates in the order i, f, g, o."""

    input: Tensor
    """(4 * cells, width)"""
    recurrent: Tensor
    """(4 * cells, width)"""
    bias: Tensor
    """(4 * cells,)"""
    projection: Tensor | None
    """(width, cells); None when the cells' output is the hidden state itself"""


class StackState(NamedTuple):
    """What one direction remembers after a token: every layer's h and c, for every sentence of a batch."""

    hidden: Tensor
    """(layers, batch, projection)"""
    cell: Tensor
    """(layers, batch, cells)"""


class StackOutput(NamedTuple):
    """One direction's result."""

    layers: Tensor
    """(layers, batch, tokens, projection), zero past each sentence's end."""
    state: StackState
    """The state after the last real token of each sentence."""


class StacksOutput(NamedTuple):
    """What the stacks of one or both directions give."""

    layers: Tensor
    """([tokens and] layers, batch, tokens, directions * projection), zero past each sentence's end"""
    hidden: Tensor
    """(directions, layers, batch, projection); no rows when no state was asked for"""
    cell: Tensor
    """(directions, layers, batch, cells); likewise"""


class WordBatch(NamedTuple):
    """Sentences of words that have vectors: token t of sentence b is words[positions[b, t]]."""

    words: Tensor
    """(words, dim)"""
    positions: Tensor
    """(batch, tokens)"""
    lengths: Tensor
    """(batch,)"""


class Reading(NamedTuple):
    """How stacks read a batch, and what they give of it."""

    reverse: tuple[bool, ...]
    """For each direction, whether it reads the sentences from the end."""
    with_tokens: bool = False
    """Put the token vectors, once for each direction, before the LSTM layers."""
    trim: int = 0
    """Tokens to leave out at both ends of each sentence: 1 drops the sentence markers."""
    with_state: bool = True
    precision: Precision = "float32"
    """Of the kernels' copy of the weights; anything but float32 is an approximation."""


class LogPartition(NamedTuple):
    """ln of each token's sum of exp(logit), and the gradients of their sum."""

    log_total: Tensor
    """(tokens,): over the words and the target"""
    d_states: Tensor
    d_words: Tensor
    d_bias: Tensor


def convolve(
    characters: Int[Tensor, "words characters"],
    embedding: Float[Tensor, "ids dim"],
    filters: Sequence[tuple[Tensor, Tensor]],
    activation: Activation,
) -> Float[Tensor, "words filters"]:
    """What the filters, each a weight (filters, dim, width) and a bias, find in each word at most."""
    embedded = F.embedding(characters, embedding, padding_idx=0).transpose(1, 2)
    activate = torch.relu if activation == "relu" else torch.tanh
    return torch.cat([activate(F.conv1d(embedded, weight, bias).amax(dim=-1)) for weight, bias in filters], dim=-1)


def highway(
    x: Float[Tensor, "words dim"],
    carry_weight: Tensor,
    carry_bias: Tensor,
    transform_weight: Tensor,
    transform_bias: Tensor,
) -> Float[Tensor, "words dim"]:
    """y = g * relu(transform(x)) + (1 - g) * x, with g = sigmoid(carry(x)).

    bilm-tf's names: despite its own, "carry" lets the transformed value through.
    """
    gate = torch.sigmoid(F.linear(x, carry_weight, carry_bias))
    return gate * torch.relu(F.linear(x, transform_weight, transform_bias)) + (1 - gate) * x


def lstm_step(
    gates: Float[Tensor, "batch gates"],
    cell: Float[Tensor, "batch cells"],
    projection: Tensor | None,
    config: LstmConfig,
) -> tuple[Float[Tensor, "batch dim"], Float[Tensor, "batch cells"]]:
    """One token: the sums of the gates and the cells before it -> h and c after it.

    c = clip(sigmoid(f + forget_bias) * c' + sigmoid(i) * tanh(g))
    h = clip(W_p (sigmoid(o) * tanh(c)))
    """
    i, f, g, o = gates.chunk(4, dim=-1)
    cell = torch.sigmoid(f + config.forget_bias) * cell + torch.sigmoid(i) * torch.tanh(g)
    if config.cell_clip is not None:
        cell = cell.clamp(-config.cell_clip, config.cell_clip)
    hidden = torch.sigmoid(o) * torch.tanh(cell)
    if projection is not None:
        hidden = hidden @ projection.T
        if config.projection_clip is not None:
            hidden = hidden.clamp(-config.projection_clip, config.projection_clip)
    return hidden, cell


def lstm_layer(
    inputs: Float[Tensor, "batch tokens dim"],
    lengths: Int[Tensor, " batch"],
    state: tuple[Tensor, Tensor],
    weights: LayerWeights,
    config: LstmConfig,
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer from left to right: [i, f, g, o] = W_x x + W_h h' + b at each token, then `lstm_step`.

    Returns h at every token, (batch, tokens, dim), and h and c after each sentence's last token.
    """
    hidden, cell = state
    if inputs.shape[1] == 0:  # no tokens: the state stays as it is
        return hidden.new_zeros(len(inputs), 0, hidden.shape[1]), hidden.clone(), cell.clone()
    input_gates = inputs @ weights.input.T + weights.bias
    outputs = []
    for step in range(inputs.shape[1]):
        gates = input_gates[:, step] + hidden @ weights.recurrent.T
        new_hidden, new_cell = lstm_step(gates, cell, weights.projection, config)
        real = (step < lengths)[:, None]
        hidden = torch.where(real, new_hidden, hidden)
        cell = torch.where(real, new_cell, cell)
        outputs.append(new_hidden)
    return torch.stack(outputs, dim=1), hidden, cell


def lstm_stack(
    tokens: Float[Tensor, "batch tokens dim"],
    lengths: Int[Tensor, " batch"],
    state: StackState,
    weights: Sequence[LayerWeights],
    config: LstmConfig,
    *,
    dropout: float = 0.0,
    layer: Callable[..., tuple[Tensor, Tensor, Tensor]] = lstm_layer,
) -> StackOutput:
    """The layers of one direction; from the second on, a layer's output is h plus its input (skip connection).

    h itself is what recurs. `layer` is `lstm_layer` or an operator that computes the same.
    """
    outputs, hiddens, cells = [], [], []
    layer_input = tokens
    for index, layer_weights in enumerate(weights):
        # The skip connection adds the input after dropout, as bilm-tf's dropout wrapper did.
        layer_input = F.dropout(layer_input, dropout, training=dropout > 0)
        start = state.hidden[index], state.cell[index]
        recurrent, hidden, cell = layer(layer_input, lengths, start, layer_weights, config)
        layer_input = recurrent + layer_input if config.skip_connections and index > 0 else recurrent
        outputs.append(layer_input)
        hiddens.append(hidden)
        cells.append(cell)
    real = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
    layers = torch.stack(outputs) * real[None, :, :, None]
    return StackOutput(layers, StackState(torch.stack(hiddens), torch.stack(cells)))


def lstm_stacks(
    batch: WordBatch,
    state: tuple[Tensor, Tensor],
    stacks: Sequence[Callable[[Tensor, Tensor, StackState], StackOutput]],
    reading: Reading,
) -> StacksOutput:
    """Each direction over the same sentences, side by side: layer k is [forward; backward] of the k-th LSTM layer.

    `state` is (directions, layers, batch, ...). A stack is `lstm_stack` with its weights.
    """
    words, positions, lengths = batch
    tokens = words[positions]
    outputs = []
    for index, (stack, reverse) in enumerate(zip(stacks, reading.reverse, strict=True)):
        start = StackState(state[0][index], state[1][index])
        output = stack(reverse_within_lengths(tokens, lengths) if reverse else tokens, lengths, start)
        if reverse:
            layers = torch.stack([reverse_within_lengths(layer, lengths) for layer in output.layers])
            output = StackOutput(layers, output.state)
        outputs.append(output)
    layers = torch.cat([output.layers for output in outputs], dim=-1)
    if reading.with_tokens:
        mask = torch.arange(positions.shape[1], device=positions.device) < lengths[:, None]
        first = (torch.cat([tokens] * len(outputs), dim=-1) * mask[..., None])[None]
        layers = torch.cat([first, layers])
    if reading.trim:
        places = max(positions.shape[1] - 2 * reading.trim, 0)
        layers = layers[:, :, reading.trim : reading.trim + places]
        mask = torch.arange(places, device=positions.device) < (lengths - 2 * reading.trim)[:, None]
        layers = layers * mask[None, :, :, None]
    rows = slice(None) if reading.with_state else slice(0, 0)
    hidden = torch.stack([output.state.hidden for output in outputs])[:, :, rows]
    cell = torch.stack([output.state.cell for output in outputs])[:, :, rows]
    return StacksOutput(layers, hidden, cell)


def reverse_within_lengths(
    tokens: Shaped[Tensor, "batch tokens *rest"], lengths: Int[Tensor, " batch"]
) -> Shaped[Tensor, "batch tokens *rest"]:
    """Reverse each sentence and leave the padding after it in place.

    >>> reverse_within_lengths(torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([3, 2]))
    tensor([[3, 2, 1],
            [5, 4, 0]])
    """
    steps = torch.arange(tokens.shape[1], device=tokens.device)
    source = torch.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    return tokens[torch.arange(len(tokens), device=tokens.device)[:, None], source]


_TOKENS_AT_ONCE = 256
"""Rows of logits computed together: with 8,192 words 8 MB, which stays in a CPU's cache between the steps."""


def log_partition(
    states: Tensor, words: Tensor, bias: Tensor, *, absent: Tensor, target: Tensor, precision: torch.dtype
) -> LogPartition:
    """Every token's target, whose logit is given, competes with all words but the one in `absent` (-1: none).

    A word's logit is its vector times the state plus its bias, computed in `precision`. The gradients are the words'
    part; the caller adds what passes through the target's own logit. The logits never exist all at once.
    """
    precision = states.dtype if states.dtype == torch.float64 else precision
    # The last row holds the targets' place in the logits; being zero, it adds nothing to the products.
    others = torch.cat([words, words.new_zeros(1, words.shape[1])]).to(precision)
    other_bias = torch.cat([bias, bias.new_zeros(1)]).to(precision)
    rounded = states.to(precision)
    share, d_states = torch.empty_like(target), torch.empty_like(rounded)
    d_others, d_bias = torch.zeros_like(others, dtype=words.dtype), torch.zeros_like(other_bias, dtype=bias.dtype)
    buffer = torch.empty(min(_TOKENS_AT_ONCE, len(states)), len(others), dtype=precision, device=states.device)
    for first in range(0, len(states), _TOKENS_AT_ONCE):
        chunk = slice(first, first + _TOKENS_AT_ONCE)
        logits = torch.addmm(other_bias, rounded[chunk], others.T, out=buffer[: len(rounded[chunk])])
        tokens = (absent[chunk] >= 0).nonzero()[:, 0]
        logits[tokens, absent[chunk][tokens]] = -torch.inf
        logits[:, -1] = target[chunk]
        probabilities = torch.softmax(logits, dim=-1, out=logits)
        share[chunk] = probabilities[:, -1]
        torch.mm(probabilities, others, out=d_states[chunk])
        d_others += probabilities.T @ rounded[chunk]
        d_bias += probabilities.sum(dim=0, dtype=bias.dtype)
    # A probability too small for its type counts as the smallest one, so that one such token is not an infinite loss.
    log_total = target - share.clamp_min(torch.finfo(torch.float32).tiny).log()
    return LogPartition(log_total, d_states.to(states.dtype), d_others[:-1], d_bias[:-1])
