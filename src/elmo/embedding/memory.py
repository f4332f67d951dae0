"""Telling a lack of memory from other errors, for whoever can go on with less."""

from __future__ import annotations

import torch


def is_out_of_memory(error: BaseException) -> bool:
    """On a CPU torch reports it as a plain RuntimeError."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(
        sign in str(error) for sign in ("can't allocate memory", "not enough memory", "out of memory")
    )
