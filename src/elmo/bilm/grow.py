"""A biLM -> a larger one that computes the same, so that training continues where the smaller one stopped.

    cells     random input weights; zero weights in the projection
    filters   random weights; zero weights in the layer that reads them
    layers    on top: random weights; zero weights in the projection, so that the skip connection is the output

The gradients of the zero weights are not zero, so the first update changes them. Left out: the width of the vectors
(`projection_dim`), on which everything that uses the model depends, and highway layers, which change their input.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from elmo.bilm.config import BiLMConfig
from elmo.bilm.initialise import initialise
from elmo.bilm.lstm import LstmStack
from elmo.bilm.model import BiLM
from elmo.bilm.token_encoder import CharCnn, TokenEncoder
from elmo.errors import ConfigError
from elmo.settings import flatten

_CAN_GROW = ("lstm.cell_dim", "lstm.num_layers", "char_cnn.filters")
Filters = tuple[tuple[int, int], ...]


@torch.no_grad()
def grow(bilm: BiLM, config: BiLMConfig, generator: torch.Generator | None = None) -> BiLM:
    """A biLM of the shape `config` with the outputs of `bilm`; layers that `bilm` does not have repeat its last one."""
    _require_room(bilm.config, config)
    larger = BiLM(config)
    initialise(larger, generator)
    _grow_token_encoder(bilm.token_encoder, larger.token_encoder)
    for old, new in ((bilm.forward_lstm, larger.forward_lstm), (bilm.backward_lstm, larger.backward_lstm)):
        _grow_stack(old, new)
    return larger


def _require_room(old: BiLMConfig, new: BiLMConfig) -> None:
    """Refuse what is smaller, and what cannot grow without a change of the outputs."""
    for name in ("cell_dim", "num_layers"):
        have, wanted = getattr(old.lstm, name), getattr(new.lstm, name)
        if wanted < have:
            raise ConfigError(f"lstm.{name} is {wanted}, but the model has {have}; expected as many or more.")
    sizes_differ = (new.lstm.cell_dim, new.lstm.num_layers) != (old.lstm.cell_dim, old.lstm.num_layers)
    if sizes_differ and not (old.lstm.has_projection and new.lstm.has_projection):
        raise ConfigError(
            "An LSTM without projection (cell_dim equal to projection_dim) cannot grow, and no model can grow "
            "into one: new cells need a projection, whose new weights start at zero."
        )
    if new.lstm.num_layers != old.lstm.num_layers and not old.lstm.skip_connections:
        raise ConfigError("This model's LSTM has no skip connections: a new layer would change its outputs.")
    filters = None if old.char_cnn is None else old.char_cnn.filters
    if filters is not None and new.char_cnn is not None and not _continues(new.char_cnn.filters, filters):
        raise ConfigError(
            f"char_cnn.filters is {_pairs(new.char_cnn.filters)}, but the model has {_pairs(filters)}; expected the "
            "same widths in the same order, each with as many filters or more, then any others."
        )
    for name, have in _fixed(old).items():
        if (wanted := _fixed(new).get(name)) != have:
            raise ConfigError(f"{name} is {wanted}, but the model has {have}; only {', '.join(_CAN_GROW)} can grow.")


def _continues(wanted: Filters, have: Filters) -> bool:
    paired = zip(wanted, have, strict=False)
    return len(wanted) >= len(have) and all(new[0] == old[0] and new[1] >= old[1] for new, old in paired)


def _fixed(config: BiLMConfig) -> dict[str, Any]:
    """Every number of a config that has to stay, by its name."""
    return {name: value for name, value in flatten(config).items() if name not in _CAN_GROW}


def _pairs(filters: Filters) -> list[list[int]]:
    return [list(pair) for pair in filters]


def _grow_token_encoder(old: TokenEncoder, new: TokenEncoder) -> None:
    if old.word_embedding is not None and new.word_embedding is not None:
        new.word_embedding.weight.copy_(old.word_embedding.weight)
    if old.char_cnn is None or new.char_cnn is None or old.projection is None or new.projection is None:
        return
    places = _grow_char_cnn(old.char_cnn, new.char_cnn)
    # The word's own vector, in models that have both, stands before what the filters found.
    num_others = old.projection.in_features - len(places)
    columns = torch.cat([torch.arange(num_others), num_others + places])
    _put(old.projection.weight, new.projection.weight, columns=columns)
    new.projection.bias.copy_(old.projection.bias)


def _grow_char_cnn(old: CharCnn, new: CharCnn) -> Tensor:
    """Copy the character CNN; where the old filters' findings stand among the new ones is returned."""
    new.embedding.weight.copy_(old.embedding.weight)
    places, start = [], 0
    for before, after in zip(old.convolutions, new.convolutions, strict=False):
        assert isinstance(before, nn.Conv1d) and isinstance(after, nn.Conv1d)
        assert before.bias is not None and after.bias is not None
        number = before.out_channels
        after.weight[:number] = before.weight
        after.bias[:number] = before.bias
        places.append(torch.arange(start, start + number))
        start += after.out_channels
    rows = torch.cat(places)
    for before, after in zip(old.highways, new.highways, strict=True):
        for name in ("carry", "transform"):
            _put(getattr(before, name).weight, getattr(after, name).weight, rows=rows, columns=rows)
            getattr(after, name).bias[rows] = getattr(before, name).bias
    return rows


def _grow_stack(old: LstmStack, new: LstmStack) -> None:
    cells, more_cells = old.config.cell_dim, new.config.cell_dim
    # Gate by gate the old cells come first: i, f, g, o stand one below the other.
    rows = (torch.arange(4)[:, None] * more_cells + torch.arange(cells)).flatten()
    for before, after in zip(old.typed_layers, new.typed_layers, strict=False):
        after.input_weight[rows] = before.input_weight
        after.recurrent_weight[rows] = before.recurrent_weight
        after.bias[rows] = before.bias
        if before.projection_weight is not None and after.projection_weight is not None:
            _put(before.projection_weight, after.projection_weight, columns=torch.arange(cells))
    for silent in new.typed_layers[len(old.typed_layers) :]:
        assert silent.projection_weight is not None, "a layer without projection cannot be silent"
        silent.projection_weight.zero_()


def _put(old: Tensor, new: Tensor, *, columns: Tensor, rows: Tensor | None = None) -> None:
    """Copy `old` to its rows and columns of `new`. In those rows all other columns are silenced."""
    rows = torch.arange(len(old)) if rows is None else rows
    new[rows] = 0
    new[rows[:, None], columns] = old
