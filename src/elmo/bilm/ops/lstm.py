"""The LSTMs' operators: one layer, with gradients, and whole stacks without."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, cast

import torch
from torch import Tensor

from elmo.bilm import reference
from elmo.bilm.config import LstmConfig
from elmo.bilm.kernels import binding, lstm_inference, lstm_training
from elmo.bilm.kernels.lstm_inference import FirstProducts
from elmo.bilm.kernels.lstm_training import LayerCall
from elmo.bilm.ops.registration import KernelWithGradient, define, is_fake, operator
from elmo.bilm.reference import LayerWeights, Reading, StacksOutput, WordBatch

_CONFIG = "float forget_bias, float? cell_clip, float? projection_clip, bool skip_connections"


def _settings(config: LstmConfig) -> tuple[float, float | None, float | None, bool]:
    return config.forget_bias, config.cell_clip, config.projection_clip, config.skip_connections


@lru_cache(maxsize=64)
def _config(cell_dim: int, width: int, num_layers: int, *settings: Any) -> LstmConfig:
    forget_bias, cell_clip, projection_clip, skip_connections = settings
    return LstmConfig(cell_dim, width, num_layers, cell_clip, projection_clip, skip_connections, forget_bias)


def _has_kernel(weights: Sequence[Tensor], *others: Tensor | None) -> bool:
    """Not for a first layer whose input has another width than its output, which no ELMo model has."""
    tensors = (*weights, *(tensor for tensor in others if tensor is not None))
    return weights[0].shape == weights[1].shape and binding.takes(tensors)


def _layer_weights(weights: Sequence[Tensor]) -> LayerWeights:
    return LayerWeights(weights[0], weights[1], weights[2], weights[3] if len(weights) > 3 else None)


def _check_range(numbers: Tensor, last: int, error: str) -> None:
    """What the kernels check, for the reference: on other devices and while tracing, nobody does."""
    if (
        numbers.is_cpu
        and not is_fake(numbers)
        and numbers.numel()
        and not 0 <= int(numbers.min()) <= int(numbers.max()) <= last
    ):
        binding.check(binding.number(error))


def lstm_layer(
    inputs: Tensor, lengths: Tensor, state: tuple[Tensor, Tensor], weights: LayerWeights, config: LstmConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """As `reference.lstm_layer`; past a sentence's end the outputs may be zeros."""
    flat = [weight for weight in weights if weight is not None]
    return cast(Any, _lstm_layer(inputs, lengths, *state, flat, *_settings(config)))


