"""elmo export: a model in the forms of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

_MODEL = typer.Argument(metavar="MODEL", help="A path, a bundled name or a Hub name.")
_FORCE = typer.Option("--force", help="Replace an output that exists.")


@app.callback()
def _about() -> None:
    """A model in the forms of other tools. For ELMo's own formats see: elmo convert"""


@app.command("onnx")
def to_onnx(
    model: Annotated[str, _MODEL],
    output: Annotated[Path, typer.Option("-o", "--output", help="The .onnx file to write.")],
    force: Annotated[bool, _FORCE] = False,
) -> None:
    """Write a graph for onnxruntime, any batch and length, checked against the model before it appears."""
    from elmo.integrations.onnx.export import export_onnx

    report = export_onnx(model, output, overwrite=force)
    typer.echo(
        f"{report.path}: {report.num_bytes / 1e6:,.1f} MB; "
        f"onnxruntime's vectors differ from the model's by {report.largest_difference:.1e} at most."
    )


@app.command("word2vec")
def to_word2vec(
    model: Annotated[str, _MODEL],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write; .bin for the binary form.")],
    words: Annotated[
        Path | None, typer.Option(help="Words, one a line. Default: the model's own vocabulary, if it has one.")
    ] = None,
    force: Annotated[bool, _FORCE] = False,
) -> None:
    """Write the context-free word vectors in word2vec's format, which gensim and many others read."""
    from elmo.integrations.gensim import write_word2vec

    vectors = write_word2vec(model, output, words=words, overwrite=force)
    typer.echo(f"{output}: {len(vectors):,} words of {vectors.vector_size} numbers.")
