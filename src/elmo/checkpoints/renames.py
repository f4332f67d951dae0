"""Tables between other people's names and layouts of weights and ours, read in both directions.

An entry says which of our parameters one stored array holds and by which transform:

    CNN/W_cnn_0  (1, width, dim, filters)  <->  token_encoder.char_cnn.convolutions.0.weight  (filters, dim, width)

Reading is strict: all that the table names must be there with its shape, and errors use the file's own names. The
tables themselves stand with their formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from elmo.checkpoints.checkpoint import some_names
from elmo.errors import CheckpointError


class StoredArray(Protocol):
    """An array in a file, read when it is indexed with `...`; h5py's datasets and numpy's arrays are such."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Any: ...
    def __getitem__(self, key: Any, /) -> Any: ...


@dataclass(frozen=True)
class Transform:
    """From one stored array to our parameters, and back."""

    read: Callable[[Tensor], tuple[Tensor, ...]]
    write: Callable[..., Tensor]
    shape: Callable[..., tuple[int, ...]] = lambda *ours: ours[0]
    """The stored array's shape by those of our parameters. `write` would tell, too, but on tensors without memory it
    makes torch import its compiler, which takes longer than to open a model."""


@dataclass(frozen=True)
class Rename:
    """One stored array and our parameters that it holds."""

    theirs: str
    ours: tuple[str, ...]
    transform: Transform

    def write(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """The array to store."""
        return self.transform.write(*(parameters[name] for name in self.ours))

    def stored_shape(self, parameters: Mapping[str, Tensor]) -> tuple[int, ...]:
        """The shape of what `write` would give."""
        return self.transform.shape(*(tuple(parameters[name].shape) for name in self.ours))


def _zero_row_in_front(stored: Tensor) -> Tensor:
    return torch.cat([stored.new_zeros(1, stored.shape[1]), stored])


AS_IS = Transform(lambda stored: (stored,), lambda ours: ours)
TRANSPOSED = Transform(lambda stored: (stored.T.contiguous(),), lambda ours: ours.T, lambda ours: ours[::-1])
# Our row 0 means "no token"; the old tools put it in when they open a file.
ZERO_ROW_IN_FRONT = Transform(
    lambda stored: (_zero_row_in_front(stored),), lambda ours: ours[1:], lambda ours: (ours[0] - 1, *ours[1:])
)


def read_renamed(
    table: Sequence[Rename],
    stored: Mapping[str, StoredArray],
    *,
    parameters: Mapping[str, Tensor],
    is_extra: Callable[[str], bool],
    source: str,
) -> dict[str, Tensor]:
    """Our tensors out of stored arrays.

    `parameters` have our shapes (they may be meta tensors). `is_extra` tells of a name outside the table whether it
    shows that the weights are those of another model.
    """
    _check(table, stored, parameters, is_extra, source)
    tensors: dict[str, Tensor] = {}
    for rename in table:
        array = np.ascontiguousarray(stored[rename.theirs][...], dtype=np.float32)
        tensors.update(zip(rename.ours, rename.transform.read(torch.from_numpy(array)), strict=True))
    return tensors


def _check(
    table: Sequence[Rename],
    stored: Mapping[str, StoredArray],
    parameters: Mapping[str, Tensor],
    is_extra: Callable[[str], bool],
    source: str,
) -> None:
    expected = {rename.theirs: rename.stored_shape(parameters) for rename in table}
    missing = [name for name in expected if name not in stored]
    extra = [name for name in stored if name not in expected and is_extra(name)]
    present = {name: stored[name] for name in expected if name in stored}
    wrong = [
        f"{name} is {tuple(array.shape)}, expected {expected[name]}"
        for name, array in present.items()
        if tuple(array.shape) != expected[name]
    ]
    wrong += [
        f"{name} holds {array.dtype}, expected float32"
        for name, array in present.items()
        if np.dtype(array.dtype).kind != "f"
    ]
    named = (("missing", missing), ("not called for", extra), ("does not fit", wrong))
    problems = [f"{kind}: {some_names(names)}" for kind, names in named if names]
    if problems:
        raise CheckpointError(
            f"The weights in {source} do not fit the options ({'; '.join(problems)}). "
            "Check that the weights and the options belong together and that the weights are whole."
        )
