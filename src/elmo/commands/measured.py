"""For commands that read a biLM's layers: progress, a word in its context, elapsed time, and facts about the model."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from elmo.embedding.embedder import EmbeddedSentence, Embedder

messages = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
"""For paths and other text that must be printed as it is: brackets are not markup, and lines are not broken."""


@dataclass
class Stopwatch:
    """The seconds since it was created."""

    start: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start


class CountingStream:
    """An embedder that reports its progress."""

    def __init__(self, embedder: Embedder, update: Any) -> None:
        self._embedder, self._update = embedder, update

    def stream(self, sentences: Iterable[Sequence[str]], /) -> Iterator[EmbeddedSentence]:
        for number, embedded in enumerate(self._embedder.stream(sentences), start=1):
            if number % 500 == 0:
                self._update(f"{number:,} sentences encoded")
            yield embedded


@contextmanager
def counting(embedder: Embedder) -> Iterator[CountingStream]:
    """The embedder, with its progress on the terminal."""
    with messages.status("encoding") as status:
        yield CountingStream(embedder, status.update)


def word_in_context(tokens: Sequence[str], position: int, console: Console) -> Text:
    """A word in its sentence: in bold on a terminal, elsewhere in brackets."""
    from elmo.explore.neighbours import around

    before, word, after = around(tokens, position)
    # A string would be read as rich's markup: [sic it] would disappear, and :heart: would become an emoji.
    marked = (word, "bold reverse") if console.is_terminal else f"[{word}]"
    return Text.assemble(before, marked, after)


def model_facts(embedder: Embedder, name: str | None) -> dict[str, Any]:
    """Facts about the model for results."""
    from elmo.checkpoints.checkpoint import count_parameters
    from elmo.checkpoints.pretrained import DEFAULT_MODEL

    config = embedder.model.config
    return {
        "model": name or DEFAULT_MODEL,
        "layers": config.num_layers,
        "dim": config.output_dim,
        "parameters": count_parameters(config),
        "state": embedder.state,
    }