def _layer_call(
    inputs: Tensor, lengths: Tensor, hidden: Tensor, cell: Tensor, weights: Sequence[Tensor], *settings: Any
) -> LayerCall:
    config = _config(len(weights[0]) // 4, weights[1].shape[1], 1, *settings[:4])
    precision = settings[4] if len(settings) > 4 else binding.training_precision()
    return LayerCall(inputs, lengths, (hidden, cell), _layer_weights(weights), config, precision)


def _reference_layer(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    call = _layer_call(*arguments)
    _check_range(call.lengths, call.inputs.shape[1], "bad_length")
    return reference.lstm_layer(*call[:5])


def _fake_layer(inputs: Tensor, lengths: Tensor, hidden: Tensor, cell: Tensor, *_: Any) -> tuple[Tensor, ...]:
    shape = *inputs.shape[:2], hidden.shape[1]
    return inputs.new_empty(shape), hidden.new_empty(hidden.shape), cell.new_empty(cell.shape)


def _fake_layer_forward(*arguments: Any) -> tuple[Tensor, ...]:
    call = _layer_call(*arguments)
    batch, steps, _ = call.inputs.shape
    kept = call.inputs.new_empty(lstm_training.kept_size(batch, steps, call.config))
    return *_fake_layer(*arguments), kept


_LAYER = f"Tensor inputs, Tensor lengths, Tensor hidden, Tensor cell, Tensor[] weights, {_CONFIG}"
_layer_kernel = KernelWithGradient(
    "lstm_layer",
    f"{_LAYER}, str precision",
    num_results=4,
    forward=lambda *arguments: lstm_training.forward(_layer_call(*arguments)),
    backward=lambda gradients, results, *arguments: lstm_training.backward(
        gradients, lstm_training.LayerForward(*results), _layer_call(*arguments)
    ),
    fake=_fake_layer_forward,
)
_lstm_layer = operator(
    f"lstm_layer({_LAYER}) -> (Tensor, Tensor, Tensor)",
    reference=_reference_layer,
    kernel=lambda *arguments: lstm_training.forward(_layer_call(*arguments))[:3],
    has_kernel=lambda inputs, lengths, hidden, cell, weights, *_: _has_kernel(weights, inputs, hidden, cell),
    fake=_fake_layer,
    with_gradient=lambda *arguments: _layer_kernel(*arguments, binding.training_precision()),
)


def lstm_stacks(
    batch: WordBatch,
    state: tuple[Tensor, Tensor] | None,
    weights: Sequence[Sequence[LayerWeights]],
    config: LstmConfig,
    reading: Reading,
    first_products: FirstProducts | None = None,
) -> StacksOutput:
    """As `reference.lstm_stacks`, without a state from zeros; `first_products` are for the CPU kernels alone."""
    hidden, cell = (None, None) if state is None else state
    flat = [weight for direction in weights for layer in direction for weight in layer if weight is not None]
    arguments = (*batch, hidden, cell, flat, config.num_layers, *_settings(config), *reading)
    if first_products is None:
        return StacksOutput(*_lstm_stacks(*arguments))
    return StacksOutput(*_lstm_stacks_with_products(*first_products, *arguments))


def _stacks_call(
    words: Tensor, positions: Tensor, lengths: Tensor, hidden: Tensor | None, cell: Tensor | None,
    weights: list[Tensor], *rest: Any,
) -> tuple[WordBatch, tuple[Tensor, Tensor] | None, list[list[LayerWeights]], LstmConfig, Reading]:  # fmt: skip
    """The structure of an operator's flat arguments: batch, state, weights of each direction, config, reading."""
    num_layers, settings, (reverse, *others) = rest[0], rest[1:5], rest[5:]
    config = _config(len(weights[0]) // 4, weights[1].shape[1], num_layers, *settings)
    size = 4 if config.has_projection else 3
    layers = [_layer_weights(weights[first : first + size]) for first in range(0, len(weights), size)]
    directions = [layers[first : first + num_layers] for first in range(0, len(layers), num_layers)]
    state = None if hidden is None or cell is None else (hidden, cell)
    return WordBatch(words, positions, lengths), state, directions, config, Reading(tuple(reverse), *others)


def _stacks_of_layers(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The reference with the operator `lstm_layer` for its layers."""
    batch, state, directions, config, reading = _stacks_call(*arguments)
    _check_range(batch.lengths, batch.positions.shape[1], "bad_length")
    _check_range(batch.positions, len(batch.words) - 1, "bad_position")
    if state is None:
        rows, weight = (len(directions), config.num_layers, len(batch.lengths)), directions[0][0].input
        state = weight.new_zeros(*rows, config.projection_dim), weight.new_zeros(*rows, config.cell_dim)
    stacks = [partial(reference.lstm_stack, weights=layers, config=config, layer=lstm_layer) for layers in directions]
    return reference.lstm_stacks(batch, state, stacks, reading)


def _fake_stacks(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    (words, positions, _), _, directions, config, reading = _stacks_call(*arguments)
    batch, steps = positions.shape
    num, width, rows = len(directions), config.projection_dim, batch if reading.with_state else 0
    places = torch.sym_max(steps - 2 * reading.trim, 0)
    return (
        words.new_empty(config.num_layers + reading.with_tokens, batch, places, num * width),
        words.new_empty(num, config.num_layers, rows, width),
        words.new_empty(num, config.num_layers, rows, config.cell_dim),
    )


_STACKS = (
    "Tensor words, Tensor positions, Tensor lengths, Tensor? hidden, Tensor? cell, Tensor[] weights, int num_layers,"
    f" {_CONFIG}, bool[] reverse, bool with_tokens, int trim, bool with_state, str precision"
)
_lstm_stacks = operator(
    f"lstm_stacks({_STACKS}) -> (Tensor, Tensor, Tensor)",
    reference=_stacks_of_layers,
    kernel=lambda *arguments: lstm_inference.run_stacks(*_stacks_call(*arguments)),
    has_kernel=lambda words, positions, lengths, hidden, cell, weights, *_: _has_kernel(weights, words, hidden, cell),
    fake=_fake_stacks,
)
_lstm_stacks_with_products = define(
    f"lstm_stacks_with_products(Tensor(a!) table, Tensor slots, {_STACKS}) -> (Tensor, Tensor, Tensor)",
    cpu=lambda table, slots, *arguments: lstm_inference.run_stacks(
        *_stacks_call(*arguments), FirstProducts(table, slots)
    ),
    fake=lambda table, slots, *arguments: _fake_stacks(*arguments),
)
