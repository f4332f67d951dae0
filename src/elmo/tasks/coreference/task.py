"""Coreference as a task: settings, batches, scores, and what predictions look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from elmo.errors import ConfigError
from elmo.tasks.coreference.data import Document, Mention, read_documents
from elmo.tasks.coreference.metrics import score_chains
from elmo.tasks.coreference.model import Chains, CoreferenceModelSettings, CoreferenceRanker, DocumentBatch
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.text_batches import TextIndexer
from elmo.tasks.ranges import require_ranges
from elmo.tasks.task import Inventory, Purpose, Task, TaskSettings
from elmo.tasks.training_settings import TrainingSettings
from elmo.text.tokenizer import words


@dataclass(frozen=True)
class CoreferenceDataSettings:
    """How files are read."""

    singletons: bool = False
    """Keep chains of a single mention in the gold data; the model cannot predict any."""
    max_sentences: int = 0
    """Longer documents are learned from in pieces of so many sentences; 0 keeps them whole."""
    tokenizer: str = "ptb-like"
    """For raw text that is to be resolved."""

    def __post_init__(self) -> None:
        require_ranges(self, "data", zero_or_more=("max_sentences",))


@dataclass(frozen=True)
class CoreferenceSettings(TaskSettings):
    """Every setting of the task."""

    training: TrainingSettings = field(default_factory=lambda: TrainingSettings(batch_size=1))
    data: CoreferenceDataSettings = field(default_factory=CoreferenceDataSettings)
    model: CoreferenceModelSettings = field(default_factory=CoreferenceModelSettings)

    def __post_init__(self) -> None:
        if self.training.batch_size != 1:
            raise ConfigError(f"training.batch_size is {self.training.batch_size}; coreference needs 1: a document.")


class Coreference(Task[Document, Chains, CoreferenceSettings]):
    """Which mentions of a text mean the same thing."""

    name = "coreference"
    headline = "average_f1"
    settings_type = CoreferenceSettings
    input_format = "one sentence a line; an empty line ends a document"

    def read(self, path: Path | str, settings: CoreferenceSettings, purpose: Purpose = "train") -> list[Document]:
        documents = read_documents(path, singletons=settings.data.singletons)
        if purpose != "train" or not settings.data.max_sentences:
            return documents
        return [piece for document in documents for piece in cut(document, settings.data.max_sentences)]

    def parse(self, text: str, settings: CoreferenceSettings, inventory: Inventory) -> list[Document]:
        documents = []
        for number, block in enumerate(text.strip("\n").split("\n\n")):
            split = (tuple(words(line, settings.data.tokenizer)) for line in block.split("\n"))
            sentences = tuple(tokens for tokens in split if tokens)
            if sentences:
                documents.append(Document(f"document {number + 1}", 0, sentences))
        return documents

    def sentences(self, example: Document) -> Sequence[Sequence[str]]:
        return example.sentences

    def size(self, example: Document) -> int:
        return example.num_tokens

    def inventory(self, examples: Sequence[Document], settings: CoreferenceSettings) -> Inventory:
        return {"genres": tuple(sorted({example.genre for example in examples}))}

    def model(self, settings: CoreferenceSettings, inventory: Inventory, text: TextInput) -> CoreferenceRanker:
        return CoreferenceRanker(settings.model, len(inventory["genres"]), text)

    def collate(self, examples: Sequence[Document], indexer: TextIndexer, inventory: Inventory) -> DocumentBatch:
        (document,) = examples
        names: dict[str, int] = {"": 0}
        speakers = [names.setdefault(name, len(names)) for sentence in document.speakers for name in sentence]
        genres = inventory["genres"]
        # A genre that training did not have gets a number of its own, which stays as it was born.
        genre = genres.index(document.genre) if document.genre in genres else len(genres)
        gold: dict[tuple[int, int], int] = {}
        for number, chain in enumerate(document.chains, start=1):
            for mention in chain:
                gold.setdefault((mention.start, mention.end - 1), number)
        return DocumentBatch(
            indexer.batch(document.sentences),
            torch.tensor(speakers or [0] * document.num_tokens),
            torch.tensor(genre),
            gold,
        )

    def score(self, examples: Sequence[Document], predictions: Sequence[Chains]) -> dict[str, float]:
        scores = score_chains([example.chains for example in examples], predictions)
        return {
            "average_f1": scores.average,
            "muc_f1": scores.muc.f1,
            "b_cubed_f1": scores.b_cubed.f1,
            "ceaf_f1": scores.ceaf.f1,
            "mention_f1": scores.mentions.f1,
        }

    def show(self, example: Document, prediction: Chains) -> str:
        """The sentences, each mention in brackets with its chain's number."""
        pieces = [token for sentence in example.sentences for token in sentence]
        mentions = sorted(
            ((mention, number) for number, chain in enumerate(prediction, start=1) for mention in chain),
            # Inner mentions first, so that outer brackets end up outside.
            key=lambda item: item[0].end - item[0].start,
        )
        for mention, number in mentions:
            pieces[mention.start] = f"[{number} {pieces[mention.start]}"
            pieces[mention.end - 1] += "]"
        lines, start = [], 0
        for sentence in example.sentences:
            lines.append(" ".join(pieces[start : start + len(sentence)]))
            start += len(sentence)
        return "\n".join(lines) + "\n"

    def record(self, example: Document, prediction: Chains) -> dict[str, Any]:
        tokens = [token for sentence in example.sentences for token in sentence]
        chains = [
            [{**mention._asdict(), "text": " ".join(tokens[mention.start : mention.end])} for mention in chain]
            for chain in prediction
        ]
        return {"name": example.name, "sentences": [list(s) for s in example.sentences], "chains": chains}


def cut(document: Document, max_sentences: int) -> list[Document]:
    """A document in pieces of whole sentences; a chain keeps its mentions inside a piece, if they are at least two."""
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
