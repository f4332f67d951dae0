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
from elmo.storage.atomic import check_writable

if TYPE_CHECKING:
    from elmo.checkpoints.checkpoint import Checkpoint


_WARM_SENTENCES = 2_000


class Format(StrEnum):
    native = "native"
    hdf5 = "hdf5"


@dataclass(frozen=True)
class Target:
    """The format of the converted model."""

    to: Annotated[
        Format | None,
        typer.Option(help="native (our folder) or hdf5 (weights and options for AllenNLP). Default: by DST's suffix."),
    ] = None
    storage: Annotated[
        str, typer.Option(help="The number type of a native model's weights: float32, float16, bfloat16 or int8.")
    ] = "float32"
    force: options.Force = False


@dataclass(frozen=True)
class Changes:
    """Changes of the model."""

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
        from elmo.checkpoints.detect import open_checkpoint
        from elmo.checkpoints.pretrained import locate
        from elmo.checkpoints.variants import average, with_fixed_words

        if self.average_with:
            options.check_different("--average", [source, *self.average_with])
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
            f"A native model is a folder, but {destination} has the suffix of an hdf5 file. Give another name, or "
            "--to hdf5."
        )
    if to is Format.hdf5 and (target.storage != "float32" or changes.warm_text is not None):
        raise ConfigError("hdf5 files hold float32 and no warm state; --storage and --warm-text need --to native.")
    if destination.is_file():  # checked again later; this saves opening the model
        check_writable(destination, replace=target.force)
    from elmo.checkpoints import native
    from elmo.checkpoints.bilm_tf import hdf5
    from elmo.checkpoints.checkpoint import empty_bilm, fill
    from elmo.checkpoints.detect import open_and_name
    from elmo.checkpoints.pretrained import locate

    location = locate(source)
    opened = open_and_name(location)
    fill(empty_bilm(opened.checkpoint.config), opened.checkpoint.tensors, source=source)
    checkpoint = changes.apply(opened.checkpoint, source)
    written = [destination]
    if to is Format.hdf5:
        written = hdf5.write(checkpoint, destination, replace=target.force)
    else:
        card = location / native.CARD_FILE
        native.write_folder(
            checkpoint,
            destination,
            storage=target.storage,
            replace=target.force,
            card=card if card.is_file() else None,
        )
    typer.echo(f"{source} ({opened.format}) -> {', '.join(str(path) for path in written)}")
    for note in _left_out(checkpoint, opened.checkpoint, to):
        typer.echo(f"Left out: {note}.")


def _with_warm_state(checkpoint: Checkpoint, text: str, *, source: str) -> Checkpoint:
    from elmo.checkpoints.pretrained import PretrainedBiLM
    from elmo.embedding.carried_state import compute_warm_state
    from elmo.text.inputs import read_sentences

    bilm = PretrainedBiLM.from_checkpoint(checkpoint, source=source)
    read = read_sentences(text, tokenizer=checkpoint.config.tokenizer)
    # The mean hardly changes after a few hundred sentences.
    sentences = list(islice((sentence.tokens for sentence in read if sentence.tokens), _WARM_SENTENCES))
    return replace(checkpoint, warm_state=compute_warm_state(bilm, sentences))


def _read_words(path: Path) -> list[str]:
    from elmo.storage.text_file import read_text
    from elmo.text.vocabulary import SKIPPED_LINE

    text = read_text(path, expected="one word per line", error=InputError)
    words = [line.strip() for line in text.split("\n")]
    words = [word for word in words if word and word != SKIPPED_LINE]
    if not words:
        raise InputError(f"{path} holds no words. Expected one word per line.")
    return words


def _left_out(written: Checkpoint, read: Checkpoint, to: Format) -> list[str]:
    """What the source has and the result does not."""
    notes = []
    if read.softmax is not None and (to is Format.hdf5 or written.softmax is None):
        notes.append(
            "the softmax, which " + ("hdf5 files do not hold" if to is Format.hdf5 else "has another vocabulary")
        )
    if read.warm_state is not None and to is Format.hdf5:
        notes.append("the warm state, which hdf5 files do not hold")
    elif read.warm_state is not None and written.warm_state is None:
        notes.append("the warm state, which is valid for one model only; --warm-text computes a new one")
    if read.config.characters is not None and written.config.characters is None:
        notes.append("the characters: words that are not listed are unknown to this model")
    return notes
