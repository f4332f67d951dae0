"""The logs of a run: a JSONL file, TensorBoard if it is installed, and a figure of the curves at the end."""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from elmo.pretrain.loop import Report
from elmo.storage.atomic import write_atomic, writing

_ENDS = ("final", "finished", "stopped", "early stop")
_ADVICE = "Free some space, then continue from the last checkpoint with --resume."
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
            writing(self._path, advice=_ADVICE),
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
    """The numbers of the reports as TensorBoard scalars.

    torch's SummaryWriter writes in a thread, which prints a traceback when the disk is full. This one writes in the
    caller's thread, so that an error is raised like that of any other file.
    """

    def __init__(self, folder: Path, *, from_update: int = 0) -> None:
        """Starts a file of its own; scalars of earlier files after `from_update` are not shown any more."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # the extra `tensorboard`
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = Event, Summary
        self._path = folder / f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        with writing(self._path, advice=_ADVICE):
            folder.mkdir(parents=True, exist_ok=True)
            self._writer = RecordWriter(self._path.open("wb", buffering=0))
        self._write(
            Event(wall_time=time.time(), file_version="brain.Event:2"),
            Event(wall_time=time.time(), step=from_update + 1, session_log=SessionLog(status=SessionLog.START)),
        )

    def __call__(self, report: Report) -> None:
        scalars = _scalars(report.values, report.kind)
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in scalars]
        self._write(self._event(wall_time=time.time(), step=report.update, summary=self._summary(value=values)))

    def _write(self, *events: Any) -> None:
        with writing(self._path, advice=_ADVICE):
            for event in events:
                self._writer.write(event.SerializeToString())


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
