"""Any text can be printed, whatever encoding the system would choose."""

import io
import json
import sys
from pathlib import Path

import pytest

from elmo.commands import main

OPTIONS = Path(__file__).parent.parent / "golden/bilm/char_skip/options.json"


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [io.TextIOWrapper, Terminal])
def test_a_file_name_outside_the_systems_encoding(
    kind: type[io.TextIOWrapper], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "é 日本.json"
    path.write_bytes(OPTIONS.read_bytes())
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", kind(written, encoding="cp1252"))
    monkeypatch.setattr(sys, "argv", ["elmo", "info", "-m", str(path), "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    encoding, shown = ("cp1252", "é ??.json") if kind is Terminal else ("utf-8", path.name)
    assert Path(json.loads(written.getvalue().decode(encoding))["model"]).name == shown
