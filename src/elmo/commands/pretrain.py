"""`elmo pretrain`: train a biLM on plain text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elmo.errors import ConfigError


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
    grow: Annotated[
        bool, typer.Option("--grow", help="Make the model of --from as large as the settings say; it begins as it was.")
    ] = False,
    cache: Annotated[Path | None, typer.Option(help="Where the text as numbers is kept (default: in the run).")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="A setting, such as training.epochs=3.")] = None,
    threads: Annotated[int, typer.Option(help="CPU threads; 0 leaves the choice to torch.", min=0)] = 0,
) -> None:
    """Train a biLM on plain text; stop it any time and go on with --resume."""
    from elmo.commands import training_run

    world, say = training_run.prepare(threads)
    from elmo.config import read as read_settings
    from elmo.pretrain import start
    from elmo.pretrain.settings import PretrainSettings

    if resume is not None:
        if settings or train or heldout or output or from_model or grow:
            raise ConfigError(
                "--resume goes on with a run as it was begun; only --set, --cache and --threads go with it."
            )
        with training_run.alone_in(resume, world):
            project = start.resume(resume, overrides=overrides or (), cache=cache, world=world, say=say)
            training_run.carry_out(project, say)
    else:
        if output is None:
            raise ConfigError("Say where the model goes: -o FOLDER.")
        if grow and from_model is None:
            raise ConfigError("--grow needs a model that can grow: give it with --from.")
        shape = [change for change in overrides or () if change.startswith("model.")]
        if shape and from_model is not None and not grow:
            raise ConfigError(
                f"--set {shape[0]} does nothing with --from: the model has its shape. --grow makes it larger."
            )
        changes = [*(overrides or ()), *training_run.source_overrides(train, heldout)]
        chosen = read_settings(PretrainSettings, settings, overrides=changes)
        project = start.begin(chosen, output, cache=cache, initial=from_model, grown=grow, world=world, say=say)
        with training_run.alone_in(output, world):
            training_run.carry_out(project, say)
    world.leave()
