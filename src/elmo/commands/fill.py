"""elmo fill: the most likely words for a gap."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from elmo.errors import ConfigError, InputError


def fill(
    sentence: Annotated[
        str, typer.Argument(help='A sentence with one gap, such as "She sat on the ___ of the river ."')
    ],
    model: Annotated[
        str | None,
        typer.Option("-m", "--model", help="A path, a bundled name or a Hub name. Default: the bundled one."),
    ] = None,
    gap: Annotated[str, typer.Option(help="What marks the gap.")] = "___",
    count: Annotated[int, typer.Option("-n", "--count", help="How many words.", min=1)] = 10,
    tokenizer: Annotated[str | None, typer.Option(help="ptb-like or whitespace. Default: the model's own.")] = None,
    state: Annotated[str, typer.Option(help="What the sentence starts from: reset or warm.")] = "reset",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Print the words that fit a gap best, judged from both sides."""
    from elmo.checkpoints.pretrained import load
    from elmo.pretrain.scoring import Scorer

    if state not in ("reset", "warm"):
        raise ConfigError(f"--state is {state!r}; expected reset or warm: no sentence comes before this one.")
    parts = sentence.split(gap) if gap else []
    if len(parts) != 2:
        found = max(0, len(parts) - 1)
        raise InputError(f"The sentence has {found} gaps {gap!r}; expected one. Write {gap} where the word is missing.")
    opened = load(model)
    tokens, place = _around(parts[0], parts[1], tokenizer or opened.config.tokenizer)
    scorer = Scorer(opened, state=state, source=model or "the bundled model")
    candidates = scorer.fill(tokens, place, count=count)
    if as_json:
        typer.echo(json.dumps([vars(candidate) for candidate in candidates], ensure_ascii=False))
        return
    typer.echo("    both  forward  backward")
    for candidate in candidates:
        typer.echo(f"{candidate.probability:8.2%} {candidate.forward:8.2%} {candidate.backward:9.2%}  {candidate.word}")


def _around(left: str, right: str, tokenizer: str) -> tuple[list[str], int]:
    """The tokens of the sentence with a word in the gap, and where it stands.

    The sides are split together: "Mr." at the end of a side alone would lose its full stop, and "'s" be a quote.
    """
    from elmo.text.tokenizer import words

    word = "gap"
    while word in left + right:
        word += "p"
    tokens = words(left + word + right, tokenizer)
    if word not in tokens:  # the gap is part of a word
        tokens = words(f"{left} {word} {right}", tokenizer)
    return tokens, tokens.index(word)
