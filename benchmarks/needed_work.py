"""How much arithmetic a text needs at the least: what divides the machine's peak to give the limit in tokens a second.

Multiplications and additions inside matrix products and convolutions are counted (two for each pair); gates, clips and
copies are not. Two counts are made, from the configuration and the text itself:

    least      each distinct word once in the whole text; an LSTM step only for each distinct beginning of a sentence
               (read from either end), and none for a closing marker, of which no vector is asked for. The model's own
               products need no less, so this limit is approached, never passed. It is the one that counts.
    plain      words once in every batch of 64 sentences, in the text's order; one LSTM step for every token and for
               both sentence markers: what a straightforward program does (155 MFLOP a token at full size).

What a word needs: convolutions at the places that can hold its maximum, highways, projection, and the input product of
the first LSTM layer in both directions. What a step needs: everything else in the LSTMs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elmo.bilm.config import BiLMConfig

Sentence = Sequence[str]
PLAIN_BATCH = 64
_NUM_DIRECTIONS = 2


@dataclass(frozen=True)
class NeededWork:
    """FLOPs for each token of a text, markers not counted as tokens."""

    plain: float
    least: float
    least_warm: float
    """`least` with every word's vector and first product already there."""
    distinct_words: int
    shared_steps: float
    """The part of all steps that an earlier sentence with the same beginning has done already."""


def needed_work(config: BiLMConfig, sentences: Sequence[Sentence]) -> NeededWork:
    tokens = sum(map(len, sentences))
    markers = (config.begin_sentence, config.end_sentence)
    step = step_flops(config)
    batches = [sentences[start : start + PLAIN_BATCH] for start in range(0, len(sentences), PLAIN_BATCH)]
    plain_words = sum(word_flops(config, word) for batch in batches for word in _distinct(batch, markers))
    plain_steps = step * sum(len(sentence) + 2 for sentence in sentences)
    words = _distinct(sentences, markers)
    opened = [[markers[0], *sentence] for sentence in sentences]
    closed = [[markers[1], *reversed(sentence)] for sentence in sentences]
    prefixes = num_prefixes(opened) + num_prefixes(closed)
    least_warm = step / _NUM_DIRECTIONS * prefixes
    return NeededWork(
        plain=(plain_words + plain_steps) / tokens,
        least=(sum(word_flops(config, word) for word in words) + least_warm) / tokens,
        least_warm=least_warm / tokens,
        distinct_words=len(words),
        shared_steps=1 - prefixes / sum(map(len, opened + closed)),
    )


def word_flops(config: BiLMConfig, word: str) -> int:
    """One word's vector and its first input products."""
    lstm, cnn, characters = config.lstm, config.char_cnn, config.characters
    flops = _NUM_DIRECTIONS * 2 * lstm.projection_dim * 4 * lstm.cell_dim
    if cnn is None or characters is None:
        return flops
    spelt = len(characters.spell(word))
    for width, number in cnn.filters:
        # A window may start at every character of the word, and once in the padding behind it.
        windows = min(spelt + 1, characters.max_characters - width + 1)
        flops += 2 * windows * width * cnn.character_dim * number
    flops += cnn.num_highway * 2 * 2 * cnn.num_filters**2
    return flops + 2 * cnn.num_filters * lstm.projection_dim


def step_flops(config: BiLMConfig) -> int:
    """One token through all layers of both directions, without the first input product."""
    lstm = config.lstm
    gates = 2 * lstm.projection_dim * 4 * lstm.cell_dim
    projection = 2 * lstm.cell_dim * lstm.projection_dim if lstm.has_projection else 0
    one_direction = lstm.num_layers * (gates + projection) + (lstm.num_layers - 1) * gates
    return _NUM_DIRECTIONS * one_direction


def lstm_bytes_of_sentence(config: BiLMConfig, num_tokens: int, *, bytes_per_weight: int = 4) -> int:
    """Weights that must come from memory for one sentence alone, if none of them stays in a cache.

    Recurrent and projection weights are read at every step, the first marker's included; input weights once.
    """
    lstm = config.lstm
    gates = lstm.projection_dim * 4 * lstm.cell_dim
    projection = lstm.cell_dim * lstm.projection_dim if lstm.has_projection else 0
    recurring = lstm.num_layers * (gates + projection) * (num_tokens + 1)
    return _NUM_DIRECTIONS * bytes_per_weight * (recurring + lstm.num_layers * gates)


def num_prefixes(sentences: Iterable[Sentence]) -> int:
    """Distinct beginnings of the sentences.

    >>> num_prefixes([["a", "b"], ["a", "c"], ["a", "b"]])
    3
    """
    seen: dict[tuple[int, str], int] = {}
    for sentence in sentences:
        node = 0
        for word in sentence:
            node = seen.setdefault((node, word), len(seen) + 1)
    return len(seen)


def _distinct(sentences: Iterable[Sentence], markers: Iterable[str]) -> set[str]:
    return {word for sentence in sentences for word in sentence} | set(markers)
