"""Named entities as a task: settings, batches, scores, and what predictions look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.tag_schemes import LabelledSpan, Scheme, tags_of_labels, tags_of_spans
from elmo.tasks.layers.text_batches import TextIndexer
from elmo.tasks.named_entities.data import TaggedSentence, read_sentences
from elmo.tasks.named_entities.metrics import score_entities
from elmo.tasks.named_entities.model import EntityBatch, EntityModelSettings, EntityTagger
from elmo.tasks.task import Inventory, Purpose, Task, TaskSettings, require_known
from elmo.text.tokenizer import words

Entities = tuple[LabelledSpan, ...]


@dataclass(frozen=True)
class EntityDataSettings:
    """How files are read."""

    scheme: Literal["auto", "iob1", "iob2", "bioul"] = "auto"
    tokenizer: str = "ptb-like"
    """For raw text that is to be tagged."""


@dataclass(frozen=True)
class NamedEntitiesSettings(TaskSettings):
    """Every setting of the task."""

    data: EntityDataSettings = field(default_factory=EntityDataSettings)
    model: EntityModelSettings = field(default_factory=EntityModelSettings)


class NamedEntities(Task[TaggedSentence, Entities, NamedEntitiesSettings]):
    """Names of people, places and organisations."""

    name = "named_entities"
    headline = "f1"
    settings_type = NamedEntitiesSettings
    input_format = "one sentence a line"

    def read(
        self, path: Path | str, settings: NamedEntitiesSettings, purpose: Purpose = "train"
    ) -> list[TaggedSentence]:
        scheme: Scheme | Literal["auto"] = settings.data.scheme
        return read_sentences(path, scheme=scheme)

    def parse(self, text: str, settings: NamedEntitiesSettings, inventory: Inventory) -> list[TaggedSentence]:
        split = (tuple(words(line, settings.data.tokenizer)) for line in text.split("\n"))
        return [TaggedSentence(tokens) for tokens in split if tokens]

    def sentences(self, example: TaggedSentence) -> Sequence[Sequence[str]]:
        return (example.tokens,)

    def inventory(self, examples: Sequence[TaggedSentence], settings: NamedEntitiesSettings) -> Inventory:
        return {"types": tuple(sorted({entity.label for example in examples for entity in example.entities}))}

    def model(self, settings: NamedEntitiesSettings, inventory: Inventory, text: TextInput) -> EntityTagger:
        return EntityTagger(settings.model, inventory["types"], text)

    def collate(self, examples: Sequence[TaggedSentence], indexer: TextIndexer, inventory: Inventory) -> EntityBatch:
        text = indexer.batch([example.tokens for example in examples])
        ids = {tag: index for index, tag in enumerate(tags_of_labels(inventory["types"], "bioul"))}
        tags = np.zeros(text.mask.shape, dtype=np.int64)
        for row, example in zip(tags, examples, strict=True):
            spelt = tags_of_spans(example.entities, len(example.tokens), "bioul")
            row[: len(spelt)] = [ids[tag] for tag in spelt]
        return EntityBatch(text, torch.from_numpy(tags))

    def score(self, examples: Sequence[TaggedSentence], predictions: Sequence[Entities]) -> dict[str, float]:
        overall = score_entities([example.entities for example in examples], predictions).overall
        return {"f1": overall.f1, "precision": overall.precision, "recall": overall.recall}

    def check(self, path: Path | str, examples: Sequence[TaggedSentence], inventory: Inventory) -> None:
        for example in examples:
            for entity in example.entities:
                require_known(path, example.line + entity.start, entity.label, inventory["types"])

    def show(self, example: TaggedSentence, prediction: Entities) -> str:
        """
        >>> NamedEntities().show(TaggedSentence(("In", "New", "York")), (LabelledSpan("LOC", 1, 3),))
        'In [LOC New York]'
        """
        pieces = list(example.tokens)
        for entity in prediction:
            pieces[entity.start] = f"[{entity.label} {pieces[entity.start]}"
            pieces[entity.end - 1] += "]"
        return " ".join(pieces)

    def record(self, example: TaggedSentence, prediction: Entities) -> dict[str, Any]:
        entities = [{**span._asdict(), "text": " ".join(example.tokens[span.start : span.end])} for span in prediction]
        return {"tokens": list(example.tokens), "entities": entities}
