"""What each layer counts for in trained task models (paper, section 5.5 and figure 2).

    rows = read_mixes([Path("runs/ner"), Path("runs/sst")])
    rows[0].weights                         # (0.31, 0.52, 0.17): tokens, LSTM 1, LSTM 2

The weights are softmax(w) of every place that ELMo was put in, averaged over seeds, and gamma. They come from what
`elmo task train` writes (results.json) or from the cells of tables (`elmo.tasks.cells`). Drawing is in
`mix_weights_plot.py`. Left out: models that mix some of the layers (`elmo.layers`), whose columns would be others.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.errors import InputError
from elmo.tasks.run import RESULTS_FILE

_KEYS_OF_A_RUN = {"task", "headline", "place", "seeds", "settings"}
"""By these a results.json of ours is told from another program's."""


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
    """What else tells the model from others of its task."""

    @property
    def label(self) -> str:
        return f"{self.task.replace('_', ' ')}, {self.place}" + (f" ({self.note})" if self.note else "")


def layer_labels(num_layers: int) -> list[str]:
    """What figure 2 calls the layers.

    >>> layer_labels(3)
    ['tokens', 'LSTM 1', 'LSTM 2']
    """
    return ["tokens", *(f"LSTM {layer}" for layer in range(1, num_layers))]


def mix_rows(task: str, place: str, seeds: Sequence[Mapping[str, Any]], *, note: str = "") -> list[MixRow]:
    """A row for each place, from what the seeds of one model learned; `place` is input, output or both."""
    rows = []
    for number, name in enumerate(("input", "output") if place == "both" else (place,)):
        columns = list(zip(*(seed["mix_weights"][number] for seed in seeds), strict=True))
        rows.append(
            MixRow(
                task,
                name,
                weights=tuple(statistics.mean(column) for column in columns),
                spread=tuple(statistics.stdev(column) if len(column) > 1 else 0.0 for column in columns),
                gamma=statistics.mean(seed["gammas"][number] for seed in seeds),
                seeds=len(seeds),
                note=note,
            )
        )
    return rows


def read_mixes(paths: Sequence[Path]) -> list[MixRow]:
    """The mixes of trained models: folders of `elmo task train` (or above them), cell files or folders of cells."""
    rows: list[MixRow] = []
    for path in paths:
        found = _read_results(path) or _read_cells(path)
        if not found:
            raise InputError(
                f"{path} holds no task model with mixed layers: neither {RESULTS_FILE}, as `elmo task train` writes "
                "it, nor cells of a table. A baseline, or a model of chosen layers (elmo.layers), is not shown."
            )
        rows += found
    widest = max(len(row.weights) for row in rows)
    if any(len(row.weights) != widest for row in rows):
        raise InputError("The models mix different numbers of layers; draw those with as many layers together.")
    return rows


def _read_results(path: Path) -> list[MixRow]:
    rows = []
    for file in sorted(path.rglob(RESULTS_FILE)) if path.is_dir() else []:
        content = _read_json(file)
        if not content.keys() >= _KEYS_OF_A_RUN or content["settings"]["elmo"]["layers"]:
            continue
        seeds = [seed for seed in content["seeds"] if _has_mix(seed)]
        if seeds:
            rows += mix_rows(content["task"], content["place"], seeds)
    return rows


def _read_cells(path: Path) -> list[MixRow]:
    """Cells that differ in nothing but the seed make one row."""
    models: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        content = _read_json(file)
        if not (isinstance(content.get("key"), dict) and _has_mix(content.get("result", {}))):
            continue
        key = content["key"]
        same = json.dumps({name: value for name, value in key.items() if name != "seed"}, sort_keys=True)
        models.setdefault(same, (key, []))[1].append(content["result"])
    rows = []
    for key, seeds in models.values():
        elmo, share = key["settings"]["elmo"], key["settings"]["training"]["fraction"]
        if elmo["layers"]:
            continue
        note = f"lambda {elmo['penalty']:g}" + (f", {100 * share:g}% of the data" if share < 1 else "")
        rows += mix_rows(key["kind"], elmo["place"], seeds, note=note)
    return rows


def _has_mix(seed: Mapping[str, Any]) -> bool:
    weights = seed.get("mix_weights") or [[]]
    return len(weights[0]) > 1


def _read_json(path: Path) -> dict[str, Any]:
    """The object in a file; an empty one for a list or a number, which are nothing of ours."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); expected JSON that elmo wrote.") from error
    return content if isinstance(content, dict) else {}
