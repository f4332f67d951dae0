"""Checkpoints: written atomically, pruned, refused when damaged or when the disk is full."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from elmo.errors import CheckpointError, WriteError
from elmo.pretrain.checkpoint import CheckpointFolder, RunState, read


def state(value: float = 1.0, size: int = 10) -> RunState:
    return RunState({"weight": torch.full((size,), value)}, {"update": 3, "place": {"row": [1, 2]}})


def test_round_trip(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, keep=2)
    path = folder.save(state(2.5), update=7)
    found = read(path)
    assert torch.equal(found.tensors["weight"], torch.full((10,), 2.5))
    assert found.counters == {"update": 3, "place": {"row": [1, 2]}}
    assert folder.latest() == path


def test_old_checkpoints_are_deleted_and_the_best_is_kept(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, keep=2)
    for update in (1, 2, 3, 4, 5):
        folder.save(state(), update=update, best_update=2 if update > 1 else None)
    assert [path.name for path in folder.paths()] == [f"update-{update:09d}.safetensors" for update in (2, 4, 5)]


def test_a_partly_written_checkpoint_is_ignored(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, keep=2)
    whole = folder.save(state(), update=1)
    (tmp_path / "update-000000002.safetensors.partial").write_bytes(whole.read_bytes()[:50])
    assert folder.latest() == whole


def test_a_damaged_one_is_named(tmp_path: Path) -> None:
    path = CheckpointFolder(tmp_path, keep=2).save(state(), update=1)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(CheckpointError, match=r"update-000000001.safetensors is not a complete checkpoint.*Delete it"):
        read(path)


def test_too_little_disk_space_is_refused_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="MB free, but the checkpoints of this run need about"):
        CheckpointFolder(tmp_path, keep=2).check_space(1 << 60)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(WriteError, match=r"Cannot write .*: Not a directory\. .* choose another place"):
        CheckpointFolder(tmp_path / "file" / "checkpoints", keep=2).check_space(0)


def test_a_disk_that_fills_up_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    """A process that may write no more than 20 kB into a file: what a full disk does, without one."""
    code = """
import sys, torch
from pathlib import Path
from elmo.pretrain.checkpoint import CheckpointFolder, RunState
folder = CheckpointFolder(Path(sys.argv[1]), keep=2)
folder.save(RunState({"weight": torch.ones(10)}, {}), update=1)
folder.save(RunState({"weight": torch.ones(100_000)}, {}), update=2)
"""

    def limit() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, preexec_fn=limit
    )
    assert result.returncode != 0
    assert "update-000000002.safetensors: File too large. Nothing was changed" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["update-000000001.safetensors"]
    assert torch.equal(read(tmp_path / "update-000000001.safetensors").tensors["weight"], torch.ones(10))


def test_files_of_a_killed_process_are_deleted_by_the_next(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, keep=2)
    (tmp_path / "update-000000002.safetensors.partial").write_bytes(b"half of it")
    path = folder.save(state(), update=3)
    assert list(tmp_path.iterdir()) == [path]
