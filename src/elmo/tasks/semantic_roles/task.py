"""Semantic roles as a task: settings, batches, scores, and what predictions look like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from elmo.settings import Settings, setting
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.tag_schemes import LabelledSpan
from elmo.tasks.layers.text_batches import TextIndexer
from elmo.tasks.reading import tokenized_lines
from elmo.tasks.semantic_roles.data import PREDICATE, Layout, Proposition, read_propositions
from elmo.tasks.semantic_roles.metrics import score_arguments
from elmo.tasks.semantic_roles.model import IGNORED, RoleBatch, RoleModelSettings, RoleTagger
from elmo.tasks.span_labelling import Spans, SpanTask
from elmo.tasks.task import Drawing, Inventory, PaperRow, Purpose, TaskSettings


@dataclass(frozen=True)
class RoleDataSettings(Settings):
    """How files are read."""

    layout: Layout = setting("auto", "The columns of the files; auto detects them.")
    verbs_only: bool = setting(True, "Leave out predicates that are not tagged as verbs, as CoNLL-2005 and 2012 do.")
    tokenizer: str = setting("ptb-like", "For raw text that is to be labelled.")


@dataclass(frozen=True)
class SemanticRolesSettings(TaskSettings):
    """Every setting of the task."""

    presets = Path(__file__).parent / "presets"

    data: RoleDataSettings = setting(RoleDataSettings())
    model: RoleModelSettings = setting(RoleModelSettings())


class SemanticRoles(SpanTask[Proposition, SemanticRolesSettings]):
    """Who did what to whom."""

    name = "semantic_roles"
    labels_key = "roles"
    settings_type = SemanticRolesSettings
    input_format = "one sentence a line; a word that was mostly a predicate in training counts as one"
    example = "The committee gave the prize to a young author."
    drawing = Drawing("spans", "arguments", focus="predicate")
    paper = PaperRow(
        number=3,
        baseline=81.4,
        elmo=84.6,
        reduction=17.2,
        files=("srl/ewt.train.conll", "srl/ewt.dev.conll", "srl/ewt.test.conll"),
        quick=("training.fraction=0.3", "training.epochs=3"),
    )

    def read(self, path: Path | str, settings: SemanticRolesSettings, purpose: Purpose = "train") -> list[Proposition]:
        return read_propositions(path, layout=settings.data.layout, verbs_only=settings.data.verbs_only)

    def parse(self, text: str, settings: SemanticRolesSettings, inventory: Inventory) -> list[Proposition]:
        known = set(inventory["predicates"])
        return [
            Proposition(found.tokens, index, line=line, offsets=[found.offsets])
            for line, found in tokenized_lines(text, settings.data.tokenizer)
            for index, token in enumerate(found.tokens)
            if token.lower() in known
        ]

    def inventory(self, examples: Sequence[Proposition], settings: SemanticRolesSettings) -> Inventory:
        return {"roles": self.labels(examples), "predicates": _usual_predicates(examples)}

    def model(self, settings: SemanticRolesSettings, inventory: Inventory, text: TextInput) -> RoleTagger:
        return RoleTagger(settings.model, inventory["roles"], text)

    def collate(self, examples: Sequence[Proposition], indexer: TextIndexer, inventory: Inventory) -> RoleBatch:
        text = indexer.batch([example.tokens for example in examples])
        is_predicate = torch.zeros(text.mask.shape, dtype=torch.long)
        is_predicate[range(len(examples)), [example.predicate for example in examples]] = 1
        return RoleBatch(text, is_predicate, self.tag_ids(examples, text, inventory, "iob2", padding=IGNORED))

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
