"""What elmo pretrain and elmo finetune share: settings from the command line, and a run with its reports."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from elmo.commands import options
from elmo.errors import CheckpointError
from elmo.settings import Settings, assignment, describe, preset_files, read_settings
from elmo.storage.atomic import deleting_empty_folders, writing
from elmo.storage.locks import locked

if TYPE_CHECKING:
    from elmo.pretrain.loop import Report
    from elmo.pretrain.start import Project
    from elmo.pretrain.world import World

Say = Callable[[str], None]
S = TypeVar("S", bound=Settings)


def prepare(compute: options.ComputeOptions) -> tuple[World, Say]:
    """Set torch up for training and join the other processes. Must be called before torch is imported."""
    # Waiting threads sleep instead of spinning. Where other programs run, spinning costs most of the speed (measured:
    # 300 to 700 tokens/s against 2,300 to 3,900), and elsewhere it gains little.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    options.prepare_torch(compute.threads)
    from elmo.bilm.device import choose_device
    from elmo.pretrain.world import World

    _keep_memory()
    world = World.join(choose_device(compute.device))
    return world, typer.echo if world.leads else _quiet


def _keep_memory() -> None:
    """Make glibc reuse large blocks in the next update instead of returning them to the operating system.

    New pages for the gradients and buffers of every update cost 4% of the small config's speed.
    """
    libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
    if hasattr(libc, "mallopt"):
        trim_threshold, map_threshold = -1, -3  # as malloc.h numbers them
        libc.mallopt(trim_threshold, 2**31 - 1)
        # Some versions refuse more than 32 MB.
        if not libc.mallopt(map_threshold, 2**30):
            libc.mallopt(map_threshold, 2**25)


@dataclass(frozen=True)
class RunOptions:
    """The settings, the text and the folder of a new run."""

    train: Annotated[
        list[str] | None,
        typer.Option(
            "--train", help="Text to train on: files with one sentence per line, Wikipedia dumps, or quoted patterns."
        ),
    ] = None
    heldout: Annotated[
        list[str] | None, typer.Option("--heldout", help="Text to measure perplexity on, given as for --train.")
    ] = None
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="The text is tokenized already, by the model's tokenizer.")
    ] = False
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The folder of the new model.")] = None
    overrides: options.Overrides = None
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="The seed of all random choices. Default: the settings' seed.")
    ] = None
    show: Annotated[bool, typer.Option("--show", help="Print the settings with their meanings as TOML and stop.")] = (
        False
    )

    def noting(self, say: Say) -> Say:
        """`say`, or with --show a comment in the TOML that is printed."""
        return (lambda text: typer.echo(f"# {text}")) if self.show else say

    def changes(self) -> list[str]:
        """All overrides of the settings; files replace the settings' sources."""
        changes = [*(self.overrides or ()), *(["data.tokenized=true"] if self.tokenized else ())]
        for role, files in (("train", self.train), ("heldout", self.heldout)):
            if files:
                # TOML has no surrogate escapes, which JSON would write for the characters beyond U+FFFF.
                listed = json.dumps(files, ensure_ascii=False)
                changes.append(f'data.{role}=[{{name = "{role}", files = {listed}}}]')
        return changes + ([] if self.seed is None else [assignment("training.seed", self.seed)])


def choose_settings(kind: type[S], source: str | None, changes: Sequence[str], say: Say, *, default: str | S) -> S:
    """The settings of a preset or a file; without one, `default`: a preset's name, or settings."""
    base = None if isinstance(default, str) else default
    if source is None and isinstance(default, str):
        source = default
        others = ", ".join(path.stem for path in preset_files(kind) if path.stem != source)
        say(f"settings: the preset {source}. {describe(kind, source)}" + (f" Others: {others}." if others else ""))
    elif source is None:
        say("settings: the defaults, with the shape of the model")
    return read_settings(kind, source, overrides=changes, base=base)


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
    say(f"plan: {order_tokens:,.0f} tokens per epoch; {length}")


@contextmanager
def locked_folder(folder: Path, world: World, *, new: bool = False) -> Iterator[None]:
    """Lock a folder before its files are read, until the run ends.

    `new`: the folder is made if it is missing, and deleted again if it stays empty.
    """
    if not world.leads or not (new or (folder / "run").is_dir()):
        yield
        return
    with only_process(folder, lock=folder / "run"):
        yield


@contextmanager
def only_process(folder: Path, *, lock: Path) -> Iterator[None]:
    """Refuse a folder that another process trains in: `lock` is the path that is locked.

    The parent of `lock` is made if it is missing, and deleted again if it stays empty.
    """
    with deleting_empty_folders(lock.parent):
        with writing(folder):
            lock.parent.mkdir(parents=True, exist_ok=True)
        with locked(lock, wait=False) as acquired:
            if not acquired:
                raise CheckpointError(
                    f"Another process is training in {folder}. Wait for it, or stop it (Ctrl-C) and try again."
                )
            yield


def carry_out(project: Project, say: Say, *, measure_first: bool = False) -> bool:
    """Train, with reports to the terminal and to files; returns whether the run finished."""
    from elmo.pretrain.logs import CURVES_FILE, LOG_FILE, JsonLog, TensorBoardLog, draw_curves
    from elmo.pretrain.loop import evaluate, train

    _announce(project, say)
    run = project.run
    logs: list[Callable[[Report], None]] = []
    if run.world.leads:
        first = run.progress.update
        logs = [JsonLog(project.run_folder / LOG_FILE, from_update=first)]
        if find_spec("tensorboard") is not None:
            logs.append(TensorBoardLog(project.run_folder / "tensorboard", from_update=first))

    def observe(report: Report) -> None:
        _print(report, say)
        for log in logs if report.kind != "measuring" else ():
            log(report)

    if measure_first and run.progress.update == 0 and run.corpus.role("heldout"):
        evaluate(run, observe)
    ended = train(run, project.checkpoints, observe=observe, export=project.export)
    if run.world.leads:
        try:
            draw_curves(project.run_folder / LOG_FILE, project.run_folder / CURVES_FILE)
        except ImportError:
            say("curves: not drawn, because matplotlib is not installed (pip install 'elmo-torch[plots]')")
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
    elif report.kind == "measuring":
        say(f"        held-out perplexity of {values['source']}: {values['share']:.0%} done")
    elif report.kind == "checkpoint":
        say(f"        checkpoint {values['path']}")
    elif report.kind == "stopped":
        say(f"stopped after update {report.update:,}; continue with --resume")
    else:
        say(f"{report.kind} after {report.update:,} updates")


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def _quiet(line: str) -> None:
    """Only the leading process prints."""
