"""Figure 2: the weight of each layer in trained task models (section 5.5).

    rows = read_mixes([Path("runs/ner"), Path("runs/sst")])
    rows[0].weights                         # (0.31, 0.52, 0.17): tokens, LSTM 1, LSTM 2

The weights are softmax(w) at every place of ELMo, averaged over seeds, and gamma. They are read from the results.json
of `elmo task train` or from a store of runs (`elmo.tasks.runs`). Left out: models that mix only some of the layers
(`elmo.layers`).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.errors import InputError
from elmo.explore.plots import new_figure
from elmo.paper.data import MissingDataError
from elmo.paper.section import (
    Check,
    Claim,
    Section,
    Table,
    draw,
    not_chosen,
    plain_name,
    score_text,
    seeds_text,
    within_spread,
)
from elmo.paper.study import Study
from elmo.paper.table_1_tasks import run_folder
from elmo.storage.json_file import read_json
from elmo.tasks.catalog import paper_tasks
from elmo.tasks.job import RESULTS_FILE
from elmo.tasks.runs import UNFINISHED, TaskSetup
from elmo.tasks.scores import MeanAndStd, over_seeds

TASKS = "tasks"

_RESULTS_KEYS = {"task", "headline", "place", "seeds", "settings"}
"""These keys distinguish our results.json from other files of that name."""


@dataclass(frozen=True)
class MixRow:
    """One place of one task model."""

    task: str
    place: str
    """input or output."""
    weights: tuple[float, ...]
    """From the tokens up; they sum to one."""
    spread: tuple[float, ...]
    """Their standard deviation over seeds."""
    gamma: float
    seeds: int
    note: str = ""
    """Other settings that distinguish the model from others of its task."""

    @property
    def label(self) -> str:
        return f"{plain_name(self.task)}, {self.place}" + (f" ({self.note})" if self.note else "")

    @property
    def shown(self) -> list[str]:
        """The weights for readers, with their standard deviations if there are several seeds."""
        pairs = zip(self.weights, self.spread, strict=True)
        return [score_text(MeanAndStd(weight, std), decimals=3) for weight, std in pairs]


def layer_labels(num_layers: int) -> list[str]:
    """The names of the layers in figure 2.

    >>> layer_labels(3)
    ['tokens', 'LSTM 1', 'LSTM 2']
    """
    return ["tokens", *(f"LSTM {layer}" for layer in range(1, num_layers))]


def mix_rows(task: str, place: str, seeds: Sequence[Mapping[str, Any]], *, note: str = "") -> list[MixRow]:
    """A row for each place, averaged over the seeds of one model; `place` is input, output or both."""
    rows = []
    for number, name in enumerate(("input", "output") if place == "both" else (place,)):
        layers = [over_seeds(column) for column in zip(*(seed["mix_weights"][number] for seed in seeds), strict=True)]
        rows.append(
            MixRow(
                task,
                name,
                weights=tuple(layer.mean for layer in layers),
                spread=tuple(layer.std for layer in layers),
                gamma=over_seeds([seed["gammas"][number] for seed in seeds]).mean,
                seeds=len(seeds),
                note=note,
            )
        )
    return rows


def read_mixes(paths: Sequence[Path]) -> list[MixRow]:
    """The mixes of trained models, from folders that contain outputs of `elmo task train`, or folders of runs."""
    models: list[_Model] = []
    for path in paths:
        found = [*_read_results(path), *_read_runs(path)]
        if not found:
            raise InputError(
                f"{path} contains no task model with mixed layers; expected {RESULTS_FILE} of `elmo task train`, or "
                "runs of a table. Baselines and models of some layers only (elmo.layers) are left out."
            )
        models += found
    rows = [
        row for model in models for row in mix_rows(model.task, model.place, model.seeds, note=_note(model, models))
    ]
    widest = max(len(row.weights) for row in rows)
    if any(len(row.weights) != widest for row in rows):
        raise InputError("Found models with different numbers of layers; expected the same number in all of them.")
    return rows


def make(study: Study) -> Section:
    """The section of a report: the weights of table 1's models."""

    def measure(setup: TaskSetup) -> list[MixRow]:
        runs = setup.runs()
        elmo = runs[0].settings.elmo
        if elmo.layers:
            raise MissingDataError(
                f"Its model mixes only the layers {list(elmo.layers)}; the figure has mixes of all layers."
            )
        return mix_rows(setup.task, elmo.place, study.train(runs))

    found, missing = study.each(study.plan.tasks, measure)
    rows = [row for each in found for row in each]
    note = f"The models of table 1. {seeds_text(study.plan.seeds)}"
    folders = dict.fromkeys(str(run_folder(row.task)) for row in rows)
    commands = [shlex.join(["elmo", "paper", "weights", *folders])] if rows else []
    left_out = not_chosen([task.name for task in paper_tasks()], study.plan.tasks, "--tasks")
    return section(rows, note).made(commands, (*missing, *left_out))


def section(rows: Sequence[MixRow], note: str) -> Section:
    """A row for each task and place, the heat map, and the paper's claims."""
    figures, no_figure = draw(
        "figure-2", "Figure 2: softmax weights of the layers by task and place.", draw_mixes, rows
    )
    table = Table(
        ("task and place", *layer_labels(len(rows[0].weights)), "gamma") if rows else (),
        tuple((row.label, *row.shown, f"{row.gamma:.2f}") for row in rows),
        note,
    )
    return Section(
        "Figure 2: the weight of each layer",
        "In the paper, the first LSTM layer has the largest weight at the input; at the output they are balanced."
        + (f" All weights of a place are 1/{len(rows[0].weights)} before the training." if rows else ""),
        tables=(table,) if rows else (),
        figures=figures,
        claims=claims(rows),
        missing=no_figure,
    )


