"""Both kinds of batches: what they contain, and that a position is enough to resume."""

from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.pretrain.batches import Batch, Sentences, Streams, cut_by_budget, cut_long, make_batches
from elmo.pretrain.corpus import Corpus
from elmo.pretrain.settings import DataSettings

STREAMS = DataSettings(batching="streams", batch_size=5, unroll_steps=7)
SENTENCES = DataSettings(batching="sentences", batch_tokens=60, max_sentence_tokens=9)


def same(first: Batch, second: Batch) -> bool:
    pairs = [(getattr(first, way), getattr(second, way)) for way in ("forward", "backward")]
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for a, b in pairs
        for name in ("inputs", "targets", "lengths")
    )


@pytest.mark.parametrize("settings", [STREAMS, SENTENCES], ids=["streams", "sentences"])
def test_a_position_is_enough_to_resume(corpus: Corpus, settings: DataSettings) -> None:
    batches = make_batches(corpus, settings, seed=3)
    places: list[dict[str, Any]] = []
    read = []
    for _ in range(150):
        places.append(batches.position())
        read.append(batches.read())
    for start in (0, 1, 77, 149):
        fresh = make_batches(corpus, settings, seed=3)
        fresh.go_to(places[start])
        assert all(same(fresh.read(), batch) for batch in read[start:])
        assert fresh.epochs_read == batches.epochs_read
    assert not same(make_batches(corpus, settings, seed=4).read(), read[0])


@pytest.mark.parametrize("settings", [STREAMS, SENTENCES], ids=["streams", "sentences"])
@pytest.mark.parametrize("of", [2, 3])
def test_parts_of_a_batch_add_up_to_the_batch(corpus: Corpus, settings: DataSettings, of: int) -> None:
    batch = make_batches(corpus, settings, seed=0).read()
    parts = [batch.part(index, of) for index in range(of)]
    assert sum(part.num_tokens for part in parts) == batch.num_tokens
    assert np.array_equal(parts[1].backward.inputs, batch.backward.inputs[1::of])


def test_streams_continue_where_they_stopped(corpus: Corpus) -> None:
    """Row after row, the batches put together are whole sentences; forward and backward read different ones."""
    streams = Streams(corpus, STREAMS, seed=0)
    batches = [streams.read() for _ in range(30)]
    begin, end, _ = corpus.special_ids
    known = {tuple(int(word) for word in sentence) for sentence in sentences_of(corpus)}
    for row in range(STREAMS.batch_size):
        forward = list(chain.from_iterable(batch.forward.inputs[row] for batch in batches))
        targets = list(chain.from_iterable(batch.forward.targets[row] for batch in batches))
        backward = list(chain.from_iterable(batch.backward.inputs[row] for batch in batches))
        assert end not in forward and begin not in targets
        assert begin not in backward
        for sentence in split(forward, begin)[:-1]:
            assert (begin, *sentence, end) in known
        for sentence in split(backward, end)[:-1]:
            assert (begin, *reversed(sentence), end) in known
        # A target is the next input, unless it is the sentence's end.
        assert all(target in (after, end) for target, after in zip(targets, forward[1:], strict=False))
    assert not np.array_equal(batches[0].forward.inputs[:, 1], batches[0].backward.targets[:, -2])


def test_an_epoch_of_streams_reads_every_sentence_once(corpus: Corpus) -> None:
    streams = Streams(corpus, STREAMS, seed=0)
    while streams.epochs_read < 1:
        streams.read()
    taken = streams.directions[0].order.sentences(0, streams.directions[0].next_draw)
    number = corpus.role("train")[0].num_sentences
    assert number - 5 <= len(set(taken.tolist())) and streams.directions[0].next_draw <= number + 5


def test_an_epoch_of_sentences_reads_every_token_once(corpus: Corpus) -> None:
    batches = Sentences(corpus, SENTENCES, seed=0)
    source = corpus.role("train")[0]
    read: list[Batch] = []
    while batches.epochs_read < 1:
        read.append(batches.read())
    assert sum(batch.num_tokens for batch in read) == source.num_tokens
    targets = np.concatenate([real(batch.forward.targets, batch) for batch in read])
    begin, end, _ = corpus.special_ids
    text = np.concatenate(sentences_of(corpus))
    assert np.array_equal(np.bincount(targets), np.bincount(text[text != begin]))
    backward = np.concatenate([real(batch.backward.targets, batch) for batch in read])
    assert np.bincount(backward)[begin] == source.num_sentences and end not in backward
    assert all(batch.forward.inputs.size <= SENTENCES.batch_tokens for batch in read)
    assert max(batch.forward.inputs.shape[1] for batch in read) == SENTENCES.max_sentence_tokens


def test_both_directions_read_the_same_sentences(corpus: Corpus) -> None:
    batch = Sentences(corpus, SENTENCES, seed=0).read()
    for row, length in enumerate(batch.forward.lengths):
        forward = [*batch.forward.inputs[row, :length], batch.forward.targets[row, length - 1]]
        backward = [*batch.backward.inputs[row, :length], batch.backward.targets[row, length - 1]]
        assert forward == backward[::-1]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(1, 20))
def test_long_sentences_in_pieces_lose_nothing(lengths: list[int], longest: int) -> None:
    ends = np.cumsum([length + 1 for length in lengths])
    spans = np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)
    pieces = cut_long(spans, longest)
    predicted = [range(start + 1, end) for start, end in pieces]
    assert max(map(len, predicted)) <= longest
    assert list(chain.from_iterable(predicted)) == [place for start, end in spans for place in range(start + 1, end)]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=50), st.integers(1, 200))
def test_batches_keep_the_budget(lengths: list[int], budget: int) -> None:
    ends = np.cumsum([length + 1 for length in lengths])
    spans = np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)
    cuts = cut_by_budget(spans, budget)
    assert sorted(map(tuple, np.concatenate(cuts))) == sorted(map(tuple, spans))
    for cut in cuts:
        longest = int((cut[:, 1] - cut[:, 0]).max()) - 1
        assert len(cut) == 1 or longest * len(cut) <= budget


def sentences_of(corpus: Corpus) -> list[np.ndarray]:
    source = corpus.role("train")[0]
    bounds = corpus.offsets[source.first_sentence : source.first_sentence + source.num_sentences + 1]
    return [np.asarray(corpus.tokens[start:end]) for start, end in pairwise(bounds)]


def split(ids: list[int], marker: int) -> list[tuple[int, ...]]:
    found: list[list[int]] = []
    for word in ids:
        if word == marker:
            found.append([])
        else:
            found[-1].append(int(word))
    return [tuple(sentence) for sentence in found]


def real(ids: np.ndarray, batch: Batch) -> np.ndarray:
    return ids[np.arange(ids.shape[1]) < batch.forward.lengths[:, None]]


def test_an_epoch_has_an_update_even_if_the_corpus_is_smaller_than_a_batch(corpus: Corpus) -> None:
    batches = make_batches(corpus, replace(SENTENCES, batch_tokens=1_000_000), seed=0)
    assert batches.epoch_updates == 1
    for _ in range(3):
        batches.read()
    assert batches.epochs_read == 3
