"""What named entities and semantic roles have in common: labelled spans of a sentence, predicted as tags."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo.tasks.layers.tag_schemes import LabelledSpan, Scheme, tags_of_labels, tags_of_spans
from elmo.tasks.layers.text_batches import TextBatch
from elmo.tasks.task import ExampleT, Inventory, SettingsT, Task, located, require_known

Spans = tuple[LabelledSpan, ...]


class SpanTask(Task[ExampleT, Spans, SettingsT]):
    """A task that finds spans. An example has `tokens`, and its spans in the field that `drawing` names."""

    headline = "f1"
    labels_key: str
    """The inventory's key of the labels."""

    def spans(self, example: ExampleT) -> Spans:
        """The gold spans."""
        spans: Spans = getattr(example, self.drawing.field)
        return spans

    def labels(self, examples: Sequence[ExampleT]) -> tuple[str, ...]:
        """The labels of the gold spans, sorted."""
        return tuple(sorted({span.label for example in examples for span in self.spans(example)}))

    def tag_ids(
        self, examples: Sequence[ExampleT], text: TextBatch, inventory: Inventory, scheme: Scheme, *, padding: int
    ) -> Tensor:
        """The gold spans as tags, (batch, tokens)."""
        ids = {tag: index for index, tag in enumerate(tags_of_labels(inventory[self.labels_key], scheme))}
        tags = np.full(text.mask.shape, padding, dtype=np.int64)
        for row, tokens, example in zip(tags, text.tokens, examples, strict=True):
            row[: len(tokens)] = [ids[tag] for tag in tags_of_spans(self.spans(example), len(tokens), scheme)]
        return torch.from_numpy(tags)

    def sentences(self, example: ExampleT) -> Sequence[Sequence[str]]:
        tokens: Sequence[str] = example.tokens  # type: ignore[attr-defined]
        return (tokens,)

    def check(self, path: Path | str, examples: Sequence[ExampleT], inventory: Inventory) -> None:
        for example in examples:
            for span in self.spans(example):
                line = example.line + span.start  # type: ignore[attr-defined]
                require_known(path, line, span.label, inventory[self.labels_key])

    def show(self, example: ExampleT, prediction: Spans) -> str:
        return " ".join(bracketed(self.sentences(example)[0], prediction))

    def record(self, example: ExampleT, prediction: Spans) -> dict[str, Any]:
        (tokens,) = self.sentences(example)
        spans = [{**span._asdict(), "text": " ".join(tokens[span.start : span.end])} for span in prediction]
        focus = {key: getattr(example, key) for key in (self.drawing.focus,) if key}
        return {"tokens": list(tokens), **located(example, self.drawing.text), **focus, self.drawing.field: spans}


def bracketed(tokens: Sequence[str], spans: Sequence[LabelledSpan]) -> list[str]:
    """The tokens with brackets around labelled spans; of nested spans the inner ones come first.

    >>> bracketed(["In", "New", "York"], [LabelledSpan("LOC", 1, 3)])
    ['In', '[LOC New', 'York]']
    """
    pieces = list(tokens)
    for label, start, end in spans:
        pieces[start] = f"[{label} {pieces[start]}"
        pieces[end - 1] += "]"
    return pieces
