"""elmo paper report: the paper's tables and figures for one model, in one report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.commands import options
from elmo.commands.paper.deliver import show_claims
from elmo.commands.paper.training import TrainerOptions, say
from elmo.errors import ConfigError, InputError

if TYPE_CHECKING:
    from elmo.paper.plan import Plan


@dataclass(frozen=True)
class PlanOptions:
    """The trainings and measurements of a report."""

    quick: Annotated[bool, typer.Option("--quick", help="Use parts of the data: about an hour on two cores.")] = False
    seeds: Annotated[int, typer.Option(min=0, help="The number of seeds; 0: three, or one with --quick.")] = 0
    preset: options.Preset = "quick"
    tasks: Annotated[
        str | None, typer.Option(help="The tasks of table 1 and figure 2, separated by commas. Default: all six.")
    ] = None
    ablate: Annotated[
        str | None,
        typer.Option(help="The tasks of tables 2 and 3 and figure 1, separated by commas. Default: the paper's."),
    ] = None
    curves: Annotated[
        str | None,
        typer.Option(help="The tasks of figure 1, separated by commas. Default: those of --ablate, or the paper's."),
    ] = None
    overrides: options.Overrides = None

    def plan(self) -> Plan:
        """The plan of the report."""
        from elmo.paper.plan import Plan, quick_plan

        if self.quick and self.preset != "quick":
            raise ConfigError("--quick is a plan for the quick presets; leave out --quick or --preset.")
        plan = quick_plan(self.seeds or 1) if self.quick else Plan(preset=self.preset, seeds=self.seeds or 3)
        plan = replace(plan, overrides=tuple(self.overrides or ()))
        plan = plan.comparing(options.separated(self.tasks)) if self.tasks else plan
        plan = plan.ablating(options.separated(self.ablate)) if self.ablate else plan
        return plan.with_curves(options.separated(self.curves)) if self.curves else plan


@dataclass(frozen=True)
class StudyOptions(options.ModelOptions):
    """The model, the static vectors and the runs."""

    vectors: Annotated[
        str | None, typer.Option(help="Static word vectors: a GloVe or word2vec text file. Default: learned from lm/.")
    ] = None
    runs: Annotated[
        Path | None, typer.Option(help="The folder of finished runs. Default: the report's own, `runs`.")
    ] = None

    def trainer(self, output: Path) -> TrainerOptions:
        """The trainer of the runs; by default they are in the output folder."""
        return TrainerOptions(self.device, self.threads, self.model, self.runs or output / "runs")


@options.option_groups
def report(
    data: Annotated[Path, typer.Option("--data", help="The folder with all data; docs/reproduce.md lists it.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for the report and its runs.")],
    studied: StudyOptions,
    wanted: PlanOptions,
    only: Annotated[
        str | None,
        typer.Option(help="Parts of the report, separated by commas: table-1 to table-6, figure-1, figure-2."),
    ] = None,
) -> None:
    """All tables and figures, with the paper's claims checked. The same command resumes an interrupted report."""
    from elmo.paper.data import DataFolder
    from elmo.paper.report import make_report
    from elmo.paper.study import Study

    if not data.is_dir():
        raise InputError(f"There is no folder {data}; expected the folder with the data (docs/reproduce.md).")
    plan = wanted.plan()
    parts = options.separated(only) if only else None
    with studied.trainer(output).training() as train:
        study = Study(train, DataFolder(data), plan, studied.vectors, say=say)
        made = make_report(study, output, parts=parts)
    show_claims(made.sections, titles=True)
    typer.echo(str(output / "report.html"))