def claims(rows: Sequence[MixRow]) -> list[Claim]:
    """The paper's claims about the weights."""

    mixed = [row for row in rows if len(row.weights) > 1]
    inputs = tuple(_first_lstm_is_largest(row) for row in mixed if row.place == "input")
    outputs = tuple(_no_layer_has_half(row) for row in mixed if row.place == "output")
    return [
        Claim("At the input the first LSTM layer has the largest weight", "figure 2", inputs),
        Claim("At the output the weights are balanced: no layer has half", "figure 2", outputs),
    ]


def _first_lstm_is_largest(row: MixRow) -> Check:
    first, largest = row.weights[1], max(row.weights)
    rival = max((layer for layer in range(len(row.weights)) if layer != 1), key=lambda layer: row.weights[layer])
    remark = within_spread(first - row.weights[rival], row.spread[1], row.spread[rival])
    return Check(row.label, first == largest, _named_weights(row) + remark)


def _no_layer_has_half(row: MixRow) -> Check:
    largest = max(row.weights)
    remark = within_spread(0.5 - largest, row.spread[row.weights.index(largest)])
    return Check(row.label, largest < 0.5, _named_weights(row) + remark)


def _named_weights(row: MixRow) -> str:
    named = zip(layer_labels(len(row.weights)), row.shown, strict=True)
    return ", ".join(f"{name} {weight}" for name, weight in named)


def draw_mixes(rows: Sequence[MixRow]) -> Any:
    """The heat map: darker squares are larger weights, and each square has its number."""
    num_layers = len(rows[0].weights)
    longest = max(len(row.label) for row in rows)
    figure = new_figure(width=1.6 + 0.085 * longest + 0.85 * num_layers, height=1.3 + 0.42 * len(rows))
    axis = figure.subplots()
    image = axis.imshow([row.weights for row in rows], cmap="Greys", vmin=0, vmax=1, aspect="auto")
    for y, row in enumerate(rows):
        for x, weight in enumerate(row.weights):
            axis.text(x, y, f"{weight:.3f}", ha="center", va="center", fontsize=9, color=_ink(weight))
    axis.set_xticks(range(num_layers), layer_labels(num_layers), fontsize=9)
    axis.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=9)
    axis.set_xticks([x - 0.5 for x in range(1, num_layers)], minor=True)
    axis.set_yticks([y - 0.5 for y in range(1, len(rows))], minor=True)
    axis.grid(which="minor", color="white", linewidth=2)
    axis.tick_params(which="both", length=0)
    axis.set_xlabel("layer of the biLM", fontsize=10)
    axis.set_ylabel("task and place", fontsize=10)
    bar = figure.colorbar(image, ax=axis)
    bar.set_label("softmax weight", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    return figure


def _ink(weight: float) -> str:
    return "white" if weight > 0.55 else "black"


@dataclass(frozen=True)
class _Model:
    """A trained model with its seeds."""

    task: str
    place: str
    seeds: list[dict[str, Any]]
    settings: dict[str, Any]
    """By dotted name; `model` is the name of the biLM, or the start of its digest."""


def _note(model: _Model, models: Sequence[_Model]) -> str:
    """The settings in which a model differs from others of its task."""
    others = [other.settings for other in models if other.task == model.task]
    names = sorted(set().union(*others))
    differing = [name for name in names if any(other.get(name) != model.settings.get(name) for other in others)]
    return ", ".join(f"{name}={model.settings.get(name)}" for name in differing)


def _read_results(path: Path) -> list[_Model]:
    models = []
    for file in sorted(path.rglob(RESULTS_FILE)) if path.is_dir() else []:
        content = _read_json(file)
        if UNFINISHED in file.relative_to(path).parts or not content.keys() >= _RESULTS_KEYS:
            continue
        seeds = [seed for seed in content["seeds"] if _has_mix(seed)]
        if seeds and not content["settings"]["elmo"]["layers"]:
            settings = {**_dotted(content["settings"]), "model": content.get("elmo")}
            models.append(_Model(content["task"], content["place"], seeds, settings))
    return models


def _read_runs(path: Path) -> list[_Model]:
    """Runs that differ only in the seed are one model."""
    models: dict[str, _Model] = {}
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        content = _read_json(file)
        key, result = content.get("key"), content.get("result")
        if not (isinstance(key, dict) and isinstance(result, dict) and _has_mix(result)):
            continue
        if key["settings"]["elmo"]["layers"]:
            continue
        same = json.dumps({name: value for name, value in key.items() if name != "seed"}, sort_keys=True)
        settings = {**_dotted(key["settings"]), "model": str(key["elmo"])[:8]}
        place = key["settings"]["elmo"]["place"]
        models.setdefault(same, _Model(key["kind"], place, [], settings)).seeds.append(result)
    return list(models.values())


def _dotted(settings: Mapping[str, Any], table: str = "") -> dict[str, Any]:
    """Nested tables as one, such as {"elmo.penalty": 0.001}."""
    plain: dict[str, Any] = {}
    for name, value in settings.items():
        plain |= _dotted(value, f"{table}{name}.") if isinstance(value, dict) else {f"{table}{name}": value}
    return plain


def _has_mix(seed: Mapping[str, Any]) -> bool:
    weights = seed.get("mix_weights") or [[]]
    return len(weights[0]) > 1


def _read_json(path: Path) -> dict[str, Any]:
    """The object in a file, or an empty one if the file has another JSON value."""
    content = read_json(path, expected="JSON that elmo wrote")
    return content if isinstance(content, dict) else {}
