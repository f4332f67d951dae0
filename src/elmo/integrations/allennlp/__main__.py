"""AllenNLP 0.9's `elmo` command: `python -m elmo.integrations.allennlp elmo IN OUT --all`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from elmo.errors import ElmoError
from elmo.integrations.allennlp.embedder import ElmoEmbedder
from elmo.integrations.allennlp.published import DEFAULT_BATCH_SIZE, DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE


def main(arguments: Sequence[str] | None = None) -> None:
    """Embed a file of space-separated tokens, one sentence on each line, into hdf5."""
    parser = argparse.ArgumentParser(prog="python -m elmo.integrations.allennlp", description=main.__doc__)
    command = parser.add_subparsers(required=True, metavar="elmo").add_parser("elmo", description=main.__doc__)
    command.add_argument("input_file", type=argparse.FileType("r", encoding="utf-8"))
    command.add_argument("output_file")
    layers = command.add_mutually_exclusive_group(required=True)
    for name in ("all", "top", "average"):
        layers.add_argument(f"--{name}", dest="output_format", action="store_const", const=name)
    command.add_argument("--options-file", default=DEFAULT_OPTIONS_FILE)
    command.add_argument("--weight-file", default=DEFAULT_WEIGHT_FILE)
    command.add_argument("--batch-size", type=int, default=DEFAULT_BATCH_SIZE)
    command.add_argument("--cuda-device", type=int, default=-1)
    command.add_argument("--forget-sentences", action="store_true", help="leave out the key sentence_to_index")
    command.add_argument("--use-sentence-keys", action="store_true", help="sentences instead of line numbers as keys")
    command.add_argument("--vocab-path", help="accepted and not used, as in AllenNLP")
    command.add_argument("--file-friendly-logging", action="store_true", help="accepted and not used")
    given = parser.parse_args(arguments)
    try:
        embedder = ElmoEmbedder(given.options_file, given.weight_file, given.cuda_device)
        embedder.embed_file(
            given.input_file, given.output_file, given.output_format, given.batch_size,
            forget_sentences=given.forget_sentences, use_sentence_keys=given.use_sentence_keys,
        )  # fmt: skip
    except ElmoError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
