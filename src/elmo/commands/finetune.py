"""elmo finetune: adapt a biLM to a domain's text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from elmo.commands import options
from elmo.commands.training_run import RunOptions, carry_out, choose_settings, locked_folder, prepare
from elmo.errors import ConfigError
from elmo.settings import to_toml


@options.option_groups
def finetune(
    run: RunOptions,
    compute: options.ComputeOptions,
    settings: Annotated[str | None, typer.Argument(help="A preset (domain) or a TOML file. Default: domain.")] = None,
    model: options.Model = None,
    resume: Annotated[Path | None, typer.Option(help="The folder of a fine-tuning to resume.")] = None,
    hdf5: Annotated[
        Path | None, typer.Option(help="An hdf5 file to write as well, with options, for AllenNLP and others.")
    ] = None,
) -> None:
    """Train a model for one more epoch on a domain's text; prints held-out perplexity before and after.

    Without --heldout, every 20th line of the training text is held out.
    """
    world, say = prepare(compute)
    from elmo.checkpoints.bilm_tf import hdf5 as bilm_tf
    from elmo.checkpoints.pretrained import load
    from elmo.pretrain import finetune

    folder = resume or run.output
    if resume is not None:
        if settings or model or run != RunOptions():
            raise ConfigError(
                "--resume continues a run as it was started; only --hdf5, --device and --threads go with it."
            )
        if hdf5 is not None and world.leads and finetune.has_plan(resume):
            bilm_tf.check_target(load(resume / finetune.START).to_checkpoint(), hdf5)
    else:
        chosen = choose_settings(finetune.FinetuneSettings, settings, run.changes(), run.noting(say), default="domain")
        if run.show:
            typer.echo(to_toml(chosen, explain=True), nl=False)
            return
        if folder is None:
            raise ConfigError("Give the folder of the new model: elmo finetune -m MODEL --train TEXT -o FOLDER.")
        if hdf5 is not None and world.leads:
            bilm_tf.check_target(load(model).to_checkpoint(), hdf5)
    assert folder is not None
    with locked_folder(folder, world, new=resume is None):
        if resume is None:
            finetune.begin(model, folder, chosen, world=world, say=say)
        for title, project in finetune.stages(folder, world=world, say=say):
            say(f"stage: {title}")
            if not carry_out(project, say, measure_first=True):
                world.leave()
                return
    if world.leads:
        _print_change(folder)
        if hdf5 is not None:
            for path in bilm_tf.write(load(folder).to_checkpoint(), hdf5):
                typer.echo(f"wrote {path}")
    world.leave()


def _print_change(folder: Path) -> None:
    """Perplexity before and after, from the log: the first full evaluation and the best one."""
    from elmo.pretrain.logs import LOG_FILE, read_log

    results = [line["all"] for line in read_log(folder / "run" / LOG_FILE) if line["kind"] == "heldout"]
    if not results:
        return
    before, after = results[0], min(results, key=lambda result: result["both"])
    if (folder / "run" / "head").exists():
        typer.echo("before: the initial model with its new softmax, trained alone")
    for name in ("forward", "backward", "both"):
        change = after[name] / before[name] - 1
        typer.echo(
            f"held-out perplexity {name:8}  before {before[name]:10.2f}  after {after[name]:10.2f}  {change:+.1%}"
        )
    figures = {"before": before, "after": after}
    (folder / "run" / "before_after.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
