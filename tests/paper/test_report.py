"""A full report from small data: missing data is named, and nothing is computed twice."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from elmo.errors import ConfigError
from elmo.paper.plan import Plan
from elmo.paper.report import make_report
from elmo.paper.study import Study

MakeStudy = Callable[..., Study]


def test_a_full_report_and_a_second_one_from_its_runs(make_study: MakeStudy, tmp_path: Path) -> None:
    said: list[str] = []
    trained: list[str] = []

    def begin(run: object) -> Callable[[object], None]:
        trained.append(run.label)  # type: ignore[attr-defined]
        return lambda event: None

    folder = tmp_path / "report"
    study = make_study(say=said.append, begin=begin)
    report = make_report(study, folder)

    titles = [section.title for section in report.sections]
    assert [title.split(":")[0] for title in titles] == [
        "Table 1", "Table 2", "Table 3", "Table 4", "Table 5", "Table 6", "Figure 1", "Figure 2",
    ]  # fmt: skip
    assert "sst/train.txt" in report.sections[0].missing[0], "what is missing is named"
    assert report.sections[0].tables[0].rows[0][0] == "named entities"
    assert "srl/ewt.train.conll" in report.sections[1].missing[0]
    texts = {claim.text for claim in report.claims}
    assert "All layers are better than the last only" in texts
    assert "Syntax is found lower: layer 1 is better than layer 2" in texts
    assert all(claim.verdict.startswith(("held", "not held")) for claim in report.claims)

    page = (folder / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 3 and "http" not in page.split("</style>")[1]
    markdown = (folder / "report.md").read_text()
    assert "figures/figure-1.png" in markdown and (folder / "figures" / "figure-1.png").exists()
    assert "elmo paper layers entailment --train" in markdown and "- machine: " in markdown
    assert len(json.loads((folder / "report.json").read_text())["sections"]) == 8
    assert not list(folder.rglob("*.partial")) and not (folder / "runs" / "layers").exists()

    said.clear()
    trained.clear()
    again = make_report(make_study(say=said.append, begin=begin), folder)
    assert not trained and all(line.startswith("== ") for line in said), "the second time nothing is computed"
    assert again.claims == report.claims


def test_one_part_and_an_unknown_part(make_study: MakeStudy, tmp_path: Path) -> None:
    report = make_report(make_study(), tmp_path / "report", parts=("table-5",))
    assert [section.title[:7] for section in report.sections] == ["Table 5"]
    assert len(report.intro) == 1, "no line about task models: none was trained"
    with pytest.raises(ConfigError, match="Unknown part of a report 'table-9'"):
        make_report(make_study(), tmp_path / "report", parts=("table-9",))


def test_the_introduction_names_the_settings_of_trained_tasks_only(
    make_study: MakeStudy, small_plan: Plan, tmp_path: Path
) -> None:
    changes = {"entailment": ("training.epochs=1",), "semantic_roles": ("training.epochs=3",)}
    study = make_study(plan=replace(small_plan, task_settings=changes))
    intro = make_report(study, tmp_path / "report", parts=("figure-1",)).intro
    assert "1 seed. Changed: entailment: " in intro[1] and "semantic roles" not in intro[1]


def test_a_report_without_data_lists_missing_files(make_study: MakeStudy, data: Path, tmp_path: Path) -> None:
    shutil.rmtree(data)
    data.mkdir()
    report = make_report(make_study(), tmp_path / "report")
    assert not report.claims and all(section.missing for section in report.sections)
    assert "Nothing has been measured yet." in (tmp_path / "report" / "report.md").read_text()
