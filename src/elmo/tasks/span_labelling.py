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
    """A task that finds spans. An example has `tokens`, and its gold spans in the attribute `drawing.field`."""

    headline = "f1"
    labels_key: str
    """The inventory's key of the labels."""
    scheme: Scheme
    """Of the model's tags."""
    padding: int = 0
    """The tag id of padding."""

    def spans(self, example: ExampleT) -> Spans:
        """The gold spans."""
        spans: Spans = getattr(example, self.drawing.field)
        return spans

    def inventory(self, examples: Sequence[ExampleT], settings: SettingsT) -> Inventory:
        return {self.labels_key: tuple(sorted({span.label for each in examples for span in self.spans(each)}))}

    def tag_ids(self, examples: Sequence[ExampleT], text: TextBatch, inventory: Inventory) -> Tensor:
        """The gold spans as tags, (batch, tokens)."""
        ids = {tag: index for index, tag in enumerate(tags_of_labels(inventory[self.labels_key], self.scheme))}
        tags = np.full(text.mask.shape, self.padding, dtype=np.int64)
        for row, tokens, example in zip(tags, text.tokens, examples, strict=True):
            row[: len(tokens)] = [ids[tag] for tag in tags_of_spans(self.spans(example), len(tokens), self.scheme)]
        return torch.from_numpy(tags)

    def check(self, path: Path | str, examples: Sequence[Any], inventory: Inventory) -> None:
        for example in examples:
            for span in self.spans(example):
                require_known(path, example.line + span.start, span.label, inventory[self.labels_key])

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
