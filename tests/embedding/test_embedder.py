"""The Embedder: equal to the biLM, independent of order in `reset`, exact in pieces, bounded in memory."""

import copy
import json
import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import elmo
from elmo.bilm.kernels import binding
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding import embedder as embedder_module
from elmo.embedding.carried_state import compute_warm_state
from elmo.embedding.embedder import Embedder
from elmo.embedding.word_cache import WordCache
from elmo.errors import ConfigError, InputError

GOLDEN = Path(__file__).parent.parent / "golden"
SENTENCES = [
    ["The", "bank", "raised", "its", "rates", "."],
    ["Yes"],
    [],
    ["東京", "は", "😀", "x" * 200, ""],
    ["She", "sat", "by", "the", "bank", "of", "the", "river", "."],
]

same_bilm_each_time = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
token_lists = st.lists(st.lists(words, max_size=12), min_size=1, max_size=12)


def close(actual: np.ndarray, expected: np.ndarray, tolerance: float = 1e-6) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


def alone(bilm: PretrainedBiLM, sentence: list[str]) -> np.ndarray:
    """All layers of one sentence, from the biLM itself."""
    with torch.no_grad():
        return bilm(bilm.indexer.batch([sentence])).layers[:, 0].numpy()


def test_each_sentence_gets_what_the_bilm_gives_it_alone(bilm: PretrainedBiLM) -> None:
    results = Embedder(bilm).embed(SENTENCES)
    assert len(results) == len(SENTENCES)
    for sentence, vectors in zip(SENTENCES, results, strict=True):
        assert vectors.dtype == np.float32 and vectors.flags.c_contiguous
        close(vectors, alone(bilm, sentence))
    assert np.abs(results[0]).max() > 0.1, "vectors this small would make the comparison empty"


@same_bilm_each_time
@given(sentences=token_lists, order=st.randoms(use_true_random=False), budget=st.integers(1, 200))
def test_reset_does_not_depend_on_order_or_batches(bilm: PretrainedBiLM, sentences, order, budget) -> None:
    expected = {tuple(sentence): alone(bilm, sentence) for sentence in sentences}
    shuffled = list(sentences)
    order.shuffle(shuffled)
    for vectors, sentence in zip(Embedder(bilm, batch_tokens=budget).embed(shuffled), shuffled, strict=True):
        close(vectors, expected[tuple(sentence)])


@pytest.mark.parametrize("layers", ["all", "average", "top", "concat", 1, [0.1, 0.2, 0.7]])
@pytest.mark.parametrize("pooling", [None, "mean", "max"])
@pytest.mark.parametrize("state", ["reset", "warm"])
def test_pieces_give_what_the_whole_gives(bilm: PretrainedBiLM, layers: Any, pooling: Any, state: Any) -> None:
    bilm.warm_state = compute_warm_state(bilm, [["some", "text"], ["."]])
    rng = np.random.default_rng(0)
    sentences = [[f"w{rng.integers(50)}" for _ in range(length)] for length in (700, 3, 0, 250, 1, 699)]
    whole = Embedder(bilm, layers=layers, pooling=pooling, state=state, batch_tokens=10**6).embed(sentences)
    pieces = Embedder(bilm, layers=layers, pooling=pooling, state=state, batch_tokens=64).embed(sentences)
    for one, other in zip(whole, pieces, strict=True):
        close(one, other)
    assert np.abs(whole[0]).max() > 0.1


