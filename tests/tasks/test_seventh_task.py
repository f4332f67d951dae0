"""The example of a task of one's own runs, with and without ELMo, and its model opens again."""

import runpy
from pathlib import Path

import pytest

from elmo.tasks.trained import TrainedTask

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "seventh_task.py"


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["1\tBirds\t_\tNOUN", "2\tsing\t_\tVERB", "3\tloudly\t_\tADV"]
    data = tmp_path / "words.conllu"
    data.write_text(("# text\n" + "\n".join(rows) + "\n\n") * 40, encoding="utf-8")
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), str(data), str(data), str(tmp_path / "runs")])
    names = runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out.split("\n")
    assert printed[0].startswith("baseline {'mean': 1") and printed[1].startswith("elmo {'mean': 1")
    trained = TrainedTask.load(tmp_path / "runs" / "elmo", task=names["PartsOfSpeech"]())
    (example,) = trained.task.parse("Birds sing loudly", trained.settings, trained.inventory)
    assert trained.task.show(example, trained.predict([example])[0]) == "Birds_NOUN sing_VERB loudly_ADV"
