"""elmo finetune: adapt a biLM to a domain's text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.errors import ConfigError

if TYPE_CHECKING:
    from elmo.pretrain.finetune import FinetuneSettings


def finetune(
    model: Annotated[
        str | None, typer.Argument(help="The model: a path (hdf5 too), a bundled name or a Hub name.")
    ] = None,
    train: Annotated[list[str] | None, typer.Option(help="The domain's text: files or quoted globs.")] = None,
    heldout: Annotated[
        list[str] | None, typer.Option(help="Text to measure on. Default: every 20th line of the training text.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder for the adapted model.")] = None,
    settings: Annotated[
        Path | None, typer.Option("--config", help="Settings in TOML, such as configs/finetune/domain.toml.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the fine-tuning in this folder.")] = None,
    hdf5: Annotated[Path | None, typer.Option(help="Also write weights and options for AllenNLP and others.")] = None,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="A setting, such as training.epochs=2.")] = None,
    threads: Annotated[int, typer.Option(help="CPU threads; 0 leaves the choice to torch.", min=0)] = 0,
) -> None:
    """Train a model on for one epoch on a domain's text; prints held-out perplexity before and after."""
    from elmo.commands import training_run

    world, say = training_run.prepare(threads)
    from elmo.pretrain import finetune

    folder = resume or output
    if resume is not None:
        if model or train or heldout or output or settings or overrides:
            raise ConfigError("--resume goes on with a run as it was begun; only --hdf5 and --threads go with it.")
        if hdf5 is not None and world.leads and finetune.has_plan(resume):
            _require_writable(hdf5, resume / finetune.START)
    elif model is None or output is None:
        raise ConfigError("Say which model, and where the result goes: elmo finetune MODEL --train TEXT -o FOLDER.")
    else:
        if hdf5 is not None and world.leads:
            _require_writable(hdf5, model)
        finetune.begin(model, output, _read_settings(settings, overrides, train, heldout), world=world, say=say)
    assert folder is not None
    with training_run.alone_in(folder, world):
        for title, project in finetune.stages(folder, world=world, say=say):
            say(f"stage: {title}")
            if not training_run.carry_out(project, say, measure_first=True):
                return
    if world.leads:
        _tell_change(folder)
        if hdf5 is not None:
            _write_hdf5(folder, hdf5)
    world.leave()


def _read_settings(
    path: Path | None, overrides: list[str] | None, train: list[str] | None, heldout: list[str] | None
) -> FinetuneSettings:
    from elmo.commands.training_run import source_overrides
    from elmo.config import read
    from elmo.pretrain.finetune import FinetuneSettings

    changes = [*(overrides or ()), *source_overrides(train, heldout)]
    settings = read(FinetuneSettings, path, overrides=changes, base=FinetuneSettings())
    if not settings.data.train:
        raise ConfigError("There is no text to train on. Give files with --train.")
    return settings


def _tell_change(folder: Path) -> None:
    """Perplexity before and after, from the log: the first full evaluation and the best one."""
    from elmo.pretrain.logs import LOG_FILE, read_log

    results = [line["all"] for line in read_log(folder / "run" / LOG_FILE) if line["kind"] == "heldout"]
    if not results:
        return
    before, after = results[0], min(results, key=lambda result: result["both"])
    if (folder / "run" / "head").exists():
        typer.echo("before: the model as it was, with the new softmax that was trained for it")
    for name in ("forward", "backward", "both"):
        change = after[name] / before[name] - 1
        typer.echo(
            f"held-out perplexity {name:8}  before {before[name]:10.2f}  after {after[name]:10.2f}  {change:+.1%}"
        )
    figures = {"before": before, "after": after}
    (folder / "run" / "before_after.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _require_writable(target: Path, model: str | Path) -> None:
    """Refuse now what would be refused after an hour of training."""
    from elmo.checkpoints.export import hdf5_files
    from elmo.checkpoints.pretrained import load

    for path in hdf5_files(load(model).to_checkpoint(), target):
        if path.exists():
            raise ConfigError(f"--hdf5 would replace {path}, which exists already. Give another name.")


def _write_hdf5(folder: Path, target: Path) -> None:
    from elmo.checkpoints import native
    from elmo.checkpoints.export import write_hdf5

    for path in write_hdf5(native.read(folder), target):
        typer.echo(f"wrote {path}")
