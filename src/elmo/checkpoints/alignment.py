"""Mapping matrices: vectors of one language -> the space of English (Schuster et al. 2019).

    aligned = vector @ matrix.T

This is what AllenNLP's `aligning_files` did: a linear layer without bias after the scalar mix. A mix of layers is
linear, so mapping each layer and then mixing gives the same numbers. The published matrices were learned for layer 1,
that of the first LSTM: use `Embedder(..., layers=1, align="de")`. English has a matrix too, a multiple of the identity
that scales its vectors like the others: map both languages before you compare them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from elmo.checkpoints import published
from elmo.checkpoints.checkpoint import check_finite, refuse
from elmo.checkpoints.torch_pickle import is_plain_tensor, read_torch_pickle
from elmo.errors import ConfigError
from elmo.storage.paths import exists

_PREFIX = "ai2-aligned-"


def load_mapping(align: str | Path, *, dim: int) -> Tensor:
    """The (dim, dim) matrix of a language (`en`, `de`, ...: downloaded once) or of a file that `torch.save` wrote."""
    path = _find(align)
    loaded = read_torch_pickle(path, expected="a square matrix")
    if isinstance(loaded, np.ndarray):
        loaded = torch.from_numpy(loaded.astype(np.float32))
    if not is_plain_tensor(loaded) or loaded.shape != (dim, dim):
        found = f"the shape {tuple(loaded.shape)}" if isinstance(loaded, Tensor) else f"a {type(loaded).__name__}"
        expected = f"a matrix of ({dim}, {dim}), the width of this model's vectors"
        refuse(path, f"holds {found}", expected, "Give the mapping of this model.")
    mapping = loaded.detach().float()
    check_finite({"the matrix": mapping}, source=path)
    return mapping


def _find(align: str | Path) -> Path:
    if exists(Path(align)) and Path(align).is_file():
        return Path(align)
    model = published.catalogue().get(f"{_PREFIX}{align}")
    if model is None:
        known = [name.removeprefix(_PREFIX) for name in published.catalogue() if name.startswith(_PREFIX)]
        raise ConfigError(
            f"align is {str(align)!r}; expected one of {', '.join(known)}, or the file of a mapping matrix."
        )
    return published.obtain_mapping(model)
