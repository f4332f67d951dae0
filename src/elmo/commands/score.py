"""elmo score: the log-probability of every token, from both sides."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def score(
    inputs: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Files, quoted patterns, or - for stdin.")],
    model: Annotated[
        str | None,
        typer.Option("-m", "--model", help="A path, a bundled name or a Hub name. Default: the bundled one."),
    ] = None,
    tokenizer: Annotated[str | None, typer.Option(help="ptb-like or whitespace. Default: the model's own.")] = None,
    state: Annotated[str, typer.Option(help="What a sentence starts from: reset, warm or carry.")] = "reset",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a sentence.")] = False,
) -> None:
    """Print ln p(token | left) and ln p(token | right) for every token, and the sums of each sentence."""
    from elmo.checkpoints.pretrained import load
    from elmo.pretrain.scoring import Scorer
    from elmo.text.inputs import read_sentences

    opened = load(model)
    scorer = Scorer(opened, state=state, source=model or "the bundled model")
    sentences = read_sentences(inputs, tokenizer=tokenizer or opened.config.tokenizer)
    for result in scorer.score(sentence.tokens for sentence in sentences):
        forward, backward = result.forward.tolist(), result.backward.tolist()
        if as_json:
            line = {"tokens": result.tokens, "forward": forward, "backward": backward}
            typer.echo(json.dumps(line, ensure_ascii=False))
            continue
        for token, left, right in zip(result.tokens, forward, backward, strict=False):
            typer.echo(f"{left:9.4f} {right:9.4f}  {token}")
        typer.echo(f"{forward[-1]:9.4f} {backward[-1]:9.4f}  (end, beginning of the sentence)")
        typer.echo(f"{sum(forward):9.4f} {sum(backward):9.4f}  (sums)\n")
