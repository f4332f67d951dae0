"""The parts of a model's card beside tables 5 and 6: held-out perplexity, and the effect of lower precision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from itertools import islice
from operator import add
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmo.explore.layers import LayerStream
from elmo.paper.section import Section, Table
from elmo.pretrain.perplexity import Perplexity, SharedPerplexity
from elmo.pretrain.scoring import Scorer
from elmo.text.inputs import read_sentences

ALL = "all"
"""The name of the sum of the held-out texts."""
_SENTENCES = 500
"""The number of sentences of each held-out text that the precisions are compared on."""
Result = TypeVar("Result", Perplexity, SharedPerplexity)


@dataclass(frozen=True)
class Agreement:
    """The cosine of the vectors of a layer with the exact ones, over all tokens."""

    mean: float
    lowest: float


def measure_perplexities(
    measure: Callable[[Iterable[list[str]]], Result],
    texts: Mapping[str, str],
    *,
    progress: Callable[[str], None] = lambda message: None,
) -> dict[str, Result]:
    """The perplexity of each tokenized file, and of all together."""
    found: dict[str, Result] = {}
    for name, file in texts.items():
        progress(f"perplexity of {name}")
        found[name] = measure(_sentences(file))
    return {**found, ALL: reduce(add, found.values())}


def first_sentences(files: Iterable[str]) -> list[list[str]]:
    """The first sentences of each tokenized file."""
    return [tokens for file in files for tokens in islice(_sentences(file), _SENTENCES)]


def compare_precisions(
    exact: LayerStream, others: Mapping[str, LayerStream], sentences: Sequence[Sequence[str]]
) -> dict[str, list[Agreement]]:
    """For each of the others, the agreement of each layer above layer 0, which is computed without the LSTMs."""
    expected = [sentence.vectors for sentence in exact.stream(sentences)]
    found = {}
    for name, other in others.items():
        cosines = [
            _cosines(sentence.vectors[1:], vectors[1:])
            for sentence, vectors in zip(other.stream(sentences), expected, strict=True)
        ]
        layers = np.concatenate(cosines, axis=1)
        found[name] = [Agreement(float(layer.mean()), float(layer.min())) for layer in layers]
    return found


def perplexity_section(found: Mapping[str, Perplexity], scorer: Scorer) -> Section:
    """A row for each text."""
    rows = tuple(
        (
            name,
            *(f"{value:.1f}" for value in (each.forward, each.backward, each.both)),
            f"{each.num_tokens:,}",
            f"{each.num_unknown / each.num_tokens:.1%}",
        )
        for name, each in found.items()
    )
    note = (
        f"Full softmax over {scorer.softmax.num_words:,} words, every sentence from the initial state, including the "
        "end of the sentence. Perplexities under other vocabularies cannot be compared."
    )
    columns = ("", "forward", "backward", "both", "tokens", "unknown")
    return Section("Held-out perplexity", tables=(Table(columns, rows, note),))


def perplexity_data(found: Mapping[str, Perplexity]) -> dict[str, Any]:
    """The perplexities for JSON."""
    return {
        "perplexity": {name: each.values() for name, each in found.items()},
        "perplexity_forward": found[ALL].forward,
        "perplexity_backward": found[ALL].backward,
    }


def shared_section(found: Mapping[str, SharedPerplexity], names: Sequence[str], num_words: int) -> Section:
    """A row for each text, a column for each model."""
    rows = tuple(
        (name, *(f"{model.both:.1f}" for model in each.models), f"{each.num_tokens:,}", f"{each.share:.1%}")
        for name, each in found.items()
    )
    note = (
        f"Both directions together, for comparison: each softmax is over the {num_words:,} words that all vocabularies "
        "have, and other words are not scored."
    )
    columns = ("", *names, "tokens scored", "of the text")
    return Section("Held-out perplexity on the shared vocabulary", tables=(Table(columns, rows, note),))


def shared_data(found: Mapping[str, SharedPerplexity], names: Sequence[str], num_words: int) -> dict[str, Any]:
    """The compared perplexities for JSON."""
    texts = {name: each.values(names) for name, each in found.items()}
    return {"shared_perplexity": texts, "shared_words": num_words}


def precision_section(found: Mapping[str, Sequence[Agreement]], num_sentences: int) -> Section:
    """A row for each precision and layer."""
    rows = tuple(
        (f"{kind}, layer {layer}", f"{each.mean:.6f}", f"{each.lowest:.6f}")
        for kind, layers in found.items()
        for layer, each in enumerate(layers, start=1)
    )
    note = f"Cosine with the vectors of float32 weights, over the tokens of {num_sentences:,} sentences."
    return Section("Weights of lower precision", tables=(Table(("", "mean", "lowest"), rows, note),))


def precision_data(found: Mapping[str, Sequence[Agreement]]) -> dict[str, Any]:
    """The agreements for JSON."""
    return {"precision": {kind: [asdict(each) for each in layers] for kind, layers in found.items()}}


def _sentences(file: str) -> Iterable[list[str]]:
    return (sentence.tokens for sentence in read_sentences([file], tokenizer="whitespace") if sentence.tokens)


def _cosines(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
    """(layers, tokens)"""
    a, b = first.astype(np.float64), second.astype(np.float64)
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    cosines: NDArray[np.float64] = (a * b).sum(axis=-1) / norms.clip(1e-300)
    return cosines
