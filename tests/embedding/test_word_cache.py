import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from elmo.bilm.kernels import binding
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder
from elmo.embedding.word_cache import WORDS_FILE, WordCache, encode_words
from elmo.errors import CheckpointError, ConfigError

ROW_BYTES = 6 * 4 + 160  # of the tests' biLM


def _words(count: int, start: int = 0) -> list[str]:
    return [f"word{number}" for number in range(start, start + count)]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    queries=st.lists(st.lists(st.text(max_size=6), max_size=8), min_size=1, max_size=10),
    room=st.integers(0, 12),
)
def test_cached_vectors_equal_computed_ones(bilm: PretrainedBiLM, queries: list[list[str]], room: int) -> None:
    """Also of repeated words, and of none."""
    cache = WordCache(bilm, max_bytes=room * ROW_BYTES)
    for words in queries:
        torch.testing.assert_close(cache.vectors(words), encode_words(bilm, words), atol=1e-6, rtol=0)
        assert len(cache) <= room and cache.num_bytes <= room * ROW_BYTES


def test_many_words_at_once(bilm: PretrainedBiLM) -> None:
    words = [("x" * (number % 60)) + str(number) for number in range(2500)]
    at_once = bilm.token_encoder(bilm.indexer.word_table(words))
    torch.testing.assert_close(encode_words(bilm, words), at_once, atol=1e-6, rtol=0)


