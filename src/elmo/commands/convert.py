"""elmo convert: one model format into another."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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


def convert(
    source: Annotated[str, typer.Argument(metavar="SRC", help="A model: folder, file, zip, bundled name or Hub name.")],
    target: Annotated[Path, typer.Argument(metavar="DST", help="A folder to make, or a file that ends in .hdf5.")],
    to: Annotated[
        Format | None,
        typer.Option(
            help="native: our folder; hdf5: options.json and weights for bilm-tf and AllenNLP. Default: by DST."
        ),
    ] = None,
    storage: Annotated[Storage, typer.Option(help="How a native model's weights are stored.")] = Storage.float32,
    softmax_storage: Annotated[Storage | None, typer.Option(help="The same for its softmax, if otherwise.")] = None,
    words: Annotated[
        Path | None,
        typer.Option(help="Make a model of these words only, one a line: its token encoder becomes a table."),
    ] = None,
    average_with: Annotated[
        list[str] | None,
        typer.Option("--average", help="Another model of the same training: the weights become the mean. Repeat it."),
    ] = None,
    warm_text: Annotated[
        str | None,
        typer.Option(help="Sentences, one a line, whose mean state is kept with a native model for --state warm."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what stands at DST.")] = False,
) -> None:
    """Turn any ELMo model into our format, or into the hdf5 files of bilm-tf and AllenNLP."""
    is_hdf_name = target.suffix in (".hdf5", ".h5")
    to = to or (Format.hdf5 if is_hdf_name else Format.native)
    if to is Format.native and is_hdf_name:
        raise ConfigError(
            f"A native model is a folder, but {target} is the name of an hdf5 file. Give another, or --to hdf5."
        )
    if to is Format.hdf5 and storage is not Storage.float32:
        raise ConfigError(f"The hdf5 files hold float32 only; --storage {storage} needs --to native.")
    if to is Format.hdf5 and softmax_storage is not None:
        raise ConfigError("The hdf5 files hold no softmax; --softmax-storage needs --to native.")
    if to is Format.hdf5 and warm_text is not None:
        raise ConfigError("The hdf5 files hold no warm state; --warm-text needs --to native.")
    if target.is_file() and not force:  # The rest is checked when the files are known; this saves opening the model.
        raise ConfigError(f"{target} exists already. Give another name, or --force to replace it.")

    from elmo.checkpoints.detect import open_and_name
    from elmo.checkpoints.export import write_hdf5, write_native
    from elmo.checkpoints.fixed_words import with_fixed_words
    from elmo.checkpoints.pretrained import locate

    opened = open_and_name(locate(source))
    checkpoint = opened.checkpoint
    if average_with:
        from elmo.checkpoints.average import average

        others = {name: open_and_name(locate(name)).checkpoint for name in average_with}
        checkpoint = average({source: checkpoint, **others})
    if words is not None:
        checkpoint = with_fixed_words(checkpoint, _read_words(words), source=source)
    if warm_text is not None:
        checkpoint = _with_warm_state(checkpoint, warm_text, source=source)
    if to is Format.hdf5:
        written = write_hdf5(checkpoint, target, force=force)
    else:
        written = write_native(
            checkpoint, target, storage=storage, softmax_storage=softmax_storage, force=force, source=source
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
    # The mean no longer moves after a few hundred sentences; the rest of a long file would only take time.
    sentences = list(islice((sentence.tokens for sentence in read if sentence.tokens), _WARM_SENTENCES))
    return replace(checkpoint, warm_state=compute_warm_state(bilm, sentences))


def _read_words(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}). Expected one word a line.") from error
    except OSError as error:
        raise InputError(f"Cannot read {path} ({error.strerror}). Expected a file with one word a line.") from error
    words = [line.strip() for line in text.split("\n")]
    words = [word for word in words if word]
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
