"""elmo ablate: what of ELMo a task needs, and how much data (paper, tables 2 and 3, figure 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo import config
from elmo.commands.measured import Measured, MeasuredTable, Stopwatch, deliver, messages
from elmo.commands.task_progress import TaskProgress
from elmo.errors import ConfigError

if TYPE_CHECKING:
    from elmo.analysis.ablation import Ablation, Variant
    from elmo.analysis.learning_curve import LearningCurve
    from elmo.tasks.cells import TaskSetup

app = typer.Typer(help="Take ELMo apart: layers, places, amounts of data.", no_args_is_help=True, add_completion=False)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="One of the six tasks (see elmo task train --help).")]
_Train = Annotated[str, typer.Option("--train", help="What to learn from.")]
_Dev = Annotated[str, typer.Option("--dev", help="What the scores are measured on.")]
_Test = Annotated[str | None, typer.Option("--test", help="Measured as well, and kept in the JSON.")]
_Elmo = Annotated[str | None, typer.Option(help="A biLM: path, bundled or Hub name. Default: the bundled.")]
_Vectors = Annotated[str | None, typer.Option(help="Static word vectors: a GloVe or word2vec text file.")]
_Seeds = Annotated[int, typer.Option(min=1, help="How often each is trained, from other random weights.")]
_Preset = Annotated[str, typer.Option(help="quick (minutes on two cores) or paper (the paper's sizes).")]
_Config = Annotated[Path | None, typer.Option("--config", help="Settings in TOML instead of the task's own presets.")]
_Overrides = Annotated[list[str] | None, typer.Option("--set", help="A setting, such as training.max_epochs=3.")]
_Cells = Annotated[Path, typer.Option(help="Folder for the trainings' scores; none is trained again.")]
_Threads = Annotated[int, typer.Option(min=0, help="CPU threads; 0 leaves the choice to torch.")]
_Json = Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")]
_Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write Markdown and JSON to this folder.")]


@app.command()
def layers(
    name: _Name,
    train: _Train,
    dev: _Dev,
    test: _Test = None,
    elmo: _Elmo = None,
    vectors: _Vectors = None,
    seeds: _Seeds = 1,
    preset: _Preset = "quick",
    config_file: _Config = None,
    overrides: _Overrides = None,
    cells: _Cells = Path("cells"),
    threads: _Threads = 0,
    json_file: _Json = None,
    output: _Output = None,
) -> None:
    """No ELMo, the last layer only, all layers with lambda 1 and 0.001, the first two (table 2)."""
    from elmo.analysis.ablation import LAYERS

    setup = _setup(name, train, dev, test, vectors, seeds, preset, config_file, overrides)
    title = f"Which layers {setup.task.replace('_', ' ')} needs"
    _ablate(setup, LAYERS, "ablate_layers", title, elmo, cells, threads, json_file, output)


@app.command()
def placement(
    name: _Name,
    train: _Train,
    dev: _Dev,
    test: _Test = None,
    elmo: _Elmo = None,
    vectors: _Vectors = None,
    seeds: _Seeds = 1,
    preset: _Preset = "quick",
    config_file: _Config = None,
    overrides: _Overrides = None,
    cells: _Cells = Path("cells"),
    threads: _Threads = 0,
    json_file: _Json = None,
    output: _Output = None,
) -> None:
    """ELMo at the input of the task's RNN, at its output, or both (table 3)."""
    from elmo.analysis.ablation import PLACEMENT

    setup = _setup(name, train, dev, test, vectors, seeds, preset, config_file, overrides)
    title = f"Where {setup.task.replace('_', ' ')} needs ELMo"
    _ablate(setup, PLACEMENT, "ablate_placement", title, elmo, cells, threads, json_file, output)


