"""Tables 1, 2 and 3 and figures 1 and 2: what is made of trained task models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from elmo.analysis.ablation import LAYERS, PLACEMENT, Ablation, Scores, Variant, ablate
from elmo.analysis.learning_curve import LearningCurve, learn_curve
from elmo.analysis.learning_curve_plot import draw_curves
from elmo.analysis.mix_weights import MixRow, layer_labels, mix_rows
from elmo.analysis.mix_weights_plot import draw_mixes
from elmo.analysis.plots import png_bytes
from elmo.analysis.reproduction import claims, paper
from elmo.analysis.reproduction.data import MissingDataError
from elmo.analysis.reproduction.report import ReportFigure, ReportTable, Section
from elmo.analysis.reproduction.workshop import Workshop
from elmo.errors import MissingExtraError
from elmo.tasks.cells import TaskSetup, train_cells
from elmo.tasks.table import TableRow, compare_arms

T = TypeVar("T")


def six_tasks(shop: Workshop) -> Section:
    """Table 1."""
    rows, missing = _each(shop, shop.plan.tasks, lambda setup: compare_arms(setup, **shop.training()))
    cells = tuple(
        (
            _name(row.task),
            _name(row.metric),
            _summary(row.baseline["mean"], row.baseline["std"]),
            _summary(row.elmo["mean"], row.elmo["std"]),
            f"{row.absolute:+.2f}",
            f"{row.reduction:.1f}%",
            f"{row.paper.baseline:g} → {row.paper.elmo:g}, {row.paper.reduction:g}%" if row.paper else "",
        )
        for row in rows
    )
    columns = ("task", "score", "baseline", "+ ELMo", "absolute", "error reduction", "paper")
    table = ReportTable(columns, cells, f"On the test sets. {_seeds(shop)} {shop.vectors_note}")
    return Section(
        "Table 1: six tasks, without and with ELMo",
        "The same model, settings, seeds and static vectors in both arms. Other data than the paper's: compare the "
        "reductions, not the scores. Question answering has no test set; its development set serves as both.",
        tables=(table,) if rows else (),
        claims=tuple(claims.elmo_helps(rows)) if rows else (),
        commands=tuple(_train_commands(shop, rows)),
        seconds=sum(map(_seconds, rows)) if rows else None,
        missing=missing,
    )


def which_layers(shop: Workshop) -> Section:
    """Table 2."""
    found, missing = _each(shop, shop.plan.ablated, lambda setup: ablate(setup, LAYERS, **shop.training()))
    return _ablation_section(
        shop,
        found,
        LAYERS,
        paper.LAYERS,
        title="Table 2: which layers",
        text="The same task models with no ELMo, with the biLM's last layer only, and with mixes of several layers.",
        command="ablate layers",
        claims=claims.layers_matter(found) if found else [],
        missing=missing,
    )


def which_place(shop: Workshop) -> Section:
    """Table 3."""
    found, missing = _each(shop, shop.plan.ablated, lambda setup: ablate(setup, PLACEMENT, **shop.training()))
    return _ablation_section(
        shop,
        found,
        PLACEMENT,
        paper.PLACES,
        title="Table 3: where ELMo is put in",
        text="At the input of the task's RNN, at its output, or both.",
        command="ablate placement",
        claims=claims.places_matter(found) if found else [],
        missing=missing,
    )


def how_much_data(shop: Workshop) -> Section:
    """Figure 1."""
    plan = shop.plan

    def measure(setup: TaskSetup) -> LearningCurve:
        return learn_curve(setup, _shares(shop, setup), max_stretch=plan.max_stretch, **shop.training())

    curves, missing = _each(shop, plan.curves, measure)
    rows = tuple(
        (
            _name(curve.task),
            f"{100 * point.share:g}%",
            f"{point.examples:,}",
            _scores(point.baseline),
            _scores(point.elmo),
        )
        for curve in curves
        for point in curve.points
    )
    figures, no_plot = _figure(
        "figure-1", "Figure 1: development scores by the share of the training set.", draw_curves, curves
    )
    return Section(
        "Figure 1: how much data is needed",
        f"{paper.SAMPLES} {paper.EPOCHS}",
        tables=(ReportTable(("task", "share", "examples", "baseline", "+ ELMo"), rows, _seeds(shop)),) if rows else (),
        figures=figures,
        claims=tuple(claims.less_data(curves)),
        commands=tuple(_samples_command(shop, curve) for curve in curves),
        seconds=_total(
            shop, (each for curve in curves for point in curve.points for each in (point.baseline, point.elmo))
        ),
        missing=(*missing, *no_plot),
    )


def what_layers_count(shop: Workshop) -> Section:
    """Figure 2: the weights of table 1's models."""
    found, missing = _each(shop, shop.plan.tasks, lambda setup: _mixes(shop, setup))
    rows = [row for each in found for row in each]
    figures, no_plot = _figure(
        "figure-2", "Figure 2: softmax weights of the layers by task and place.", draw_mixes, rows
    )
    table = ReportTable(
        ("task and place", *layer_labels(len(rows[0].weights)), "gamma") if rows else (),
        tuple((row.label, *(f"{weight:.3f}" for weight in row.weights), f"{row.gamma:.2f}") for row in rows),
        f"The models of table 1. {_seeds(shop)}",
    )
    return Section(
        "Figure 2: what each layer counts for",
        paper.WEIGHTS,
        tables=(table,) if rows else (),
        figures=figures,
        claims=tuple(claims.weights_are_used(rows)),
        commands=("elmo weights CELLS -o weights.png",) if rows else (),
        missing=(*missing, *no_plot),
    )


