"""elmo fill: the most likely words for a gap."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from elmo.commands import options
from elmo.errors import ConfigError, InputError

_GAP = "___"


@options.option_groups
def fill(
    sentence: Annotated[str, typer.Argument(help="A sentence with one gap, such as: She sat on the ___ of the river.")],
    model: options.ModelOptions,
    count: options.Count = 10,
    tokenizer: options.Tokenizer = None,
    state: Annotated[str, typer.Option(help="The state that the sentence starts from: reset or warm.")] = "reset",
    as_json: options.Json = False,
) -> None:
    """Print the most likely words for a gap.

    The column `both`, by which they are sorted, is the product of the forward and the backward probability, normalized
    over the vocabulary.
    """
    if state not in ("reset", "warm"):
        raise ConfigError(f"--state is {state!r}; expected reset or warm: no sentence comes before this one.")
    parts = sentence.split(_GAP)
    if len(parts) != 2:
        raise InputError(f"The sentence has {len(parts) - 1} gaps {_GAP!r}; expected one. Write {_GAP} for the word.")
    scorer = model.scorer(state)
    tokens, place = _around(parts[0], parts[1], tokenizer or scorer.model.config.tokenizer)
    candidates = scorer.fill(tokens, place, count=count).both
    if as_json:
        typer.echo(json.dumps([vars(candidate) for candidate in candidates], ensure_ascii=False))
        return
    typer.echo("    both  forward  backward")
    for candidate in candidates:
        typer.echo(f"{candidate.probability:8.2%} {candidate.forward:8.2%} {candidate.backward:9.2%}  {candidate.word}")


def _around(left: str, right: str, tokenizer: str) -> tuple[list[str], int]:
    """The tokens of the sentence with a word in the gap, and its position.

    Both sides are tokenized together: "Mr." at the end of a separate side would lose its full stop, and "'s" would be a
    quote.
    """
    from elmo.text.tokenizer import words

    word = "gap"
    while word in left + right:
        word += "p"
    tokens = words(left + word + right, tokenizer)
    if word not in tokens:  # the gap is part of a word
        tokens = words(f"{left} {word} {right}", tokenizer)
    if word not in tokens:  # a tokenizer of single characters
        before = words(left, tokenizer)
        return [*before, word, *words(right, tokenizer)], len(before)
    return tokens, tokens.index(word)
