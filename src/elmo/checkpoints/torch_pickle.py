"""Files written with `torch.save`, read with torch's `weights_only`: code in them never runs."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo.checkpoints.archive import check_zip
from elmo.checkpoints.checkpoint import refuse

# NumPy arrays; the module has the name of NumPy 1 or 2, whichever wrote the file.
_RECONSTRUCT = np.empty(0).__reduce__()[0]
_ARRAYS: list[Any] = [
    (_RECONSTRUCT, "numpy.core.multiarray._reconstruct"),
    (_RECONSTRUCT, "numpy._core.multiarray._reconstruct"),
    np.ndarray,
    np.dtype,
    type(np.dtype(np.float32)),
    type(np.dtype(np.float64)),
]


def read_torch_pickle(path: Path, *, expected: str) -> Any:
    """The tensors, float arrays, or containers of them in a file; `expected` ends the sentence "Expected ..."."""
    check_zip(path)
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(_ARRAYS):
            warnings.simplefilter("ignore")  # torch's warnings about the pickle; the error below is enough
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        found = "is damaged or holds Python code besides weights, which was not run"
        refuse(path, found, expected, "Get the file again, from a source that you trust.")
    except Exception as error:  # a damaged pickle can raise anything
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:120].rstrip(".")
        refuse(path, f"cannot be read: {reason}", expected)


def is_plain_tensor(value: object) -> bool:
    """Whether a value is an ordinary tensor: a pickle can also hold sparse ones, or views larger than their memory."""
    return (
        isinstance(value, Tensor)
        and value.layout is torch.strided
        and value.device.type == "cpu"
        and value.is_floating_point()
        and value.nbytes <= value.untyped_storage().nbytes()
    )