def _each(shop: Workshop, tasks: Iterable[str], measure: Callable[[TaskSetup], T]) -> tuple[list[T], tuple[str, ...]]:
    """What is measured for each task whose data are there, and what is missing for the others."""
    found, missing = [], []
    for task in tasks:
        try:
            found.append(measure(shop.setup(task)))
        except MissingDataError as error:
            missing.append(f"{_name(task)}. {error}")
    return found, tuple(missing)


def _ablation_section(
    shop: Workshop,
    found: Sequence[Ablation],
    variants: Sequence[Variant],
    published: Any,
    *,
    title: str,
    text: str,
    command: str,
    claims: Sequence[claims.Claim],
    missing: tuple[str, ...],
) -> Section:
    names = [variant.name for variant in variants]
    rows = []
    for each in found:
        figures = published.get(each.task, {})
        rows.append((_name(each.task), _name(each.metric), *(_scores(each.scores[name]) for name in names)))
        known = [figures.get(name) for name in names]
        rows.append(("", "paper", *("" if figure is None else f"{figure:g}" for figure in known)))
    table = ReportTable(("task", "", *names), tuple(rows), f"On the development sets. {_seeds(shop)}")
    return Section(
        title,
        text,
        tables=(table,) if found else (),
        claims=tuple(claims),
        commands=tuple(shop.command(command, shop.setup(each.task)) for each in found),
        seconds=_total(shop, (scores for each in found for scores in each.scores.values())),
        missing=missing,
    )


def _mixes(shop: Workshop, setup: TaskSetup) -> list[MixRow]:
    cells = setup.cells()
    elmo = cells[0].settings.elmo
    if elmo.layers:
        raise MissingDataError(f"Its model mixes the layers {list(elmo.layers)} alone; the figure shows mixes of all.")
    return mix_rows(setup.task, elmo.place, train_cells(cells, **shop.training()))


def _figure(name: str, caption: str, draw: Callable[[Any], Any], content: Sequence[Any]) -> Any:
    """The picture, and why there is none."""
    if not content:
        return (), ()
    try:
        return (ReportFigure(name, png_bytes(draw(content)), caption),), ()
    except MissingExtraError as error:
        return (), (str(error),)


def _train_commands(shop: Workshop, rows: Sequence[TableRow]) -> Iterable[str]:
    for row in rows:
        yield shop.command("task train", shop.setup(row.task), "-o", f"runs/{row.task}")


def _shares(shop: Workshop, setup: TaskSetup) -> list[float]:
    """Of the whole training set; the largest is what the tables have, whose cells then serve here, too."""
    fraction = setup.settings().training.fraction
    return [round(share * fraction, 6) for share in shop.plan.shares]


def _samples_command(shop: Workshop, curve: LearningCurve) -> str:
    shares = ",".join(f"{point.share:g}" for point in curve.points)
    stretch = f"{shop.plan.max_stretch:g}"
    return shop.command("ablate samples", shop.setup(curve.task), "--shares", shares, "--max-stretch", stretch)


def _seconds(row: TableRow) -> float:
    return row.seeds * (row.seconds["baseline"] + row.seconds["elmo"]) + row.seconds["layers"]


def _total(shop: Workshop, scores: Iterable[Scores]) -> float | None:
    seconds = [shop.plan.seeds * each.seconds for each in scores]
    return sum(seconds) if seconds else None


def _scores(scores: Scores) -> str:
    return _summary(scores.mean, scores.std if len(scores.dev) > 1 else 0.0)


def _summary(mean: float, std: float) -> str:
    return f"{mean:.2f} ± {std:.2f}" if std else f"{mean:.2f}"


def _seeds(shop: Workshop) -> str:
    seeds = ", ".join(str(seed) for seed in range(shop.plan.seeds))
    return f"Mean and standard deviation over the seeds {seeds}." if shop.plan.seeds > 1 else f"Seed {seeds}."


def _name(text: str) -> str:
    return text.replace("_", " ")
