"""A whole report: every section in turn, written anew after each, gone on with after a break.

    reproduce(shop, Path("report"), provenance=lambda: collect())

The folder gets report.html (one file, pictures inside), report.md with figures/, report.json with every figure, and
cells/, from which a second run takes whatever the first one finished.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from elmo.analysis.files import writing
from elmo.analysis.provenance import Provenance
from elmo.analysis.reproduction import probes, task_scores
from elmo.analysis.reproduction.page import as_html
from elmo.analysis.reproduction.report import ReproductionReport, Section, as_markdown
from elmo.analysis.reproduction.workshop import Workshop
from elmo.errors import InputError
from elmo.whole_files import write_whole

PARTS: dict[str, Callable[[Workshop], Section]] = {
    "table-6": probes.parts_of_speech,
    "table-5": probes.word_senses,
    "table-4": probes.neighbours,
    "table-1": task_scores.six_tasks,
    "figure-2": task_scores.what_layers_count,
    "table-2": task_scores.which_layers,
    "table-3": task_scores.which_place,
    "figure-1": task_scores.how_much_data,
}
"""In the order in which they are made: quick ones first, those that share cells after each other."""

ORDER = ("table-1", "table-2", "table-3", "table-4", "table-5", "table-6", "figure-1", "figure-2")
"""In the order in which they are shown."""


def reproduce(
    shop: Workshop, folder: Path, *, provenance: Callable[[], Provenance], parts: tuple[str, ...] = tuple(PARTS)
) -> ReproductionReport:
    """Make the parts that were asked for and write the report."""
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise InputError(f"There is no part {unknown[0]!r} in a report; expected some of {', '.join(PARTS)}.")
    done: dict[str, Section] = {}
    for name in PARTS:
        if name in parts:
            shop.listener.say(f"== {name}")
            done[name] = PARTS[name](shop)
            report = _report(shop, done, provenance())
            write(report, folder)
    return report


def write(report: ReproductionReport, folder: Path) -> None:
    """report.html, report.md, report.json and the pictures, each whole or not at all."""
    figures = folder / "figures"
    for section in report.sections:
        for figure in section.figures:
            _write(figures / f"{figure.name}.png", figure.png)
    _write(folder / "report.html", as_html(report).encode())
    _write(folder / "report.md", as_markdown(report).encode())
    _write(folder / "report.json", (json.dumps(_plain(report), indent=1, ensure_ascii=False) + "\n").encode())


def _report(shop: Workshop, done: dict[str, Section], provenance: Provenance) -> ReproductionReport:
    config = shop.bilm.config
    plan = shop.plan
    changed = {task.replace("_", " "): plan.settings_of(task) for task in plan.task_settings}
    if plan.overrides:
        changed["all tasks"] = plan.overrides
    settings = "; ".join(f"{task}: {', '.join(changes)}" for task, changes in changed.items())
    # A model goes by one name while it learns on: what it has read tells its reports apart.
    seen = f", {tokens / 1e6:.1f} M tokens seen" if (tokens := shop.bilm.card.get("tokens_seen")) else ""
    intro = [
        f"The analyses of Peters et al. 2018 for the biLM {shop.elmo_name} (LSTM {config.lstm.cell_dim}, projection "
        f"{config.lstm.projection_dim}, {config.lstm.num_layers} layers{seen}), beside the paper's figures. The "
        "paper's biLM is larger and read more text, and most data here are other ones: look at directions and "
        "reductions.",
        f"Task models: the {plan.preset} presets, {plan.seeds} seed{'s' * (plan.seeds > 1)}."
        + (f" Changed: {settings}." if settings else ""),
    ]
    sections = tuple(done[name] for name in ORDER if name in done)
    return ReproductionReport("The paper's results, made again", tuple(intro), sections, provenance)


def _plain(report: ReproductionReport) -> dict[str, Any]:
    sections = []
    for section in report.sections:
        plain = asdict(section)
        plain["figures"] = [figure.name for figure in section.figures]
        plain["claims"] = [{**asdict(claim), "verdict": claim.verdict} for claim in section.claims]
        sections.append(plain)
    return {"title": report.title, "sections": sections, "provenance": asdict(report.provenance)}


def _write(path: Path, content: bytes) -> None:
    with writing(path):
        write_whole(path, content)
