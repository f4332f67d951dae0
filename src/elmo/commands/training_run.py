"""What elmo pretrain and elmo finetune share: settings from the command line, and a run with its reports."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from elmo import folder_lock
from elmo.errors import CheckpointError

if TYPE_CHECKING:
    from elmo.pretrain.loop import Report
    from elmo.pretrain.start import Project
    from elmo.pretrain.world import World

Say = Callable[[str], None]


def prepare(threads: int) -> tuple[World, Say]:
    """Set torch up for training; returns this process's world and its voice. To be called before torch is imported."""
    # Threads that wait for each other sleep instead of spinning: where other programs run too, spinning costs most of
    # the speed (measured: 300 to 700 tokens/s against 2,300 to 3,900), and elsewhere it gains little.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch

    from elmo.pretrain.world import World

    # Denormal numbers, which training meets often, are slower than others by a factor of ten and more.
    torch.set_flush_denormal(True)
    _keep_memory()
    if threads:
        torch.set_num_threads(threads)
    world = World.join()
    return world, typer.echo if world.leads else _quiet


def _keep_memory() -> None:
    """Have the C library keep large blocks for the next update instead of giving them back to the system.

    Fresh pages for the gradients and buffers of every update cost 4% of the small config's speed.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):  # glibc's alone
        return
    trim_threshold, map_threshold = -1, -3  # as malloc.h numbers them
    libc.mallopt(trim_threshold, 2**31 - 1)
    # Some versions refuse more than 32 MB.
    if not libc.mallopt(map_threshold, 2**30):
        libc.mallopt(map_threshold, 2**25)


def source_overrides(train: list[str] | None, heldout: list[str] | None) -> list[str]:
    """The files of the command line as overrides; they take the place of the settings' sources."""
    # TOML has no surrogate escapes, which JSON would write for the characters beyond U+FFFF.
    return [
        f'data.{role}=[{{name = "{role}", files = {json.dumps(files, ensure_ascii=False)}}}]'
        for role, files in (("train", train), ("heldout", heldout))
        if files
    ]


def _announce(project: Project, say: Say) -> None:
    run = project.run
    settings, batches = run.settings.training, run.batches
    order_tokens = sum(source.weight * source.num_tokens for source in run.corpus.role("train"))
    parameters = sum(parameter.numel() for parameter in run.bilm.parameters())
    say(f"model: {parameters:,} parameters, softmax of {run.softmax.num_words:,} words")
    if settings.updates is not None:
        length = f"{settings.updates:,} updates (about {settings.updates / batches.epoch_updates:.2f} epochs)"
    elif settings.minutes is not None:
        length = f"{settings.minutes:g} minutes"
    else:
        length = f"{settings.epochs:g} epochs, about {settings.epochs * batches.epoch_updates:,.0f} updates"
    say(f"plan: {order_tokens:,.0f} tokens an epoch; {length}")


@contextmanager
def alone_in(folder: Path, world: World) -> Iterator[None]:
    """Keep other processes from training in a run's folder; to be held before its checkpoints are read."""
    run = folder / "run"
    if not world.leads or not run.is_dir():  # what is not there is told by whoever looks for it
        yield
        return
    with folder_lock.held(run, wait=False) as ours:
        if not ours:
            raise CheckpointError(
                f"Another process is training in {folder}. Wait for it, or stop it (Ctrl-C) and try again."
            )
        yield


def carry_out(project: Project, say: Say, *, measure_first: bool = False) -> bool:
    """Train, with reports to the screen and to files; returns whether the run came to its end."""
    from elmo.pretrain.logs import CURVES_FILE, LOG_FILE, JsonLog, TensorBoardLog, draw_curves, tensorboard_is_installed
    from elmo.pretrain.loop import evaluate, train

    _announce(project, say)
    run = project.run
    observers: list[Callable[[Report], None]] = []
    if run.world.leads:
        first = run.progress.update
        observers = [JsonLog(project.run_folder / LOG_FILE, from_update=first), lambda report: _print(report, say)]
        if tensorboard_is_installed():
            observers.append(TensorBoardLog(project.run_folder / "tensorboard", from_update=first))

    def observe(report: Report) -> None:
        for observer in observers:
            observer(report)

    if measure_first and run.progress.update == 0 and run.corpus.role("heldout"):
        evaluate(run, observe)
    ended = train(run, project.checkpoints, observe=observe, export=project.export)
    if run.world.leads:
        try:
            draw_curves(project.run_folder / LOG_FILE, project.run_folder / CURVES_FILE)
        except ImportError:
            say("curves: not drawn, as matplotlib is not installed (pip install 'elmo-torch[plots]')")
        say(f"model: {project.folder}")
    return ended


def _print(report: Report, say: Say) -> None:
    values = report.values
    if report.kind == "train":
        kind = "sampled loss" if values["sampled"] else "loss"
        left = _duration(values["seconds_left"]) if values["seconds_left"] is not None else "?"
        say(
            f"{values['share']:6.1%}  epoch {values['epoch']:.2f}  update {report.update:,}  "
            f"{kind} {values['loss']:.3f} "
            f"({values['loss_forward']:.3f} forward, {values['loss_backward']:.3f} backward)  "
            f"norm {values['gradient_norm']:.2f}  rate {values['rate']:.2e}  "
            f"{values['tokens_per_second']:,.0f} tokens/s  {left} left"
        )
    elif report.kind in ("heldout", "final"):
        whole = " (all of it)" if report.kind == "final" else ""
        sources = {name: result for name, result in values.items() if isinstance(result, dict)}
        for name, result in sources.items():
            if len(sources) > 2 or name == "all":
                best = "  (best so far)" if name == "all" and values.get("best") else ""
                say(
                    f"        held-out perplexity{whole} {name}: {result['both']:.2f} "
                    f"(forward {result['forward']:.2f}, backward {result['backward']:.2f}){best}"
                )
    elif report.kind == "checkpoint":
        say(f"        checkpoint {values['path']}")
    elif report.kind == "stopped":
        say(f"stopped after update {report.update:,}; go on with --resume")
    else:
        say(f"{report.kind} after {report.update:,} updates")


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def _quiet(line: str) -> None:
    """Only the leading process speaks."""
