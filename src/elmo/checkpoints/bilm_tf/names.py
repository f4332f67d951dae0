"""bilm-tf's names and layouts of weights.

Its hdf5 files and its TensorFlow checkpoints hold the same arrays; `hdf5.py` and `tensorflow.py` pass them here under
the hdf5 names. Left out: options (`options.py`) and the softmax, which hdf5 files do not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.bilm.config import BiLMConfig
from elmo.checkpoints.checkpoint import empty_bilm
from elmo.checkpoints.renames import AS_IS, TRANSPOSED, ZERO_ROW_IN_FRONT, Rename, StoredArray, Transform, read_renamed

WORD_TABLE = "embedding"
# bilm-tf orders the gates i, j, f, o (j is our g), we i, f, g, o. The swap is its own inverse.
_GATE_ORDER = (0, 2, 1, 3)
# Arrays under these names are part of the biLM, so one that the options do not describe means the wrong options.
_BILM_NAME = re.compile(r"(char_embed|CNN|CNN_high_\d+|CNN_proj|RNN_\d+)(/|$)")
_PROJECTION = ("CNN_proj/W_proj", "CNN_proj/b_proj")


def _read_kernel(stored: Tensor) -> tuple[Tensor, ...]:
    """(2P, 4C) -> input and recurrent weights, (4C, P) each."""
    return tuple(_swap_gates_in_place(half.T.contiguous()) for half in stored.chunk(2))


def _swap_gates_in_place(transposed: Tensor) -> Tensor:
    # These are the largest arrays of a model: copying them is most of the time that opening it takes.
    gates = transposed.view(4, -1, transposed.shape[1])
    second = gates[1].clone()
    gates[1] = gates[2]
    gates[2] = second
    return transposed


def _write_kernel(input_weight: Tensor, recurrent_weight: Tensor) -> Tensor:
    return torch.cat([_swap_gates(input_weight).T, _swap_gates(recurrent_weight).T])


def _swap_gates(ours: Tensor) -> Tensor:
    return torch.cat([ours.chunk(4)[gate] for gate in _GATE_ORDER])


CONVOLUTION = Transform(
    lambda stored: (stored[0].permute(2, 1, 0).contiguous(),),
    lambda ours: ours.permute(2, 1, 0)[None],
    lambda ours: (1, *ours[::-1]),
)
GATE_KERNEL = Transform(_read_kernel, _write_kernel, lambda ours, _: (2 * ours[1], ours[0]))
GATE_BIAS = Transform(lambda stored: (_swap_gates(stored),), _swap_gates)


def renames(config: BiLMConfig) -> Iterator[Rename]:
    """The table for one model, in hdf5 names."""
    encoder = "token_encoder."
    if config.word_embedding is not None:
        yield Rename(WORD_TABLE, (encoder + "word_embedding.weight",), ZERO_ROW_IN_FRONT)
    if config.char_cnn is not None:
        cnn = encoder + "char_cnn."
        yield Rename("char_embed", (cnn + "embedding.weight",), ZERO_ROW_IN_FRONT)
        for i in range(len(config.char_cnn.filters)):
            yield Rename(f"CNN/W_cnn_{i}", (f"{cnn}convolutions.{i}.weight",), CONVOLUTION)
            yield Rename(f"CNN/b_cnn_{i}", (f"{cnn}convolutions.{i}.bias",), AS_IS)
        for k in range(config.char_cnn.num_highway):
            for part in ("carry", "transform"):
                yield Rename(f"CNN_high_{k}/W_{part}", (f"{cnn}highways.{k}.{part}.weight",), TRANSPOSED)
                yield Rename(f"CNN_high_{k}/b_{part}", (f"{cnn}highways.{k}.{part}.bias",), AS_IS)
        yield Rename(_PROJECTION[0], (encoder + "projection.weight",), TRANSPOSED)
        yield Rename(_PROJECTION[1], (encoder + "projection.bias",), AS_IS)
    for d, stack in enumerate(("forward_lstm", "backward_lstm")):
        for i in range(config.lstm.num_layers):
            theirs, ours = f"RNN_{d}/RNN/MultiRNNCell/Cell{i}/LSTMCell/", f"{stack}.layers.{i}."
            yield Rename(theirs + "W_0", (ours + "input_weight", ours + "recurrent_weight"), GATE_KERNEL)
            yield Rename(theirs + "B", (ours + "bias",), GATE_BIAS)
            if config.lstm.has_projection:
                yield Rename(theirs + "W_P_0", (ours + "projection_weight",), TRANSPOSED)


def read_tensors(config: BiLMConfig, stored: Mapping[str, StoredArray], *, source: str) -> dict[str, Tensor]:
    """Our tensors from stored arrays; every array that the options describe must be there, with its shape."""
    stored = {_with_cell_number(name): array for name, array in stored.items()}
    identity = _identity_projection(config, stored)
    table = [rename for rename in renames(config) if rename.ours[0] not in identity]
    read = read_renamed(
        table,
        stored,
        parameters=empty_bilm(config).state_dict(),
        is_extra=lambda name: _BILM_NAME.match(name) is not None,
        source=source,
    )
    return read | identity


def write_arrays(config: BiLMConfig, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """The arrays to store, by their hdf5 names."""
    ours = {name: tensor.detach().cpu().float() for name, tensor in tensors.items()}
    for rename in renames(config):
        stored = rename.write(ours)
        if rename.transform is GATE_BIAS and config.lstm.forget_bias != 1.0:
            # Readers of the file add 1 to the forget gate; the rest of our forget bias goes into the stored bias.
            i, j, f, o = stored.chunk(4)
            stored = torch.cat([i, j, f + (config.lstm.forget_bias - 1.0), o])
        yield rename.theirs, stored.contiguous().numpy()


def _with_cell_number(name: str) -> str:
    """One-layer models, as bilm-tf writes them, have no cell number in their names."""
    return re.sub(r"^(RNN_\d+/RNN)/LSTMCell/", r"\1/MultiRNNCell/Cell0/LSTMCell/", name)


def _identity_projection(config: BiLMConfig, stored: Mapping[str, StoredArray]) -> dict[str, Tensor]:
    """bilm-tf has no projection if there are as many filters as the token is wide; ours is then the identity."""
    width = config.lstm.projection_dim
    if config.char_cnn is None or config.char_cnn.num_filters != width or any(name in stored for name in _PROJECTION):
        return {}
    return {"token_encoder.projection.weight": torch.eye(width), "token_encoder.projection.bias": torch.zeros(width)}
