"""`elmo pretrain`: train a biLM on plain text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmo.errors import ConfigError

if TYPE_CHECKING:
    from elmo.pretrain.loop import Report
    from elmo.pretrain.start import Project


def pretrain(
    settings: Annotated[
        Path | None, typer.Argument(help="Settings in TOML, such as configs/pretrain/small.toml.")
    ] = None,
    train: Annotated[
        list[str] | None, typer.Option(help="Text to learn: files or quoted globs, one sentence a line.")
    ] = None,
    heldout: Annotated[list[str] | None, typer.Option(help="Text to measure perplexity on.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder for the model and its run.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    from_model: Annotated[str | None, typer.Option("--from", help="Start from this model's weights.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Where the text as numbers is kept (default: in the run).")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="A setting, such as training.epochs=3.")] = None,
    threads: Annotated[int, typer.Option(help="CPU threads; 0 leaves the choice to torch.")] = 0,
) -> None:
    """Train a biLM on plain text; stop it any time and go on with --resume."""
    import torch

    from elmo.checkpoints.pretrained import load
    from elmo.config import read as read_settings
    from elmo.pretrain import start
    from elmo.pretrain.settings import PretrainSettings
    from elmo.pretrain.world import World

    # Denormal numbers, which training meets often, are slower than others by a factor of ten and more.
    torch.set_flush_denormal(True)
    if threads:
        torch.set_num_threads(threads)
    world = World.join()
    say = typer.echo if world.leads else _quiet
    if resume is not None:
        if settings or train or heldout or output or from_model:
            raise ConfigError(
                "--resume goes on with a run as it was begun; only --set, --cache and --threads go with it."
            )
        project = start.resume(resume, overrides=overrides or (), cache=cache, world=world, say=say)
    else:
        if output is None:
            raise ConfigError("Say where the model goes: -o FOLDER.")
        chosen = read_settings(PretrainSettings, settings, overrides=[*(overrides or ()), *_sources(train, heldout)])
        initial = load(from_model) if from_model else None
        project = start.begin(chosen, output, cache=cache, initial=initial, world=world, say=say)
    _announce(project, say)
    _train(project, say)
    world.leave()


def _sources(train: list[str] | None, heldout: list[str] | None) -> list[str]:
    """The files of the command line as overrides; they take the place of the settings' sources."""
    import json

    return [
        f'data.{role}=[{{name = "{role}", files = {json.dumps(files)}}}]'
        for role, files in (("train", train), ("heldout", heldout))
        if files
    ]


def _announce(project: Project, say: Any) -> None:
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


def _train(project: Project, say: Any) -> None:
    from elmo.pretrain.logs import CURVES_FILE, LOG_FILE, JsonLog, TensorBoardLog, draw_curves, tensorboard_is_installed
    from elmo.pretrain.loop import train

    run = project.run
    observers: list[Any] = []
    if run.world.leads:
        first = run.progress.update
        observers = [JsonLog(project.run_folder / LOG_FILE, from_update=first), lambda report: _print(report, say)]
        if tensorboard_is_installed():
            observers.append(TensorBoardLog(project.run_folder / "tensorboard", from_update=first))

    def observe(report: Report) -> None:
        for observer in observers:
            observer(report)

    train(run, project.checkpoints, observe=observe, export=project.export)
    if run.world.leads:
        try:
            draw_curves(project.run_folder / LOG_FILE, project.run_folder / CURVES_FILE)
        except ImportError:
            say("curves: not drawn, as matplotlib is not installed (pip install 'elmo-torch[plots]')")
        say(f"model: {project.folder}")


def _print(report: Report, say: Any) -> None:
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
    elif report.kind == "heldout":
        for name, result in values.items():
            if isinstance(result, dict):
                best = "  (best so far)" if name == "all" and values["best"] else ""
                say(
                    f"        held-out perplexity {name}: {result['both']:.2f} "
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
