"""Rename tables between the weights of other tools and ours, used in both directions.

An entry says which of our parameters a stored array holds, and how it is transformed:

    CNN/W_cnn_0  (1, width, dim, filters)  <->  token_encoder.char_cnn.convolutions.0.weight  (filters, dim, width)

Reading is strict: every array in the table must be present with its shape and finite values, and errors use the file's
own names. The tables are in the modules of their formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from elmo.checkpoints.checkpoint import check_finite, check_shapes, refuse


class StoredArray(Protocol):
    """An array in a file, read when it is indexed with `...`: an h5py dataset or a numpy array."""

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
    """The stored array's shape from those of our parameters. Calling `write` on meta tensors would give it too, but
    makes torch import its compiler, which takes longer than opening a model."""


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
# Our row 0 means "no token"; the old tools insert it when they open a file.
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
    """Our tensors from stored arrays.

    `parameters` have our shapes (they may be meta tensors). `is_extra`: whether a name outside the table means that
    the weights are those of another model.
    """
    expected = {rename.theirs: rename.stored_shape(parameters) for rename in table}
    found = {name: tuple(array.shape) for name, array in stored.items()}
    check_shapes(expected, found, extra=[n for n in found if n not in expected and is_extra(n)], source=source)
    for name in expected:
        if np.dtype(stored[name].dtype).kind != "f":
            refuse(source, f"holds {stored[name].dtype} in {name}", "float32")
    tensors: dict[str, Tensor] = {}
    for rename in table:
        array = np.ascontiguousarray(stored[rename.theirs][...], dtype=np.float32)
        tensor = torch.from_numpy(array)
        check_finite({rename.theirs: tensor}, source=source)
        tensors.update(zip(rename.ours, rename.transform.read(tensor), strict=True))
    return tensors
