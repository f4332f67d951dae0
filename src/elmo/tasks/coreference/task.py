"""Coreference as a task: settings, batches, scores, and the form of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, islice
from pathlib import Path
from typing import Any

import torch

from elmo.errors import ConfigError
from elmo.settings import setting
from elmo.tasks.coreference.data import Document, Mention, read_documents
from elmo.tasks.coreference.metrics import average_f1, score_chains
from elmo.tasks.coreference.model import Chains, CoreferenceModelSettings, CoreferenceRanker, DocumentBatch
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.tag_schemes import LabelledSpan
from elmo.tasks.layers.text_batches import TextIndexer
from elmo.tasks.reading import tokenized_lines
from elmo.tasks.span_labelling import bracketed
from elmo.tasks.task import DataSettings, Drawing, Inventory, PaperRow, Purpose, Task, TaskSettings
from elmo.tasks.training_settings import TrainingSettings


@dataclass(frozen=True)
class CoreferenceDataSettings(DataSettings):
    """How files are read."""

    singletons: bool = setting(False, "Keep chains of one mention in the gold data; the model cannot predict them.")
    max_sentences: int = setting(
        0, "Longer documents are split into pieces of this many sentences for training; 0 keeps them whole.", at_least=0
    )


@dataclass(frozen=True)
class CoreferenceSettings(TaskSettings):
    """All settings of the task."""

    training: TrainingSettings = setting(TrainingSettings(batch_size=1))
    data: CoreferenceDataSettings = setting(CoreferenceDataSettings())
    model: CoreferenceModelSettings = setting(CoreferenceModelSettings())

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.training.batch_size != 1:
            raise ConfigError(
                f"training.batch_size is {self.training.batch_size}; expected 1: a batch is one document."
            )


class Coreference(Task[Document, Chains, CoreferenceSettings]):
    """Which mentions of a text refer to the same thing."""

    name = "coreference"
    headline = "average_f1"
    settings_type = CoreferenceSettings
    input_format = "one sentence a line; an empty line ends a document"
    example = "Anna called her brother .\nHe told her that he was late ."
    drawing = Drawing("clusters", "chains", text=("sentences",))
    paper = PaperRow(
        *(4, 67.2, 70.4, 9.8),
        files="coref/ontogum/{train,dev,test}.free.gold_conll",
        quick=("training.fraction=0.5", "training.epochs=2"),
    )

    def read(self, path: Path | str, settings: CoreferenceSettings, purpose: Purpose = "train") -> list[Document]:
        documents = read_documents(path, singletons=settings.data.singletons)
        if purpose != "train" or not settings.data.max_sentences:
            return documents
        return [piece for document in documents for piece in cut(document, settings.data.max_sentences)]

    def parse(self, text: str, settings: CoreferenceSettings, inventory: Inventory) -> list[Document]:
        """Offsets count from the start of the document's first line."""
        documents: list[Document] = []
        rows = text.split("\n")
        for is_blank, numbers in groupby(range(len(rows)), key=lambda number: not rows[number].strip()):
            if is_blank:
                continue
            first, *_ = block = list(numbers)
            starts = [0, *accumulate(len(rows[number]) + 1 for number in block)]
            lines = list(tokenized_lines("\n".join(rows[number] for number in block), settings.data.tokenizer))
            sentences = tuple(found.tokens for _, (found,) in lines)
            offsets = [
                [(starts[row - 1] + a, starts[row - 1] + b) for a, b in found.offsets] for row, (found,) in lines
            ]
            if sentences:
                name = f"document {len(documents) + 1}"
                documents.append(Document(name, 0, sentences, line=first + 1, offsets=offsets))
        return documents

    def sentences(self, example: Document) -> Sequence[Sequence[str]]:
        return example.sentences

    def size(self, example: Document) -> int:
        return sum(map(len, example.sentences))

    def inventory(self, examples: Sequence[Document], settings: CoreferenceSettings) -> Inventory:
        return {"genres": tuple(sorted({example.genre for example in examples}))}

    def model(self, settings: CoreferenceSettings, inventory: Inventory, text: TextInput) -> CoreferenceRanker:
        return CoreferenceRanker(settings.model, len(inventory["genres"]), text)

    def collate(self, examples: Sequence[Document], indexer: TextIndexer, inventory: Inventory) -> DocumentBatch:
        (document,) = examples
        names: dict[str, int] = {"": 0}
        speakers = [names.setdefault(name, len(names)) for sentence in document.speakers for name in sentence]
        genres = inventory["genres"]
        # An unknown genre has an id of its own, whose embedding is never trained.
        genre = genres.index(document.genre) if document.genre in genres else len(genres)
        gold: dict[tuple[int, int], int] = {}
        for number, chain in enumerate(document.chains, start=1):
            for mention in chain:
                gold.setdefault((mention.start, mention.end - 1), number)
        speaker_ids = torch.tensor(speakers or [0] * len(document.tokens))
        return DocumentBatch(indexer.batch(document.sentences), speaker_ids, torch.tensor(genre), gold)

    def score(self, examples: Sequence[Document], predictions: Sequence[Chains]) -> dict[str, float]:
        totals = score_chains([example.chains for example in examples], predictions)
        return {"average_f1": average_f1(totals), **{f"{name}_f1": counts.f1 for name, counts in totals.items()}}

    def show(self, example: Document, prediction: Chains) -> str:
        """The sentences with each mention in brackets, with the number of its chain."""
        spans = [
            LabelledSpan(str(number), *mention)
            for number, mentions in enumerate(prediction, start=1)
            for mention in mentions
        ]
        # Inner mentions first, so that outer brackets end up outside.
        spans.sort(key=lambda span: span.end - span.start)
        pieces = iter(bracketed(example.tokens, spans))
        return "\n".join(" ".join(islice(pieces, len(sentence))) for sentence in example.sentences) + "\n"

    def record(self, example: Document, prediction: Chains) -> dict[str, Any]:
        tokens = example.tokens
        chains = [
            [{**mention._asdict(), "text": " ".join(tokens[mention.start : mention.end])} for mention in mentions]
            for mentions in prediction
        ]
        places: dict[str, Any] = {"line": example.line} if example.line else {}
        if example.offsets:
            places["starts"] = [[start for start, _ in offsets] for offsets in example.offsets]
            places["stops"] = [[stop for _, stop in offsets] for offsets in example.offsets]
        return {"name": example.name, "sentences": list(map(list, example.sentences)), **places, "chains": chains}


def cut(document: Document, max_sentences: int) -> list[Document]:
    """Split a document between sentences; chains keep the mentions inside a piece, if there are at least two."""
    pieces, token = [], 0
    for begin in range(0, len(document.sentences), max_sentences):
        part = slice(begin, begin + max_sentences)
        end = token + sum(map(len, document.sentences[part]))
        inside = [[mention for mention in chain if token <= mention.start < end] for chain in document.chains]
        chains = tuple(
            tuple(Mention(mention.start - token, mention.end - token) for mention in chain)
            for chain in inside
            if len(chain) > 1
        )
        pieces.append(
            replace(document, sentences=document.sentences[part], speakers=document.speakers[part], chains=chains)
        )
        token = end
    return pieces
