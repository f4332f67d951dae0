"""Results record where they come from."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from elmo.errors import WriteError
from elmo.provenance import (
    Report,
    collect,
    command_line,
    forget_peak,
    markdown_of,
    markdown_table,
    peak_bytes,
    write_report,
)

MEBIBYTE = 1 << 20


def test_the_command_line_is_recorded_as_typed() -> None:
    assert command_line(["/some/where/elmo", "probe", "pos", "a file"]) == "elmo probe pos 'a file'"
    # What python -m elmo gives.
    assert command_line(["/some/where/elmo/__main__.py", "probe", "pos"]) == "elmo probe pos"


def test_a_report_has_all_that_is_needed_to_run_it_again(tmp_path: Path) -> None:
    provenance = collect(seed=3, seconds=1.26, command="elmo probe pos data")
    report = Report("pos", "Part of speech", markdown_table(["layer", "test"], [["0", "1.0"]]), {"test": 1.0})
    paths = write_report(report, tmp_path / "new", provenance=provenance)
    assert [path.name for path in paths] == ["pos.md", "pos.json"]
    text = paths[0].read_text()
    assert text.startswith("# Part of speech\n\n| layer | test |\n| --- | ---: |\n| 0 | 1.0 |\n")
    assert "`elmo probe pos data`" in text
    data = json.loads(paths[1].read_text())
    assert data["test"] == 1.0
    found = data["provenance"]
    assert (found["command"], found["seed"], found["seconds"]) == ("elmo probe pos data", 3, 1.3)
    assert found["versions"]["torch"] and found["python"] and found["processor"] and found["cores"] >= 1
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"pos.md", "pos.json"}


def test_no_host_name_is_recorded() -> None:
    assert socket.gethostname() not in markdown_of(collect())


def test_an_unwritable_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="Cannot write"):
        write_report(Report("a", "A", "", {}), tmp_path / "file", provenance=collect())


def test_peak_memory_includes_freed_blocks_until_reset() -> None:
    before = peak_bytes()
    assert before > MEBIBYTE, "a Python program holds more than this"
    block = bytearray(b"x") * (before + 64 * MEBIBYTE)
    del block
    peak = peak_bytes()
    assert peak >= before + 64 * MEBIBYTE
    if sys.platform != "linux" or not Path("/proc/self/clear_refs").exists():
        pytest.skip("this system cannot forget a peak")
    forget_peak()
    assert peak_bytes() < peak - 32 * MEBIBYTE
