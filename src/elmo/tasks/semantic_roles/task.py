"""Semantic roles as a task: settings, batches, scores, and the form of predictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from elmo.settings import setting
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.tag_schemes import LabelledSpan
from elmo.tasks.layers.text_batches import TextIndexer
from elmo.tasks.semantic_roles.data import PREDICATE, Layout, Proposition, read_propositions
from elmo.tasks.semantic_roles.metrics import score_arguments
from elmo.tasks.semantic_roles.model import IGNORED, RoleBatch, RoleModelSettings, RoleTagger
from elmo.tasks.span_labelling import Spans, SpanTask
from elmo.tasks.task import DataSettings, Drawing, Inventory, PaperRow, Purpose, TaskSettings


@dataclass(frozen=True)
class RoleDataSettings(DataSettings):
    """How files are read."""

    layout: Layout = setting("auto", "The columns of the files; auto detects them.")
    verbs_only: bool = setting(True, "Leave out predicates that are not tagged as verbs, as CoNLL-2005 and 2012 do.")


@dataclass(frozen=True)
class SemanticRolesSettings(TaskSettings):
    """All settings of the task."""

    data: RoleDataSettings = setting(RoleDataSettings())
    model: RoleModelSettings = setting(RoleModelSettings())


class SemanticRoles(SpanTask[Proposition, SemanticRolesSettings]):
    """Who did what to whom."""

    name = "semantic_roles"
    labels_key, scheme, padding = "roles", "iob2", IGNORED
    settings_type, example_type = SemanticRolesSettings, Proposition
    input_format = "one sentence a line; a word that was mostly a predicate in training counts as one"
    example = "The committee gave the prize to a young author."
    drawing = Drawing("spans", "arguments", focus="predicate")
    paper = PaperRow(
        *(3, 81.4, 84.6, 17.2),
        files="srl/ewt.{train,dev,test}.conll",
        quick=("training.fraction=0.3", "training.epochs=3"),
    )

    def read(self, path: Path | str, settings: SemanticRolesSettings, purpose: Purpose = "train") -> list[Proposition]:
        return read_propositions(path, layout=settings.data.layout, verbs_only=settings.data.verbs_only)

    def parse(self, text: str, settings: SemanticRolesSettings, inventory: Inventory) -> list[Proposition]:
        """An example for each predicate."""
        known = set(inventory["predicates"])
        return [
            replace(sentence, predicate=index)
            for sentence in super().parse(text, settings, inventory)
            for index, token in enumerate(sentence.tokens)
            if token.lower() in known
        ]

    def inventory(self, examples: Sequence[Proposition], settings: SemanticRolesSettings) -> Inventory:
        return {**super().inventory(examples, settings), "predicates": _usual_predicates(examples)}

    def model(self, settings: SemanticRolesSettings, inventory: Inventory, text: TextInput) -> RoleTagger:
        return RoleTagger(settings.model, inventory["roles"], text)

    def collate(self, examples: Sequence[Proposition], indexer: TextIndexer, inventory: Inventory) -> RoleBatch:
        text = indexer.batch([example.tokens for example in examples])
        is_predicate = torch.zeros(text.mask.shape, dtype=torch.long)
        is_predicate[range(len(examples)), [example.predicate for example in examples]] = 1
        return RoleBatch(text, is_predicate, self.tag_ids(examples, text, inventory))

    def score(self, examples: Sequence[Proposition], predictions: Sequence[Spans]) -> dict[str, float]:
        return score_arguments([example.arguments for example in examples], predictions).scores()

    def show(self, example: Proposition, prediction: Spans) -> str:
        """
        >>> SemanticRoles().show(Proposition(("She", "left"), 1), (LabelledSpan("ARG0", 0, 1),))
        '[ARG0 She] [V left]'
        """
        has_predicate = any(span.label == PREDICATE for span in prediction)
        predicate = LabelledSpan(PREDICATE, example.predicate, example.predicate + 1)
        return super().show(example, prediction if has_predicate else (predicate, *prediction))


def _usual_predicates(examples: Sequence[Proposition]) -> tuple[str, ...]:
    """Words that are predicates in at least half of their occurrences, in lower case."""
    as_predicate = Counter(example.tokens[example.predicate].lower() for example in examples)
    distinct = {example.tokens for example in examples}
    anywhere = Counter(token.lower() for tokens in distinct for token in tokens)
    return tuple(sorted(word for word, count in as_predicate.items() if 2 * count >= anywhere[word]))