@app.command()
def samples(
    name: _Name,
    train: _Train,
    dev: _Dev,
    test: _Test = None,
    shares: Annotated[
        str, typer.Option(help="Shares of the training set, commas between; numbers above 0, at most 1.")
    ] = "0.001,0.01,0.1,1",
    max_stretch: Annotated[
        float, typer.Option(min=1, help="How many times the epochs a small share gets at most.")
    ] = 8.0,
    elmo: _Elmo = None,
    vectors: _Vectors = None,
    seeds: _Seeds = 1,
    preset: _Preset = "quick",
    config_file: _Config = None,
    overrides: _Overrides = None,
    cells: _Cells = Path("cells"),
    plot: Annotated[Path | None, typer.Option(help="Draw the curves: a .png, .svg or .pdf.")] = None,
    threads: _Threads = 0,
    json_file: _Json = None,
    output: _Output = None,
) -> None:
    """Learning curves with and without ELMo (figure 1)."""
    from elmo.analysis import plots
    from elmo.analysis.learning_curve import learn_curve
    from elmo.analysis.learning_curve_plot import draw_curves

    setup = _setup(name, train, dev, test, vectors, seeds, preset, config_file, overrides)
    parts = _shares(shares)
    for change in overrides or ():
        if change.startswith("training.fraction="):
            raise ConfigError(
                f"--set {change} does nothing here: --shares says which parts of the data are learned from."
            )
    if plot is not None:
        plots.check_name(plot)
        plots.new_figure(width=1, height=1)  # a missing library is better found out now than in an hour

    def measure(**options: Any) -> LearningCurve:
        return learn_curve(setup, parts, max_stretch=max_stretch, **options)

    watch = Stopwatch()
    curve = _train(measure, elmo, cells, threads)
    if plot is not None:
        plots.save(draw_curves([curve]), plot)
        messages.print(f"wrote {plot}")
    title = f"How much data {setup.task.replace('_', ' ')} needs"
    deliver(
        "ablate_samples",
        title,
        Measured([curve_table(curve, title)], {**curve.as_dict(), "seeds": seeds, "preset": preset}),
        json_file=json_file,
        folder=output,
        seconds=watch.seconds,
    )


def ablation_table(ablation: Ablation, title: str) -> MeasuredTable:
    """A row for each variant."""
    rows = [
        [name, f"{each.mean:.2f}", f"{each.std:.2f}" if len(each.dev) > 1 else "", f"{each.seconds:.0f}"]
        for name, each in ablation.scores.items()
    ]
    note = f"Development {ablation.metric.replace('_', ' ')}, mean and deviation over seeds, and seconds to train one."
    return MeasuredTable(title, ["", ablation.metric.replace("_", " "), "±", "seconds"], rows, note)


def curve_table(curve: LearningCurve, title: str) -> MeasuredTable:
    """A row for each part of the training set."""
    rows = [
        [
            f"{100 * point.share:g}%",
            f"{point.examples:,}",
            f"{point.baseline.mean:.2f} ± {point.baseline.std:.2f}",
            f"{point.elmo.mean:.2f} ± {point.elmo.std:.2f}",
        ]
        for point in curve.points
    ]
    return MeasuredTable(title, ["share", "examples", "baseline", "with ELMo"], rows, epochs_note(curve))


def epochs_note(curve: LearningCurve) -> str:
    """How many epochs both arms need, in a sentence."""
    epochs = curve.epochs
    best = f"The baseline's best is {epochs.baseline_best:.2f}, in epoch {epochs.baseline_epoch:.3g}"
    if epochs.elmo_epoch is None:
        return f"{best}; ELMo does not reach it with every seed."
    return f"{best}; ELMo has as much in epoch {epochs.elmo_epoch:.3g}."


def _setup(
    name: str,
    train: str,
    dev: str,
    test: str | None,
    vectors: str | None,
    seeds: int,
    preset: str,
    config_file: Path | None,
    overrides: Sequence[str] | None,
) -> TaskSetup:
    from elmo.tasks.catalog import find_task
    from elmo.tasks.cells import CellFiles, TaskSetup

    changes = [config.assignment("text.words.vectors", vectors)] if vectors else []
    changes += overrides or ()
    return TaskSetup(find_task(name).name, CellFiles(train, dev, test), preset, config_file, tuple(changes), seeds)


def _ablate(
    setup: TaskSetup,
    variants: Sequence[Variant],
    file_name: str,
    title: str,
    elmo: str | None,
    cells: Path,
    threads: int,
    json_file: Path | None,
    output: Path | None,
) -> None:
    from elmo.analysis.ablation import ablate

    def measure(**options: Any) -> Ablation:
        return ablate(setup, variants, **options)

    watch = Stopwatch()
    ablation = _train(measure, elmo, cells, threads)
    data = {**ablation.as_dict(), "seeds": setup.seeds, "preset": setup.preset}
    measured = Measured([ablation_table(ablation, title)], data)
    deliver(file_name, title, measured, json_file=json_file, folder=output, seconds=watch.seconds)


def _train(measure: Callable[..., Any], elmo: str | None, cells: Path, threads: int) -> Any:
    """Call a measurement with what all of them need."""
    import torch

    from elmo.checkpoints.pretrained import DEFAULT_MODEL, load
    from elmo.tasks.cells import CellStore

    if threads:
        torch.set_num_threads(threads)
    # Denormal numbers, which training meets often, are slower than others by a factor of ten and more.
    torch.set_flush_denormal(True)
    with TaskProgress() as progress:
        return measure(store=CellStore(cells), bilm=load(elmo), elmo_name=elmo or DEFAULT_MODEL, begin=progress.begin)


def _shares(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--shares is {text!r}; expected numbers with commas between, such as 0.01,0.1,1.") from None
