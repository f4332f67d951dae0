"""elmo probe: what is in the layers (paper, section 5.3; tables 5 and 6)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmo.commands.measured import (
    Measured,
    MeasuredTable,
    Stopwatch,
    counting,
    deliver,
    messages,
    model_facts,
    open_embedder,
)
from elmo.errors import InputError

if TYPE_CHECKING:
    from elmo.analysis.pos_probe import LabelledSplits, TokenProbe
    from elmo.analysis.sense_probe import SenseRow
    from elmo.analysis.word_in_context import WordRow
    from elmo.embedding.embedder import Embedder

app = typer.Typer(help="Probe the layers of a model.", no_args_is_help=True, add_completion=False)

ModelOption = Annotated[str | None, typer.Option("--model", "-m", help="A folder, file, bundled name or Hub name.")]
StateOption = Annotated[str, typer.Option(help="How sentences start: reset, warm or carry.")]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")]
FolderOption = Annotated[Path | None, typer.Option("--output", "-o", help="Write Markdown and JSON to this folder.")]


@app.command()
def pos(
    data: Annotated[list[Path], typer.Argument(help="A folder with train, dev and test files, or the three files.")],
    model: ModelOption = None,
    tags: Annotated[str, typer.Option(help="The tags of CoNLL-U to predict: upos, xpos or both.")] = "both",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training set, at most.")] = 12,
    seed: Annotated[int, typer.Option(min=0, help="Shuffles the training tokens.")] = 0,
    state: StateOption = "reset",
    json_file: JsonOption = None,
    output: FolderOption = None,
) -> None:
    """Part of speech, or any token label, by a linear classifier on each layer (table 6)."""
    from elmo.analysis.corpus_files import labelled_corpora

    if tags not in ("upos", "xpos", "both"):
        raise InputError(f"Unknown tags {tags!r}; expected upos, xpos or both.")
    corpora = labelled_corpora(data, tags)
    embedder = open_embedder(model, state)
    watch = Stopwatch()
    measured = measure_pos(embedder, corpora, epochs=epochs, seed=seed)
    measured.data.update(**model_facts(embedder, model))
    deliver(
        "pos_probe",
        "Token labels by a linear classifier on each layer",
        measured,
        json_file=json_file,
        folder=output,
        seed=seed,
        seconds=watch.seconds,
    )


@app.command()
def senses(
    data: Annotated[Path, typer.Argument(help="A folder with semcor.data.xml and the evaluation sets (or a .tar).")],
    wordnet: Annotated[
        Path | None, typer.Option(help="WordNet 3.0's dict folder, or packed as .tar; else looked for in /usr/share.")
    ] = None,
    model: ModelOption = None,
    punctuation: Annotated[
        str, typer.Option(help="In the evaluation sets: keep, drop, or auto: as in SemCor, so that both are alike.")
    ] = "auto",
    baselines: Annotated[bool, typer.Option("--baselines", help="Only the two baselines, without a model.")] = False,
    state: StateOption = "reset",
    json_file: JsonOption = None,
    output: FolderOption = None,
) -> None:
    """Word senses by nearest neighbour: SemCor's senses, Raganato's sets (table 5)."""
    if punctuation not in ("auto", "keep", "drop"):
        raise InputError(f"Unknown --punctuation {punctuation!r}; expected auto, keep or drop.")
    watch = Stopwatch()
    embedder = None if baselines else open_embedder(model, state)
    measured = measure_senses(embedder, data, wordnet=wordnet, punctuation=punctuation)
    if embedder is not None:
        measured.data.update(**model_facts(embedder, model))
    deliver(
        "sense_probe",
        "Word senses by nearest neighbour",
        measured,
        json_file=json_file,
        folder=output,
        seconds=watch.seconds,
    )


@app.command()
def context(
    examples: Annotated[
        Path | None, typer.Argument(help="Lines of word, sense and sentence, tabs between; else the ones included.")
    ] = None,
    model: ModelOption = None,
    state: StateOption = "reset",
    json_file: JsonOption = None,
    output: FolderOption = None,
) -> None:
    """Are occurrences of one sense closer than those of different senses? A quick look at a model."""
    embedder = open_embedder(model, state)
    watch = Stopwatch()
    measured = measure_context(embedder, examples)
    measured.data.update(**model_facts(embedder, model))
    deliver(
        "word_in_context",
        "The same word in different senses",
        measured,
        json_file=json_file,
        folder=output,
        seconds=watch.seconds,
    )


def measure_pos(embedder: Embedder, corpora: dict[str, LabelledSplits], *, epochs: int = 12, seed: int = 0) -> Measured:
    """Table 6."""
    from elmo.analysis.pos_probe import ProbeSettings, probe_tokens

    settings = ProbeSettings(max_epochs=epochs, seed=seed)
    with messages.status("encoding") as status:
        results = probe_tokens(embedder, corpora, settings=settings, progress=status.update)
    return Measured(
        tables=[_pos_table(kind, result) for kind, result in results.items()],
        data={
            "settings": asdict(settings),
            **{kind: asdict(result) for kind, result in results.items()},
            **{f"{kind}_best": max(row.test for row in result.rows) for kind, result in results.items()},
        },
    )


def measure_senses(
    embedder: Embedder | None, data: Path, *, wordnet: Path | None = None, punctuation: str = "auto"
) -> Measured:
    """Table 5; without an embedder its two baselines alone."""
    from elmo.analysis.corpus_files import sense_sets
    from elmo.analysis.files import opened_folder
    from elmo.analysis.sense_data import made_alike
    from elmo.analysis.sense_probe import probe_baselines, probe_senses
    from elmo.analysis.wordnet import WordNet

    with ExitStack() as stack:
        folder = None if wordnet is None else stack.enter_context(opened_folder(wordnet))
        database = WordNet.read(folder)
        train, evaluation = sense_sets(data, stack)
        train, *evaluation = made_alike(train, evaluation, None if punctuation == "auto" else punctuation == "keep")
        keep = evaluation[0].punctuation
        facts: dict[str, object] = {}
        if embedder is None:
            rows = probe_baselines(train, evaluation=evaluation, wordnet=database)
        else:
            with counting(embedder) as encoder:
                result = probe_senses(encoder, train, evaluation=evaluation, wordnet=database)
            rows = result.rows
            facts = {
                "evaluation_punctuation": keep,
                "targets": result.num_targets,
                "unseen_lemmas": result.num_unseen,
                "senses_with_centroid": result.num_senses,
                "train_occurrences": result.num_train_targets,
                **_best_rows(rows[2:]),
            }
    return Measured(
        tables=[_sense_table(rows, punctuation=keep)],
        data={**facts, "f1": {row.name: row.figures() for row in rows}},
    )


def measure_context(embedder: Embedder, examples: Path | None = None) -> Measured:
    """Senses within and across; without a file, of the words included."""
    from elmo.analysis.word_in_context import EXAMPLES, compare_senses, read_occurrences

    rows = compare_senses(embedder, read_occurrences(EXAMPLES if examples is None else examples))
    return Measured(
        tables=[_context_table(rows)],
        data={"words": {row.word: {layer: asdict(each) for layer, each in row.layers.items()} for row in rows}},
    )


def _pos_table(kind: str, result: TokenProbe) -> MeasuredTable:
    rows = [["most frequent tag of the word", f"{result.baseline_dev:.2f}", f"{result.baseline_test:.2f}", "", ""]]
    rows += [[row.name, f"{row.dev:.2f}", f"{row.test:.2f}", f"{row.l2:g}", str(row.epoch)] for row in result.rows]
    note = (
        f"{result.num_labels} labels, {result.num_train_tokens:,} tokens to learn from, {result.num_test_tokens:,} to "
        "test. The paper, on the Penn Treebank: 97.3 on layer 1, less on layer 2."
    )
    return MeasuredTable(f"{kind}: accuracy", ["", "dev", "test", "L2", "epoch"], rows, note)


def _best_rows(rows: list[SenseRow]) -> dict[str, object]:
    """The best layer, and the best of those that are as in the paper."""
    from elmo.analysis.sense_probe import WHITENED

    best = max(rows, key=lambda row: row.f1())
    plain = max((row for row in rows if not row.name.endswith(WHITENED)), key=lambda row: row.f1())
    return {"wsd_all_best": best.f1(), "wsd_all_best_row": best.name, "wsd_all_best_plain": plain.f1()}


def _sense_table(rows: list[SenseRow], *, punctuation: bool) -> MeasuredTable:
    # The names that published tables use, short enough for a terminal.
    short = {
        "senseval2": "SE2",
        "senseval3": "SE3",
        "semeval2007": "SE07",
        "semeval2013": "SE13",
        "semeval2015": "SE15",
    }
    columns = list(rows[0].figures())
    cells = [[row.name, *(f"{row.figures()[column]:.1f}" for column in columns)] for row in rows]
    note = "F1. four: without SemEval-2007, as in the paper's table 5: first sense 65.9, layer 1 67.4, layer 2 69.0."
    note += " Whitened: every direction of a layer weighs the same; the paper's rows are plain."
    note += " Sentences without a mark at their end were given a full stop."
    if not punctuation:
        note += " The evaluation sentences are read without punctuation, which auto does if SemCor has none."
    return MeasuredTable(
        "Word senses by nearest neighbour", ["", *(short.get(column, column) for column in columns)], cells, note
    )


def _context_table(rows: list[WordRow]) -> MeasuredTable:
    layers = [name for name in rows[0].layers if name != "layer 0"]
    cells = []
    for row in rows:
        figures = [row.layers[layer] for layer in layers]
        words = f"{row.word} ({' / '.join(row.senses)})" if row.senses else row.word
        cells.append([words, *(f"{each.within:.2f} / {each.across:.2f}  {each.right:.0f}%" for each in figures)])
    note = "Mean cosine within a sense / across senses, and how many occurrences are nearer to their own sense."
    return MeasuredTable("The same word in different senses", ["word", *layers], cells, note)