@pytest.mark.parametrize("length", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_long_document(bilm: PretrainedBiLM, monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    rng = np.random.default_rng(1)
    document = [f"w{rng.integers(2000)}" for _ in range(length)]
    largest = 0
    forward = type(bilm.forward_lstm).forward

    def watched(self: Any, tokens: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        nonlocal largest
        largest = max(largest, tokens.shape[0] * tokens.shape[1])
        return forward(self, tokens, *args, **kwargs)

    monkeypatch.setattr(type(bilm.forward_lstm), "forward", watched)
    vectors = Embedder(bilm, batch_tokens=1000).embed([document])[0]
    assert vectors.shape == (3, length, 12)
    assert largest <= 1000
    # Far from a piece's border and far from the ends of the text the past is forgotten: compare with a stretch alone.
    # At the text's ends the markers stand, so that there the stretch is exact.
    close(vectors[:, :50], alone(bilm, document[:400])[:, :50])
    close(vectors[:, -50:], alone(bilm, document[-400:])[:, -50:])
    close(vectors[:, 5_000:5_050], alone(bilm, document[4_700:5_400])[:, 300:350])


def test_carry_equals_allennlp(bilm: PretrainedBiLM) -> None:
    batches = [[["a", "b"], ["c"]], [["d"], ["e", "f"]], [["g"]]]
    flat = [sentence for batch in batches for sentence in batch]
    results = iter(Embedder(bilm, state="carry", batch_size=2, batch_tokens=3).embed(flat))
    state = None
    for batch in batches[:2]:
        with torch.no_grad():
            output = bilm(bilm.indexer.batch(batch), state)
        state = output.state
        for row, sentence in enumerate(batch):
            close(next(results), output.layers[:, row, : len(sentence)].numpy())


@pytest.mark.parametrize("name", ["relu2", "tanh3", "relu1"])
def test_golden_allennlp(name: str) -> None:
    folder = GOLDEN / "allennlp" / name
    batches = json.loads((GOLDEN / "sentences.json").read_text(encoding="utf-8"))["batches"]
    expected = np.load(folder / "layers.npz")
    reset, carry = Embedder(folder), Embedder(folder, state="carry")
    for k, batch in enumerate(batches):
        for mode, embedder in (("reset", reset), ("carry", carry)):
            for row, vectors in enumerate(embedder.embed(batch)):
                close(vectors, expected[f"{mode}_{k}"][:, row, 1 : len(batch[row]) + 1])
        assert carry.carried.rows is not None
        both = torch.cat(list(carry.carried.rows.cell), dim=-1).numpy()
        close(both, expected[f"carry_cell_{k}"])


def test_the_old_tools_own_fixture(shared: Path) -> None:
    """Ten stateful batches of three, top layer; file k holds row k of each as (directions, tokens, dim)."""
    folder = shared / "fixtures" / "allennlp"
    rows = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    in_order = [line.split() for batch in zip(*rows, strict=True) for line in batch]
    embedder = Embedder(folder / "lm_weights.hdf5", layers="top", state="carry", batch_size=3)
    for place, vectors in enumerate(embedder.embed(in_order)):
        with h5py.File(folder / f"lm_embeddings_{place % 3}.hdf5") as file:
            expected = np.concatenate(list(file[str(place // 3)]), axis=-1)
        np.testing.assert_allclose(vectors, expected, rtol=1e-6, atol=1e-6)


def test_carried_state_persists_until_reset(bilm: PretrainedBiLM) -> None:
    embedder = Embedder(bilm, state="carry")
    first, second = embedder.embed([["a"]])[0], embedder.embed([["a"]])[0]
    assert np.abs(first - second).max() > 1e-3
    embedder.carried.reset()
    close(embedder.embed([["a"]])[0], first)


def test_warm_state_starts_every_sentence(bilm: PretrainedBiLM) -> None:
    with pytest.raises(ConfigError, match="elmo convert MODEL FOLDER --warm-text FILE"):
        Embedder(bilm, state="warm")
    bilm.warm_state = compute_warm_state(bilm, [["some", "text"], ["."]])
    results = Embedder(bilm, state="warm").embed([["a", "b"], ["c"], ["a", "b"]])
    close(results[0], results[2])
    with torch.no_grad():
        close(results[1], bilm(bilm.indexer.batch([["c"]]), bilm.warm_state).layers[:, 0].numpy())


def test_the_warm_state_is_saved_with_the_model(bilm: PretrainedBiLM, tmp_path: Path) -> None:
    bilm.warm_state = compute_warm_state(bilm, [["some", "text"]])
    bilm.save_pretrained(tmp_path)
    expected = Embedder(bilm, state="warm").embed([["c"]])[0]
    close(Embedder(tmp_path, state="warm").embed([["c"]])[0], expected)


def test_shapes_and_precision(bilm: PretrainedBiLM) -> None:
    assert Embedder(bilm, layers="top").embed(["a b"])[0].shape == (2, 12)
    assert Embedder(bilm, layers="concat").embed(["a b"])[0].shape == (2, 36)
    assert Embedder(bilm, pooling="mean").embed(["a b", ""])[1].shape == (3, 12)
    assert Embedder(bilm, layers=0, pooling="max").embed(["a b", ""])[0].shape == (12,)
    half = Embedder(bilm, dtype="float16").embed(["a b"])[0]
    assert half.dtype == np.float16
    close(half.astype(np.float32), Embedder(bilm).embed(["a b"])[0], 2e-3)
    assert Embedder(bilm, layers="concat").output_dim == 36 and Embedder(bilm).output_dim == 12


def test_weights_of_less_precision_are_asked_for_when_a_model_is_opened(bilm: PretrainedBiLM, tmp_path: Path) -> None:
    bilm.save_pretrained(tmp_path)
    exact = Embedder(tmp_path).embed(["a b"])[0]
    small = Embedder(tmp_path, precision="int8")
    assert small.model.precision == elmo.load(tmp_path, precision="int8").precision == "int8"
    if binding.available():
        assert not np.array_equal(small.embed(["a b"])[0], exact)
    close(small.embed(["a b"])[0], exact, 5e-2)
    with pytest.raises(ConfigError, match="pass the precision to"):
        Embedder(bilm, precision="int8")
    with pytest.raises(ConfigError, match="Unknown precision 'int3'"):
        elmo.load(tmp_path, precision="int3")


def test_a_bare_string_and_strings_are_tokenised(bilm: PretrainedBiLM) -> None:
    embedder = Embedder(bilm)
    (sentence,) = embedder.stream("It isn't.")
    assert sentence.tokens == ["It", "is", "n't", "."]
    close(sentence.vectors, embedder.embed([["It", "is", "n't", "."]])[0])


def test_a_stream_is_lazy_and_keeps_order(bilm: PretrainedBiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0

    def source() -> Iterator[list[str]]:
        nonlocal read
        for number in range(100_000):
            read += 1
            yield [f"w{number % 7}"] * (number % 11)

    monkeypatch.setattr(embedder_module, "_WINDOW_BYTES", 10_000)
    stream = Embedder(bilm, batch_tokens=50).stream(source())
    for number in range(200):
        assert next(stream).tokens == [f"w{number % 7}"] * (number % 11)
    assert read < 400


def test_too_little_memory_halves_the_batch(bilm: PretrainedBiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = [[f"w{index}"] * 5 for index in range(40)]
    expected = Embedder(bilm).embed(sentences)
    contextualize = type(bilm).contextualize

    def limited(self: Any, vectors: Any, positions: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if positions.numel() > 70:
            raise RuntimeError(
                "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"
            )
        return contextualize(self, vectors, positions, *args, **kwargs)

    monkeypatch.setattr(type(bilm), "contextualize", limited)
    embedder = Embedder(bilm)
    for one, other in zip(embedder.embed(sentences), expected, strict=True):
        close(one, other)
    assert embedder.batch_tokens < 4096
    embedder = Embedder(bilm, state="carry", batch_size=40)
    for one, other in zip(embedder.embed(sentences), expected, strict=True):
        close(one, other)


def test_out_of_memory_for_one_token_is_an_error(bilm: PretrainedBiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: Any, **kwargs: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(type(bilm), "contextualize", never)
    monkeypatch.setattr(embedder_module, "contextualize_in_pieces", never)
    with pytest.raises(InputError, match="Not enough memory for a sentence of 3 tokens"):
        Embedder(bilm).embed([["a", "b", "c"]])


def test_other_errors_are_not_treated_as_out_of_memory(bilm: PretrainedBiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(type(bilm), "contextualize", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        Embedder(bilm).embed([["a"]])


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "hot"},
        {"pooling": "sum"},
        {"precision": "int3"},
        {"layers": 9},
        {"batch_tokens": 0},
        {"batch_size": 1.5},
        {"cache": "large"},
    ],
)
def test_unknown_settings_are_refused(bilm: PretrainedBiLM, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Embedder(bilm, **wrong)


def test_the_bundled_model_is_the_default() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Embedder().embed(["Hello there."])[0].ndim == 3


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda embedder: pickle.loads(pickle.dumps(embedder))])
def test_an_embedder_can_be_copied_and_pickled(bilm: PretrainedBiLM, copied: Callable[[Embedder], Embedder]) -> None:
    embedder = Embedder(bilm, state="carry", layers="top", cache=1 << 20)
    embedder.embed(SENTENCES)
    other = copied(embedder)
    assert other.cache is not None and other.cache.bilm is other.model and other.model is not bilm
    assert len(other.cache) == 0 and other.cache.max_bytes == 1 << 20
    for ours, theirs in zip(other.embed(SENTENCES), embedder.embed(SENTENCES), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-5), (torch.float16, 1e-2), (torch.bfloat16, 5e-2)])
@pytest.mark.parametrize("options", [{}, {"pooling": "mean"}, {"batch_tokens": 4}, {"state": "warm"}])
def test_models_of_other_number_types(
    bilm: PretrainedBiLM, dtype: torch.dtype, tolerance: float, options: dict[str, Any]
) -> None:
    """Also when the type changes while the embedder is in use."""
    bilm.warm_state = compute_warm_state(bilm, [["some", "text"]])
    embedder = Embedder(bilm, **options)
    expected = embedder.embed(SENTENCES)
    bilm.to(dtype)
    for ours, theirs in zip(embedder.embed(SENTENCES), expected, strict=True):
        assert ours.dtype == np.float32
        close(ours, theirs, tolerance)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.skipif(not binding.available(), reason="the reference follows autocast, as torch's modules do")
def test_autocast_changes_nothing(bilm: PretrainedBiLM, dtype: torch.dtype) -> None:
    embedder, expected = Embedder(bilm), Embedder(bilm).embed(SENTENCES)
    with torch.autocast("cpu", dtype):
        inside = embedder.embed(SENTENCES)
    for one, other, theirs in zip(inside, embedder.embed(SENTENCES), expected, strict=True):
        np.testing.assert_array_equal(one, theirs)
        np.testing.assert_array_equal(other, theirs)


def test_a_cache_of_another_model_is_refused(bilm: PretrainedBiLM) -> None:
    cache = WordCache(bilm)
    assert Embedder(bilm, cache=cache).cache is cache
    with pytest.raises(ConfigError, match="belongs to another model"):
        Embedder(copy.deepcopy(bilm), cache=cache)
