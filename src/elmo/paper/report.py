"""The whole report: every table and figure. It is written after each of them, and resumed after an interruption.

    make_report(study, Path("report"))

The folder gets report.html (one file with its figures inside), report.md with figures/, and report.json. A second run
takes the finished results from the store.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import elmo.paper
from elmo.errors import InputError, check_choice
from elmo.paper.page import as_html
from elmo.paper.plan import Plan
from elmo.paper.section import PaperReport, Section, plain_name, report_markdown
from elmo.paper.study import Study
from elmo.provenance import Provenance, collect
from elmo.storage.atomic import write_atomic


def part_names() -> list[str]:
    """The parts of a report, in the order of their computation: those without training come first.

    A part is a file `table_N_NAME.py` or `figure_N_NAME.py` in this folder with a function `make` and a constant
    `TASKS`: the field of the plan that names the tasks it trains, or None if it trains none.
    """
    return sorted(_files(), key=lambda name: (_module(name).TASKS is not None, name.startswith("figure"), name))


def _files() -> dict[str, str]:
    """The module of each part: {'table-1': 'table_1_tasks', ...}."""
    stems = sorted(path.stem for place in elmo.paper.__path__ for path in Path(place).glob("*.py"))
    return {"-".join(stem.split("_")[:2]): stem for stem in stems if stem.startswith(("table_", "figure_"))}


def _module(name: str) -> Any:
    return import_module(f"elmo.paper.{_files()[name]}")


def make_report(study: Study, folder: Path, *, parts: Sequence[str] | None = None) -> PaperReport:
    """Make some parts, or all, and write the report."""
    names = part_names()
    for part in parts or ():
        check_choice("part of a report", part, names)
    done: dict[str, Section] = {}
    for name in names:
        if parts is None or name in parts:
            study.say(f"== {name}")
            done[name] = make_part(name, study)
            report = _report(study, done, collect())
            write(report, folder)
    return report


def make_part(name: str, study: Study) -> Section:
    """A table or figure; without its data, the reason."""
    module = _module(name)
    if module.TASKS:
        return module.make(study)  # reports missing data for each task
    try:
        return module.make(study)
    except InputError as error:
        return Section(module.TITLE, missing=(str(error),))


def write(report: PaperReport, folder: Path) -> None:
    """report.html, report.md, report.json and the figures, each written atomically."""
    for section in report.sections:
        write_figures(section, folder)
    write_atomic(folder / "report.html", as_html(report))
    write_atomic(folder / "report.md", report_markdown(report))
    write_atomic(folder / "report.json", json.dumps(_plain(report), indent=1, ensure_ascii=False) + "\n")


def write_figures(section: Section, folder: Path) -> list[Path]:
    """The section's figures in the folder `figures`; returns their paths."""
    paths = [folder / figure.path for figure in section.figures]
    for path, figure in zip(paths, section.figures, strict=True):
        write_atomic(path, figure.png)
    return paths


def _report(study: Study, done: dict[str, Section], provenance: Provenance) -> PaperReport:
    config = study.bilm.config
    # A model keeps its name while it is trained further: the number of training tokens distinguishes its reports.
    seen = f", {tokens / 1e6:.1f} M tokens seen" if (tokens := study.bilm.card.get("tokens_seen")) else ""
    intro = (
        f"The analyses of Peters et al. 2018 for the biLM {study.elmo_name} (LSTM {config.lstm.cell_dim}, projection "
        f"{config.lstm.projection_dim}, {config.lstm.num_layers} layers{seen}), beside the paper's numbers. The "
        "paper's biLM is larger and was trained on more text, and most data here are different: compare directions and "
        "error reductions.",
        *_task_models(study.plan, done),
    )
    # Tables come first, then figures.
    order = sorted(done, key=lambda name: (name.startswith("figure"), name))
    return PaperReport("The paper's results, reproduced", intro, tuple(done[name] for name in order), provenance)


def _task_models(plan: Plan, parts: Iterable[str]) -> list[str]:
    """The presets, seeds and changed settings of the tasks that the parts train; empty if they train none."""
    fields = [field for name in parts if (field := _module(name).TASKS)]
    if not fields:
        return []
    trained = {task for field in fields for task in getattr(plan, field)}
    changed = {plain_name(task): plan.settings_of(task) for task in plan.task_settings if task in trained}
    if plan.overrides:
        changed["all tasks"] = plan.overrides
    settings = "; ".join(f"{task}: {', '.join(changes)}" for task, changes in changed.items())
    text = f"Task models: the {plan.preset} presets, {plan.seeds} seed{'s' * (plan.seeds > 1)}."
    return [text + (f" Changed: {settings}." if settings else "")]


def _plain(report: PaperReport) -> dict[str, Any]:
    sections = []
    for section in report.sections:
        plain = asdict(section)
        plain["figures"] = [figure.name for figure in section.figures]
        plain["claims"] = [{**asdict(claim), "verdict": claim.verdict} for claim in section.claims]
        sections.append(plain)
    return {"title": report.title, "sections": sections, "provenance": asdict(report.provenance)}
