"""elmo reproduce: the paper's tables and figures for one model, in one report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from elmo.commands.task_progress import TaskProgress
from elmo.errors import ConfigError, InputError


def reproduce(
    data: Annotated[Path, typer.Option("--data", help="The folder that holds all data; docs/reproduce.md lists it.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the report and its cells.")],
    model: Annotated[str | None, typer.Option("--model", "-m", help="A folder, file, bundled or Hub name.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Parts of the data: about an hour on two cores.")] = False,
    seeds: Annotated[int, typer.Option(min=0, help="Trainings of each cell; 0: three, or one with --quick.")] = 0,
    preset: Annotated[str, typer.Option(help="The tasks' sizes: quick or paper.")] = "quick",
    vectors: Annotated[
        str | None, typer.Option(help="Static word vectors: a GloVe or word2vec text file; else learned from DATA/lm.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Parts of the report, commas between: table-1 to table-6, figure-1, figure-2.")
    ] = None,
    ablate: Annotated[
        str | None, typer.Option(help="The tasks of tables 2 and 3 and figure 1, commas between; else the paper's.")
    ] = None,
    cells: Annotated[Path | None, typer.Option(help="Folder for the cells, if not the report's own.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of all tasks, such as training.max_epochs=3.")
    ] = None,
    threads: Annotated[int, typer.Option(min=0, help="CPU threads; 0 leaves the choice to torch.")] = 0,
) -> None:
    """Make the paper's tables and figures again and check its claims. Stopped, it goes on when it is called again."""
    import torch

    from elmo.analysis.provenance import collect
    from elmo.analysis.reproduction.data import DataFolder
    from elmo.analysis.reproduction.plan import full_plan, quick_plan
    from elmo.analysis.reproduction.run import PARTS
    from elmo.analysis.reproduction.run import reproduce as make_report
    from elmo.analysis.reproduction.workshop import Listener, Workshop
    from elmo.checkpoints.pretrained import DEFAULT_MODEL, load
    from elmo.tasks.cells import CellStore

    if not data.is_dir():
        raise InputError(f"There is no folder {data}; expected the one that holds the data (docs/reproduce.md).")
    if quick and preset != "quick":
        raise ConfigError("--quick is a plan for the quick presets; leave out --quick or --preset.")
    plan = quick_plan(seeds or 1) if quick else full_plan(preset, seeds or 3)
    plan = replace(plan, overrides=tuple(overrides or ()))
    if ablate:
        plan = plan.ablating(_names(ablate))
    parts = _names(only) if only else tuple(PARTS)
    if threads:
        torch.set_num_threads(threads)
    # Denormal numbers, which training meets often, are slower than others by a factor of ten and more.
    torch.set_flush_denormal(True)
    with TaskProgress() as progress:
        shop = Workshop(
            bilm=load(model),
            elmo_name=model or DEFAULT_MODEL,
            data=DataFolder(data),
            store=CellStore(cells or output / "cells"),
            plan=plan,
            listener=Listener(progress.say, progress.begin),
            given_vectors=vectors,
        )
        report = make_report(shop, output, provenance=collect, parts=parts)
    for claim in report.claims:
        typer.echo(f"{claim.verdict:>15}  {claim.text} ({claim.source})")
    for section in report.sections:
        for reason in section.missing:
            typer.echo(f"{'left out':>15}  {section.title}: {reason}")
    typer.echo(str(output / "report.html"))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))
