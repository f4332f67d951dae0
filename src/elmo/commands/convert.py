"""elmo convert: one model format into another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.commands import options
from elmo.errors import ConfigError, InputError

if TYPE_CHECKING:
    from elmo.checkpoints.checkpoint import Checkpoint


_WARM_SENTENCES = 2_000


class Format(StrEnum):
    native = "native"
    hdf5 = "hdf5"


class Storage(StrEnum):
    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"
    int8 = "int8"


@dataclass(frozen=True)
class Target:
    """How the converted model is written."""

    to: Annotated[
        Format | None,
        typer.Option(help="native (our folder) or hdf5 (weights and options for AllenNLP). Default: by DST's suffix."),
    ] = None
    storage: Annotated[Storage, typer.Option(help="The number type of a native model's weights.")] = Storage.float32
    force: options.Force = False


@dataclass(frozen=True)
class Changes:
    """What is changed on the way."""

    words: Annotated[
        Path | None,
        typer.Option(help="A file with one word per line: the model gets a table of these words and no characters."),
    ] = None
    average_with: Annotated[
        list[str] | None,
        typer.Option("--average", help="Another model to average the weights with; may be given several times."),
    ] = None
    warm_text: Annotated[
        str | None, typer.Option(help="Sentences, one per line, whose mean state is saved for --state warm.")
    ] = None

    def apply(self, checkpoint: Checkpoint, source: str) -> Checkpoint:
        from elmo.checkpoints.fixed_words import with_fixed_words

        if self.average_with:
            from elmo.checkpoints.average import average
            from elmo.checkpoints.detect import open_checkpoint
            from elmo.checkpoints.pretrained import locate

            others = {name: open_checkpoint(locate(name)) for name in self.average_with}
            checkpoint = average({source: checkpoint, **others})
        if self.words is not None:
            checkpoint = with_fixed_words(checkpoint, _read_words(self.words), source=source)
        if self.warm_text is not None:
            checkpoint = _with_warm_state(checkpoint, self.warm_text, source=source)
        return checkpoint


@options.option_groups
def convert(
    source: Annotated[str, typer.Argument(metavar="SRC", help="The model: a path, a bundled, published or Hub name.")],
    destination: Annotated[Path, typer.Argument(metavar="DST", help="A new folder, or a file that ends in .hdf5.")],
    target: Target,
    changes: Changes,
) -> None:
    """Convert any ELMo model to our format, or to the hdf5 files of bilm-tf and AllenNLP."""
    is_hdf_name = destination.suffix in (".hdf5", ".h5")
    to = target.to or (Format.hdf5 if is_hdf_name else Format.native)
    if to is Format.native and is_hdf_name:
        raise ConfigError(
            f"A native model is a folder, but {destination} is the name of an hdf5 file. Give another, or --to hdf5."
        )
    if to is Format.hdf5 and target.storage is not Storage.float32:
        raise ConfigError(f"The hdf5 files hold float32 only; --storage {target.storage} needs --to native.")
    if to is Format.hdf5 and changes.warm_text is not None:
        raise ConfigError("The hdf5 files hold no warm state; --warm-text needs --to native.")
    if destination.is_file() and not target.force:  # checked again later; this saves opening the model
        raise ConfigError(f"{destination} exists already. Give another name, or --force to replace it.")

    from elmo.checkpoints.detect import open_and_name
    from elmo.checkpoints.export import write_hdf5, write_native
    from elmo.checkpoints.pretrained import locate

    opened = open_and_name(locate(source))
    checkpoint = changes.apply(opened.checkpoint, source)
    if to is Format.hdf5:
        written = write_hdf5(checkpoint, destination, force=target.force)
    else:
        written = write_native(checkpoint, destination, storage=target.storage, force=target.force, source=source)
    typer.echo(f"{source} ({opened.format}) -> {', '.join(str(path) for path in written)}")
    for note in _left_out(checkpoint, opened.checkpoint, to):
        typer.echo(f"Left out: {note}.")


def _with_warm_state(checkpoint: Checkpoint, text: str, *, source: str) -> Checkpoint:
    from elmo.checkpoints.pretrained import PretrainedBiLM
    from elmo.embedding.carried_state import compute_warm_state
    from elmo.text.inputs import read_sentences

    bilm = PretrainedBiLM.from_checkpoint(checkpoint, source=source)
    read = read_sentences(text, tokenizer=checkpoint.config.tokenizer)
    # The mean no longer moves after a few hundred sentences; the rest of a long file would only take time.
    sentences = list(islice((sentence.tokens for sentence in read if sentence.tokens), _WARM_SENTENCES))
    return replace(checkpoint, warm_state=compute_warm_state(bilm, sentences))


def _read_words(path: Path) -> list[str]:
    from elmo.storage.text_file import read_text
    from elmo.text.vocabulary import SKIPPED_LINE

    text = read_text(path, expected="one word a line", error=InputError)
    words = [line.strip() for line in text.split("\n")]
    words = [word for word in words if word and word != SKIPPED_LINE]
    if not words:
        raise InputError(f"{path} holds no words. Expected one word a line.")
    return words


def _left_out(written: Checkpoint, read: Checkpoint, to: Format) -> list[str]:
    """What the source had and the result does not."""
    notes = []
    if read.softmax is not None and (to is Format.hdf5 or written.softmax is None):
        notes.append(
            "the softmax, which " + ("hdf5 files do not hold" if to is Format.hdf5 else "goes by another vocabulary")
        )
    if read.warm_state is not None and written.warm_state is None:
        notes.append("the warm state, which belongs to the single model; --warm-text makes another")
    elif to is Format.hdf5 and read.warm_state is not None:
        notes.append("the warm state, which hdf5 files do not hold")
    if read.config.characters is not None and written.config.characters is None:
        notes.append("the characters: words that were not listed are unknown to this model")
    return notes
