"""Which format is this? Looks at a folder, a file or a zip and opens it."""

from __future__ import annotations

from pathlib import Path

from elmo.checkpoints import native
from elmo.checkpoints.checkpoint import Checkpoint
from elmo.errors import CheckpointError


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Read a model in any known format."""
    path = Path(path)
    if native.matches(path):
        return native.read(path)
    raise CheckpointError(f"{path} holds no ELMo model that we know.")
