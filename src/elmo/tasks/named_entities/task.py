"""Named entities as a task: settings, batches, scores, and the form of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elmo.settings import setting
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.text_batches import TextIndexer
from elmo.tasks.named_entities.data import TaggedSentence, read_sentences
from elmo.tasks.named_entities.model import EntityBatch, EntityModelSettings, EntityTagger
from elmo.tasks.scores import count_matches
from elmo.tasks.span_labelling import Spans, SpanTask
from elmo.tasks.task import DataSettings, Drawing, Inventory, PaperRow, Purpose, TaskSettings


@dataclass(frozen=True)
class EntityDataSettings(DataSettings):
    """How files are read."""

    scheme: Literal["auto", "iob1", "iob2", "bioul"] = setting("auto", "The tag scheme; auto detects it.")


@dataclass(frozen=True)
class NamedEntitiesSettings(TaskSettings):
    """All settings of the task."""

    data: EntityDataSettings = setting(EntityDataSettings())
    model: EntityModelSettings = setting(EntityModelSettings())


class NamedEntities(SpanTask[TaggedSentence, NamedEntitiesSettings]):
    """Names of people, places and organizations."""

    name = "named_entities"
    labels_key, scheme = "types", "bioul"
    settings_type, example_type = NamedEntitiesSettings, TaggedSentence
    input_format = "one sentence a line"
    example = "Angela Merkel was born in Hamburg and worked in Berlin."
    drawing = Drawing("spans", "entities")
    paper = PaperRow(
        *(5, 90.15, 92.22, 21.0),
        files="ner/uner-ewt/en_ewt-ud-{train,dev,test}.iob2",
        quick=("training.fraction=0.5", "training.epochs=5"),
    )

    def read(
        self, path: Path | str, settings: NamedEntitiesSettings, purpose: Purpose = "train"
    ) -> list[TaggedSentence]:
        return read_sentences(path, scheme=settings.data.scheme)

    def model(self, settings: NamedEntitiesSettings, inventory: Inventory, text: TextInput) -> EntityTagger:
        return EntityTagger(settings.model, inventory["types"], text)

    def collate(self, examples: Sequence[TaggedSentence], indexer: TextIndexer, inventory: Inventory) -> EntityBatch:
        text = indexer.batch([example.tokens for example in examples])
        return EntityBatch(text, self.tag_ids(examples, text, inventory))

    def score(self, examples: Sequence[TaggedSentence], predictions: Sequence[Spans]) -> dict[str, float]:
        """Micro F1: an entity is correct if its type, its start and its end are (the CoNLL-2003 evaluation)."""
        return count_matches([example.entities for example in examples], predictions).scores()
