"""The logs of a run: a JSONL file, TensorBoard if it is installed, and a figure of the curves at the end."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from elmo.pretrain.loop import Report
from elmo.storage.atomic import write_atomic, writing

_ENDS = ("final", "finished", "stopped", "early stop")
_ROOM = 1_000_000
LOG_FILE, CURVES_FILE = "log.jsonl", "curves.png"


class JsonLog:
    """One JSON object a line."""

    def __init__(self, path: Path, *, from_update: int = 0) -> None:
        """Continues an existing log, without its lines about the end and about updates after `from_update`."""
        lines = read_log(path) if path.exists() else []
        lines = [line for line in lines if line["update"] <= from_update and line["kind"] not in _ENDS]
        write_atomic(path, "".join(json.dumps(line) + "\n" for line in lines))
        self._path = path

    def __call__(self, report: Report) -> None:
        line = {"kind": report.kind, "update": report.update, **report.values}
        with (
            writing(self._path, advice="Free some space, then continue from the last checkpoint with --resume."),
            self._path.open("a", encoding="utf-8") as file,
        ):
            file.write(json.dumps(line) + "\n")


def read_log(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a log; a run that was killed may have left part of a line."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError):
            found.append(dict(json.loads(line)))
    return found


class TensorBoardLog:
    """The numbers of the reports as TensorBoard scalars."""

    def __init__(self, folder: Path, *, from_update: int = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter  # the extra `tensorboard`

        self._folder = folder
        self._writer = SummaryWriter(str(folder), purge_step=from_update + 1)

    def __call__(self, report: Report) -> None:
        # On a full disk TensorBoard's thread would print tracebacks; the JSONL log raises one error.
        if shutil.disk_usage(self._folder).free < _ROOM:
            return
        for name, value in _scalars(report.values, report.kind):
            self._writer.add_scalar(name, value, report.update)
        self._writer.flush()


def tensorboard_is_installed() -> bool:
    return find_spec("tensorboard") is not None


def _scalars(values: dict[str, Any], prefix: str) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            found += _scalars(value, f"{prefix}/{name}")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append((f"{prefix}/{name}", float(value)))
    return found


def draw_curves(log: Path, picture: Path) -> None:
    """Sampled loss and held-out perplexity over the tokens read, as PNG or SVG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines = read_log(log)
    train = [line for line in lines if line["kind"] == "train"]
    heldout = [line for line in lines if line["kind"] == "heldout"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    millions = [line["tokens"] / 1e6 for line in train]
    left.plot(millions, [line["loss_forward"] for line in train], label="forward", linewidth=0.9)
    left.plot(millions, [line["loss_backward"] for line in train], label="backward", linewidth=0.9)
    sampled = "sampled " if train and train[0]["sampled"] else ""
    left.set(xlabel="million tokens read", ylabel=f"{sampled}training loss (nats per token)")
    left.legend()
    names = [name for name, value in heldout[0].items() if isinstance(value, dict)] if heldout else []
    for name in names if len(names) > 2 else ["all"] * bool(heldout):
        points = [line[name]["both"] for line in heldout]
        right.plot([line["tokens"] / 1e6 for line in heldout], points, marker=".", label=name)
    right.set(xlabel="million tokens read", ylabel="held-out perplexity, full softmax", yscale="log")
    # Plain numbers are easier to read than powers of ten.
    right.yaxis.set_major_formatter("{x:,.0f}")
    right.yaxis.set_minor_formatter("{x:,.0f}")
    if names:
        right.legend()
    figure.savefig(picture, dpi=120)
    plt.close(figure)
