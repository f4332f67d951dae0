"""The log on a disk without room; what it holds otherwise is tested with the loop and the killed runs."""

from pathlib import Path

import pytest

from elmo.errors import WriteError
from elmo.pretrain.logs import JsonLog, read_log
from elmo.pretrain.loop import Report


def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "log.jsonl")
    log(Report("train", 1, {"loss": 2.0}))
    assert read_log(tmp_path / "log.jsonl") == [{"kind": "train", "update": 1, "loss": 2.0}]
    (tmp_path / "log.jsonl").unlink()
    (tmp_path / "log.jsonl").symlink_to("/dev/full")
    with pytest.raises(WriteError, match=r"No space left.*--resume"):
        log(Report("train", 2, {"loss": 1.0}))
