"""Semantic roles as a task: settings, batches, scores, and what predictions look like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.tag_schemes import LabelledSpan, tags_of_labels, tags_of_spans
from elmo.tasks.layers.text_batches import TextIndexer
from elmo.tasks.semantic_roles.data import Layout, Proposition, read_propositions
from elmo.tasks.semantic_roles.metrics import score_arguments
from elmo.tasks.semantic_roles.model import IGNORED, RoleBatch, RoleModelSettings, RoleTagger
from elmo.tasks.task import Inventory, Purpose, Task, TaskSettings, require_known
from elmo.text.tokenizer import words

Arguments = tuple[LabelledSpan, ...]


@dataclass(frozen=True)
class RoleDataSettings:
    """How files are read."""

    layout: Layout = "auto"
    verbs_only: bool = True
    """Leave out predicates that are not tagged as verbs, as CoNLL-2005 and 2012 do."""
    tokenizer: str = "ptb-like"
    """For raw text that is to be labelled."""


@dataclass(frozen=True)
class SemanticRolesSettings(TaskSettings):
    """Every setting of the task."""

    data: RoleDataSettings = field(default_factory=RoleDataSettings)
    model: RoleModelSettings = field(default_factory=RoleModelSettings)


class SemanticRoles(Task[Proposition, Arguments, SemanticRolesSettings]):
    """Who did what to whom."""

    name = "semantic_roles"
    headline = "f1"
    settings_type = SemanticRolesSettings
    input_format = "one sentence a line; a word that was mostly a predicate in training counts as one"

    def read(self, path: Path | str, settings: SemanticRolesSettings, purpose: Purpose = "train") -> list[Proposition]:
        return read_propositions(path, layout=settings.data.layout, verbs_only=settings.data.verbs_only)

    def parse(self, text: str, settings: SemanticRolesSettings, inventory: Inventory) -> list[Proposition]:
        known = set(inventory["predicates"])
        found = []
        for line in text.split("\n"):
            tokens = tuple(words(line, settings.data.tokenizer))
            found += [Proposition(tokens, index) for index, token in enumerate(tokens) if token.lower() in known]
        return found

    def sentences(self, example: Proposition) -> Sequence[Sequence[str]]:
        return (example.tokens,)

    def inventory(self, examples: Sequence[Proposition], settings: SemanticRolesSettings) -> Inventory:
        roles = sorted({argument.label for example in examples for argument in example.arguments})
        return {"roles": tuple(roles), "predicates": _usual_predicates(examples)}

    def model(self, settings: SemanticRolesSettings, inventory: Inventory, text: TextInput) -> RoleTagger:
        return RoleTagger(settings.model, inventory["roles"], text)

    def collate(self, examples: Sequence[Proposition], indexer: TextIndexer, inventory: Inventory) -> RoleBatch:
        text = indexer.batch([example.tokens for example in examples])
        ids = {tag: index for index, tag in enumerate(tags_of_labels(inventory["roles"], "iob2"))}
        tags = np.full(text.mask.shape, IGNORED, dtype=np.int64)
        is_predicate = np.zeros(text.mask.shape, dtype=np.int64)
        for row, example in enumerate(examples):
            spelt = tags_of_spans(example.arguments, len(example.tokens), "iob2")
            tags[row, : len(spelt)] = [ids[tag] for tag in spelt]
            is_predicate[row, example.predicate] = 1
        return RoleBatch(text, torch.from_numpy(is_predicate), torch.from_numpy(tags))

    def score(self, examples: Sequence[Proposition], predictions: Sequence[Arguments]) -> dict[str, float]:
        overall = score_arguments([example.arguments for example in examples], predictions).overall
        return {"f1": overall.f1, "precision": overall.precision, "recall": overall.recall}

    def check(self, path: Path | str, examples: Sequence[Proposition], inventory: Inventory) -> None:
        for example in examples:
            for argument in example.arguments:
                require_known(path, example.line + argument.start, argument.label, inventory["roles"])

    def show(self, example: Proposition, prediction: Arguments) -> str:
        """
        >>> SemanticRoles().show(Proposition(("She", "left"), 1), (LabelledSpan("ARG0", 0, 1), LabelledSpan("V", 1, 2)))
        '[ARG0 She] [V left]'
        """
        pieces = list(example.tokens)
        if not any(span.label == "V" for span in prediction):
            pieces[example.predicate] = f"[V {pieces[example.predicate]}]"
        for span in prediction:
            pieces[span.start] = f"[{span.label} {pieces[span.start]}"
            pieces[span.end - 1] += "]"
        return " ".join(pieces)

    def record(self, example: Proposition, prediction: Arguments) -> dict[str, Any]:
        arguments = [{**span._asdict(), "text": " ".join(example.tokens[span.start : span.end])} for span in prediction]
        return {"tokens": list(example.tokens), "predicate": example.predicate, "arguments": arguments}


def _usual_predicates(examples: Sequence[Proposition]) -> tuple[str, ...]:
    """Words that are predicates in at least half of their occurrences, in lower case."""
    as_predicate = Counter(example.tokens[example.predicate].lower() for example in examples)
    distinct = {example.tokens for example in examples}
    anywhere = Counter(token.lower() for tokens in distinct for token in tokens)
    return tuple(sorted(word for word, count in as_predicate.items() if 2 * count >= anywhere[word]))
