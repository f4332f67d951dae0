"""`elmo pretrain`: train a biLM on text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from elmo.commands import options
from elmo.commands.training_run import RunOptions, carry_out, choose_settings, locked_folder, prepare
from elmo.errors import ConfigError
from elmo.settings import assignment, split_override, to_toml
from elmo.text.tokenizer import TOKENIZERS


@dataclass(frozen=True)
class StartOptions:
    """What a new run starts from."""

    model: Annotated[
        str | None,
        typer.Option("-m", "--model", help="The model to start from. Default: random weights."),
    ] = None
    grow: Annotated[
        bool, typer.Option("--grow", help="Enlarge that model to the sizes of the settings; its outputs stay the same.")
    ] = False
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help=f"The tokenizer of the text, which the model records: {', '.join(TOKENIZERS)}. Default: ptb-like."
        ),
    ] = None


@options.option_groups
def pretrain(
    run: RunOptions,
    compute: options.ComputeOptions,
    origin: StartOptions,
    settings: Annotated[
        str | None,
        typer.Argument(help="A preset (tiny, small, medium, paper, paper-small) or a TOML file. Default: small."),
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="The folder of a run to resume.")] = None,
    cache: Annotated[Path | None, typer.Option(help="The folder of the text as ids. Default: inside the run.")] = None,
) -> None:
    """Train a biLM on text. It can be stopped any time and resumed with --resume."""
    world, say = prepare(compute)
    from elmo.checkpoints.pretrained import load
    from elmo.pretrain import start
    from elmo.pretrain.settings import OriginSettings, PretrainSettings

    if origin.tokenizer is not None:
        run = replace(run, overrides=[*(run.overrides or ()), assignment("model.tokenizer", origin.tokenizer)])
    changes = run.changes() + ([] if cache is None else [assignment("origin.cache", str(cache))])
    if resume is not None:
        if settings or origin != StartOptions() or replace(run, overrides=None, seed=None) != RunOptions():
            raise ConfigError(
                "--resume continues a run as it was started; only --set, --seed, --cache, --device and --threads go "
                "with it."
            )
        with locked_folder(resume, world):
            carry_out(start.resume(resume, overrides=changes, world=world, say=say), say)
        world.leave()
        return
    if origin.grow and origin.model is None:
        raise ConfigError("--grow needs a model to enlarge: give it with -m.")
    fixed = [each for each in run.overrides or () if _is_fixed(each, grow=origin.grow)]
    if fixed and origin.model is not None:
        raise ConfigError(
            f"{fixed[0]} has no effect with -m: the model keeps its shape and its tokenizer. --grow enlarges its lstm "
            "and its char_cnn."
        )
    default: str | PretrainSettings = "small"
    if origin.model is not None:
        default = PretrainSettings(origin=OriginSettings(model=origin.model, grow=origin.grow))
        if origin.grow:  # what the settings leave out stays as it is in the model
            default = replace(default, model=load(origin.model).config)
    chosen = choose_settings(PretrainSettings, settings, changes, run.noting(say), default=default)
    if run.show:
        typer.echo(to_toml(chosen, explain=True), nl=False)
        return
    if run.output is None:
        raise ConfigError("Give the folder of the new model: -o FOLDER.")
    with locked_folder(run.output, world, new=True):
        carry_out(start.begin(chosen, run.output, world=world, say=say), say)
    world.leave()


def _is_fixed(override: str, *, grow: bool) -> bool:
    """Whether an override sets what the model of -m keeps."""
    table, *names = split_override(override)[0].split(".")
    may_grow = not names or names[0] in ("lstm", "char_cnn")
    return table == "model" and not (grow and may_grow)
