"""The logs on a full disk, and TensorBoard's; the JSONL log is tested with the loop and the killed runs too."""

from pathlib import Path

import pytest

from elmo.errors import WriteError
from elmo.pretrain.logs import JsonLog, TensorBoardLog, read_log
from elmo.pretrain.loop import Report


def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "log.jsonl")
    log(Report("train", 1, {"loss": 2.0}))
    assert read_log(tmp_path / "log.jsonl") == [{"kind": "train", "update": 1, "loss": 2.0}]
    (tmp_path / "log.jsonl").unlink()
    (tmp_path / "log.jsonl").symlink_to("/dev/full")
    with pytest.raises(WriteError, match=r"No space left.*--resume"):
        log(Report("train", 2, {"loss": 1.0}))


def test_tensorboard_reads_the_scalars_of_a_resumed_run(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    first = TensorBoardLog(tmp_path)
    for update in (1, 2, 3):
        first(Report("train", update, {"loss": 2.0 * update, "heldout": {"web": 8.0}}))
    TensorBoardLog(tmp_path, from_update=2)(Report("train", 3, {"loss": 5.0}))
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("train/loss")] == [(1, 2.0), (2, 4.0), (3, 5.0)]
    assert len(events.Scalars("train/heldout/web")) == 2


def test_tensorboard_on_a_full_disk_is_one_clear_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = TensorBoardLog(tmp_path)
    with Path("/dev/full").open("wb", buffering=0) as full:
        log._writer._writer = full
        with pytest.raises(WriteError, match=r"No space left.*--resume"):
            log(Report("train", 1, {"loss": 2.0}))
    assert capfd.readouterr().err == ""
