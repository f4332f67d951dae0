"""elmo export: a model in the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elmo.commands import options

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def _about() -> None:
    """Write a model in the format of another tool; for the formats of ELMo models see elmo convert."""


@app.command("onnx")
def to_onnx(
    output: Annotated[Path, typer.Option("-o", "--output", help="The .onnx file to write.")],
    model: options.Model = None,
    force: options.Force = False,
) -> None:
    """Write a graph for onnxruntime, for any batch size and length, and compare it with the model first."""
    from elmo.integrations.onnx.export import export_onnx

    report = export_onnx(model, output, overwrite=force)
    typer.echo(
        f"{report.path}: {report.num_bytes / 1e6:,.1f} MB; "
        f"onnxruntime's vectors differ from the model's by {report.largest_difference:.1e} at most."
    )


@app.command("word2vec")
def to_word2vec(
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write, binary if it ends in .bin.")],
    model: options.Model = None,
    words: Annotated[
        Path | None, typer.Option(help="A file with one word per line. Default: the model's vocabulary.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Write the context-free word vectors in word2vec's format, which gensim and many others read."""
    from elmo.integrations.gensim import write_word2vec

    vectors = write_word2vec(model, output, words=words, overwrite=force)
    typer.echo(f"{output}: {len(vectors):,} words of {vectors.vector_size} numbers.")
