"""ELMoForManyLangs' command: `python -m elmo.integrations.many_langs test --input FILE --model DIR ...`.

It writes PREFIX.lyLAYER.hdf5 and PREFIX.lyLAYER.txt. In the hdf5 files, the key of a sentence is its tokens joined by
tabs, with `$period$` for `.` and `$backslash$` for `/`; a sentence that occurs again is left out. In the text files,
each line has a token and its numbers, separated by tabs, and an empty line ends a sentence.

What differs: sentences are in the order of the input, every output format gets every layer, and the state is reset
between sentences, so `--batch_size` does not change the numbers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np

from elmo.bilm.device import choose_device
from elmo.errors import ConfigError, ElmoError
from elmo.integrations.many_langs import Embedder, choose, logger
from elmo.storage.atomic import atomic_file
from elmo.storage.hdf5_file import checked_hdf5
from elmo.text.inputs.files import ReadProgress, find_sources, read_lines
from elmo.text.inputs.reader import read_sentences

_INPUT_FORMATS = ("plain", "conll", "conll_char", "conll_char_vi")
_SENTENCES_AT_ONCE = 1024


def read_tokens(path: str, input_format: str) -> Iterator[list[str]]:
    """The sentences of a file: tab-separated tokens, which may hold blanks, or CoNLL-U and what is cut from it."""
    if input_format == "plain":
        for source in find_sources(path):
            yield from (line.split("\t") for _, line in read_lines(source, ReadProgress()) if line)
        return
    for sentence in read_sentences(path, format="conllu"):
        if input_format == "conll_char":
            yield [character for token in sentence.tokens for character in token]
        elif input_format == "conll_char_vi":
            yield [syllable for token in sentence.tokens for syllable in token.split()]
        else:
            yield sentence.tokens


def embed_file(embedder: Embedder, sentences: Iterator[list[str]], outputs: dict[tuple[str, int], Any]) -> int:
    """Write every sentence to every output; returns how many there were."""
    seen: set[str] = set()
    count = 0
    while some := [tokens for _, tokens in zip(range(_SENTENCES_AT_ONCE), sentences, strict=False)]:
        for tokens, layers in zip(some, embedder.sents2elmo(some, output_layer=-2), strict=True):
            key = "\t".join(tokens).replace(".", "$period$").replace("/", "$backslash$")
            if key in seen:
                continue
            seen.add(key)
            count += 1
            for (kind, layer), output in outputs.items():
                vectors = choose(layers, layer)
                if kind == "hdf5":
                    output.create_dataset(key, data=vectors, dtype="float32")
                else:
                    _write_text(output, tokens, vectors)
    return count


def _write_text(output: IO[str], tokens: list[str], vectors: np.ndarray) -> None:
    for token, vector in zip(tokens, vectors, strict=True):
        output.write("\t".join([token, *(f"{value:.8f}" for value in vector)]) + "\n")
    output.write("\n")


def _open(files: ExitStack, prefix: str, kind: str, layer: int) -> Any:
    partial = files.enter_context(atomic_file(Path(f"{prefix}.ly{layer}.{kind}")))
    opened = checked_hdf5(partial) if kind == "hdf5" else partial.open("w", encoding="utf-8")
    return files.enter_context(opened)


def _listed(given: str, known: Sequence[str], option: str) -> list[str]:
    values = given.split(",")
    unknown = [value for value in values if value not in known]
    if unknown:
        raise ConfigError(f"{option} is {given!r}; expected some of {', '.join(known)}, separated by commas.")
    return list(dict.fromkeys(values))  # two writers of one file would replace each other's


def main(arguments: Sequence[str] | None = None) -> None:
    """Embed a file with a model, into hdf5 or text."""
    parser = argparse.ArgumentParser(prog="python -m elmo.integrations.many_langs", description=main.__doc__)
    command = parser.add_subparsers(required=True, metavar="test").add_parser("test", description=main.__doc__)
    command.add_argument("--input", required=True, help="the file to embed")
    command.add_argument(
        "--input_format", default="plain", choices=_INPUT_FORMATS, help="default: plain, separated by tabs"
    )
    command.add_argument("--model", required=True, help="the model's folder, or anything that elmo.load opens")
    command.add_argument("--output_prefix", required=True, help="what the names of the written files begin with")
    command.add_argument("--output_format", default="hdf5", help="hdf5, txt, or both with a comma (default: hdf5)")
    command.add_argument(
        "--output_layer", default="-1", help="0, 1, 2, -1 for their mean, -2 for all; separated by commas"
    )
    command.add_argument("--batch_size", "--batch", type=int, default=1, help="accepted; does not change the numbers")
    command.add_argument("--gpu", type=int, default=-1, help="the number of a GPU (default: -1, the CPU)")
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--output_layer" in words[:-1]:  # argparse takes -1,0 for an option unless it is joined to its own
        place = words.index("--output_layer")
        words[place : place + 2] = [f"--output_layer={words[place + 1]}"]
    given = parser.parse_args(words)
    try:
        kinds = _listed(given.output_format, ("hdf5", "txt"), "--output_format")
        embedder = Embedder(given.model)
        if given.gpu >= 0:
            embedder.model.to(choose_device(f"cuda:{given.gpu}"))
        # Text has one row for a token, so there is no way to write all layers.
        known = ["-1", *(() if "txt" in kinds else ("-2",)), *map(str, range(embedder.model.config.num_layers))]
        layers = [int(layer) for layer in _listed(given.output_layer, known, "--output_layer")]
        with ExitStack() as files:
            outputs = {(kind, n): _open(files, given.output_prefix, kind, n) for kind in kinds for n in layers}
            count = embed_file(embedder, read_tokens(given.input, given.input_format), outputs)
        logger.info("Finished %d sentences.", count)
    except ElmoError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