def test_known_words_are_not_computed_again(bilm: PretrainedBiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def encode(model: PretrainedBiLM, words: list[str]) -> torch.Tensor:
        asked.extend(words)
        return encode_words(model, words)

    monkeypatch.setattr("elmo.embedding.word_cache.encode_words", encode)
    cache = WordCache(bilm)
    cache.vectors(["a", "b"])
    cache.vectors(["b", "c", "a"])
    assert asked == ["a", "b", "c"]


def test_the_least_recently_used_word_is_dropped(bilm: PretrainedBiLM) -> None:
    cache = WordCache(bilm, max_bytes=3 * ROW_BYTES)
    cache.vectors(["a", "b", "c"])
    cache.vectors(["a"])
    cache.vectors(["d"])
    assert "a" in cache and "d" in cache and "b" not in cache


def test_changed_weights_are_detected(bilm: PretrainedBiLM) -> None:
    cache = WordCache(bilm)
    before = cache.vectors(["a", "b"])
    optimiser = torch.optim.SGD(bilm.token_encoder.parameters(), lr=0.5)
    bilm.token_encoder(bilm.indexer.word_table(["a"])).sum().backward()
    optimiser.step()
    after = cache.vectors(["a", "b"])
    assert (after - before).abs().max() > 1e-3
    torch.testing.assert_close(after, encode_words(bilm, ["a", "b"]), atol=1e-6, rtol=0)


def test_off_while_the_token_encoder_trains(bilm: PretrainedBiLM) -> None:
    cache = WordCache(bilm)
    bilm.train()
    cache.vectors(["a"])
    assert len(cache) == 0
    bilm.requires_grad_(False)
    cache.vectors(["a"])
    assert len(cache) == 1


def test_warming_stops_when_the_cache_is_full(bilm: PretrainedBiLM) -> None:
    cache = WordCache(bilm)
    cache.warm(_words(3000))
    assert len(cache) == 3000
    cache = WordCache(bilm, max_bytes=40_000 * ROW_BYTES)
    cache.warm(_words(100_000))
    # Where the kernels run, half of the memory is for the words' first input products.
    assert len(cache) == (20_000 if binding.available() else 40_000) and "word0" in cache


def test_saved_beside_a_model_and_found_again(bilm: PretrainedBiLM, tmp_path: Path) -> None:
    bilm.save_pretrained(tmp_path)
    strange = ["line\nbreak", "back\\slash", "\\n", "", "東京", "\ud800"]
    cache = WordCache(bilm)
    cache.warm([*_words(10), *strange])
    cache.save(tmp_path / WORDS_FILE)
    embedder = Embedder(tmp_path)
    assert embedder.cache is not None and len(embedder.cache) == 16
    torch.testing.assert_close(embedder.cache.vectors(strange), encode_words(bilm, strange), atol=1e-6, rtol=0)
    assert len(embedder.cache) == 16
    small = WordCache(bilm, max_bytes=4 * ROW_BYTES)
    small.load(tmp_path / WORDS_FILE)
    assert len(small) == 4


def test_words_without_their_vectors_are_refused(bilm: PretrainedBiLM, tmp_path: Path) -> None:
    cache = WordCache(bilm)
    cache.vectors(["bank", "river"])
    cache.save(tmp_path / WORDS_FILE)
    with safe_open(tmp_path / WORDS_FILE, "pt") as file:
        metadata, words, vectors = file.metadata(), file.get_tensor("words"), file.get_tensor("vectors")
    save_file({"words": words, "vectors": vectors[:-1].clone()}, tmp_path / WORDS_FILE, metadata=metadata)
    with pytest.raises(CheckpointError, match=r"holds 2 words and vectors of the shape \(1, \d+\)"):
        WordCache(bilm).load(tmp_path / WORDS_FILE)
    for other in (b"7", b"[1, 2]"):
        words = torch.frombuffer(bytearray(other), dtype=torch.uint8)
        save_file({"words": words, "vectors": vectors}, tmp_path / WORDS_FILE, metadata=metadata)
        with pytest.raises(CheckpointError, match="holds no list of words"):
            WordCache(bilm).load(tmp_path / WORDS_FILE)


def test_words_of_other_weights_are_refused(bilm: PretrainedBiLM, tmp_path: Path) -> None:
    WordCache(bilm).save(tmp_path / WORDS_FILE)
    with torch.no_grad():
        bilm.token_encoder.projection.bias.add_(1)  # type: ignore[union-attr]
    with pytest.raises(CheckpointError, match="other weights"):
        WordCache(bilm).load(tmp_path / WORDS_FILE)
    (tmp_path / WORDS_FILE).write_bytes(b"rubbish")
    with pytest.raises(CheckpointError, match="Cannot read"):
        WordCache(bilm).load(tmp_path / WORDS_FILE)


def test_very_long_words_are_not_cached(bilm: PretrainedBiLM) -> None:
    cache = WordCache(bilm)
    cache.vectors(["x" * 10_000_000])
    assert len(cache) == 0


def test_threads_share_one_cache(bilm: PretrainedBiLM) -> None:
    cache = WordCache(bilm, max_bytes=40 * ROW_BYTES)
    expected = encode_words(bilm, _words(200))
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        try:
            for _ in range(60):
                picked = torch.randperm(200, generator=generator)[:20]
                got = cache.vectors([f"word{number}" for number in picked.tolist()])
                torch.testing.assert_close(got, expected[picked], atol=1e-6, rtol=0)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(cache) == 40


def test_clearing_keeps_the_sentence_markers_alone(bilm: PretrainedBiLM) -> None:
    markers = [bilm.indexer.begin_sentence, bilm.indexer.end_sentence]
    cache = WordCache(bilm)
    cache.clear()
    cache.vectors([*_words(2000), *markers])
    cache.clear()
    assert len(cache) == 2 and all(marker in cache for marker in markers)
    expected = encode_words(bilm, [*markers, "a", "b"])
    torch.testing.assert_close(cache.vectors([*markers, "a", "b"]), expected, atol=1e-6, rtol=0)
    assert cache.num_bytes < 2000 * ROW_BYTES


def _multiply_behind_autograds_back(bilm: PretrainedBiLM) -> None:
    for parameter in bilm.token_encoder.parameters():
        parameter.data.mul_(1.5)


def _fused_update(bilm: PretrainedBiLM) -> None:
    optimiser = torch.optim.AdamW(bilm.token_encoder.parameters(), lr=0.1, fused=True)
    bilm.token_encoder(bilm.indexer.word_table(["a"])).sum().backward()
    optimiser.step()


def _other_numbers(bilm: PretrainedBiLM) -> None:
    parameters = list(bilm.token_encoder.parameters())
    nn.utils.vector_to_parameters(1.5 * nn.utils.parameters_to_vector(parameters), parameters)


def _another_layer(bilm: PretrainedBiLM) -> None:
    old = bilm.token_encoder.projection
    assert old is not None
    bilm.token_encoder.projection = nn.Linear(old.in_features, old.out_features)


@pytest.mark.parametrize("change", [_multiply_behind_autograds_back, _fused_update, _other_numbers, _another_layer])
def test_changes_unknown_to_autograd_are_detected(
    bilm: PretrainedBiLM, change: Callable[[PretrainedBiLM], None]
) -> None:
    cache = WordCache(bilm)
    before = cache.vectors(["a", "b"])
    change(bilm)
    after = cache.vectors(["a", "b"])
    assert (after - before).abs().max() > 1e-3
    torch.testing.assert_close(after, encode_words(bilm, ["a", "b"]), atol=1e-6, rtol=0)


def test_a_cache_filled_in_inference_mode_works_outside(bilm: PretrainedBiLM) -> None:
    cache = WordCache(bilm)
    with torch.inference_mode():
        cache.vectors(_words(3))
    cache.vectors(_words(2000))
    with torch.inference_mode():
        cache.clear()
    torch.testing.assert_close(cache.vectors(_words(9)), encode_words(bilm, _words(9)), atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_does_not_change_cached_vectors(bilm: PretrainedBiLM, dtype: torch.dtype) -> None:
    expected, cache = encode_words(bilm, _words(5)), WordCache(bilm)
    with torch.autocast("cpu", dtype):
        assert torch.equal(cache.vectors(_words(5)), expected)
    assert torch.equal(cache.vectors(_words(5)), expected)


def test_a_negative_size_is_refused(bilm: PretrainedBiLM) -> None:
    with pytest.raises(ConfigError, match="max_bytes is -1"):
        WordCache(bilm, max_bytes=-1)


def test_a_word_that_is_given_twice_takes_one_row(make_bilm: Callable[..., PretrainedBiLM]) -> None:
    bilm = make_bilm()
    cache = WordCache(bilm)
    expected = encode_words(bilm, ["the", "bank"])
    assert torch.equal(cache.vectors(["the", "the"]), expected[[0, 0]])
    assert torch.equal(cache.vectors(["bank"]), expected[1:])
    assert torch.equal(cache.vectors(["the", "bank"]), expected)


def test_repeated_words_that_are_not_cached(bilm: PretrainedBiLM) -> None:
    words = ["the", "x" * 201, "x" * 201]
    torch.testing.assert_close(WordCache(bilm).vectors(words), encode_words(bilm, words), atol=1e-6, rtol=0)
