import threading

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo.bilm.kernels import binding
from elmo.bilm.kernels.lstm_inference import first_product_width
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding import first_products
from elmo.embedding.embedder import Embedder
from elmo.embedding.first_products import FirstProductCache
from elmo.embedding.word_cache import LONGEST_WORD, WordCache

pytestmark = pytest.mark.skipif(not binding.available(), reason="no compiled kernels")
SENTENCES = [["a", "bank", "by", "a", "river"], ["a", "bank"]]


def small_cache(bilm: PretrainedBiLM, num_words: int) -> FirstProductCache:
    """One with room for so few words."""
    row_bytes = 2 * 4 * first_product_width(bilm.config.lstm.cell_dim)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first_products, "MIN_WORDS", 1)
        return FirstProductCache(bilm, max_bytes=num_words * row_bytes)


def layers(bilm: PretrainedBiLM, sentences: list[list[str]], cache: FirstProductCache | None) -> torch.Tensor:
    where = bilm.indexer.positions(sentences)
    with torch.no_grad():
        vectors = bilm.token_encoder(bilm.indexer.word_table(where.words))
        if cache is None:
            return bilm.contextualize(vectors, where.positions, where.lengths).layers
        with cache.lend(where.words, vectors) as products:
            return bilm.contextualize(vectors, where.positions, where.lengths, first_products=products).layers


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=5), min_size=1, max_size=3), max_size=8)
)
def test_cached_products_equal_computed_ones(bilm: PretrainedBiLM, batches: list[list[list[str]]]) -> None:
    """Also with words that make way for others, and with more of them than there is room for."""
    cache = small_cache(bilm, 7)
    assert cache.num_words == 7
    for sentences in batches:
        assert torch.equal(layers(bilm, sentences, cache), layers(bilm, sentences, None))
        assert cache.num_bytes <= 7 * 2 * 4 * first_product_width(bilm.config.lstm.cell_dim)


def test_the_least_recently_used_word_is_dropped(bilm: PretrainedBiLM) -> None:
    cache, most = small_cache(bilm, 5), 5
    vectors = torch.zeros(most, bilm.config.lstm.projection_dim)

    def slots(words: list[str]) -> list[int]:
        with torch.no_grad(), cache.lend(words, vectors[: len(words)]) as products:
            assert products is not None
            return products.slots.tolist()

    words = [str(number) for number in range(most)]
    assert slots(words) == [-1 - slot for slot in range(most)]
    assert slots(["0", "new"]) == [0, -2], "word 1 makes way"
    assert slots(["1", "0", "new"]) == [-3, 0, 1], "and then word 2"
    with torch.no_grad(), cache.lend([*words, "more"], vectors) as products:
        assert products is None


def test_embedding_again_gives_the_same(bilm: PretrainedBiLM) -> None:
    embedder, plain = Embedder(bilm), Embedder(bilm, cache=0)
    expected = plain.embed(SENTENCES)
    for _ in range(2):
        for ours, theirs in zip(embedder.embed(SENTENCES), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert embedder.cache is not None and embedder.cache._first_products.num_bytes > 0


@pytest.mark.parametrize("changed", ["token_encoder.projection.weight", "forward_lstm.layers.0.bias"])
def test_changed_weights_are_detected(bilm: PretrainedBiLM, changed: str) -> None:
    embedder = Embedder(bilm)
    embedder.embed(SENTENCES)
    with torch.no_grad():
        bilm.get_parameter(changed).mul_(1.5)
    expected = Embedder(bilm, cache=0).embed(SENTENCES)
    for ours, theirs in zip(embedder.embed(SENTENCES), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_another_precision_has_products_of_its_own(bilm: PretrainedBiLM) -> None:
    embedder = Embedder(bilm)
    embedder.embed(SENTENCES)
    bilm.precision = "float16"
    np.testing.assert_array_equal(embedder.embed(SENTENCES)[0], Embedder(bilm, cache=0).embed(SENTENCES)[0])


def test_a_second_thread_gets_no_cached_products(bilm: PretrainedBiLM) -> None:
    cache = FirstProductCache(bilm, max_bytes=1 << 23)
    vectors = torch.zeros(1, bilm.config.lstm.projection_dim)
    got: list[object] = []

    def borrow() -> None:
        with torch.no_grad(), cache.lend(["b"], vectors) as products:
            got.append(products)

    with torch.no_grad(), cache.lend(["a"], vectors) as products:
        assert products is not None
        thread = threading.Thread(target=borrow)
        thread.start()
        thread.join()
    assert got == [None]


def test_a_run_that_fails_leaves_nothing_behind(bilm: PretrainedBiLM) -> None:
    cache = FirstProductCache(bilm, max_bytes=1 << 23)
    vectors = torch.zeros(1, bilm.config.lstm.projection_dim)
    with torch.no_grad(), pytest.raises(MemoryError), cache.lend(["a"], vectors):
        raise MemoryError
    with torch.no_grad(), cache.lend(["a"], vectors) as products:
        assert products is not None and products.slots.tolist() == [-1]


def test_no_products_for_very_long_words_or_a_training_encoder(bilm: PretrainedBiLM) -> None:
    cache = WordCache(bilm)
    vectors = torch.zeros(1, bilm.config.lstm.projection_dim)
    for word, is_usable in (("a" * LONGEST_WORD, True), ("a" * (LONGEST_WORD + 1), False)):
        with torch.no_grad(), cache.lend_products([word], vectors) as products:
            assert (products is not None) == is_usable
    bilm.train()
    cache.vectors(["a"])
    with torch.no_grad(), cache.lend_products(["a"], vectors) as products:
        assert products is None


def test_torchs_default_device_changes_nothing(bilm: PretrainedBiLM) -> None:
    cache = FirstProductCache(bilm, max_bytes=1 << 23)
    vectors = torch.zeros(1, bilm.config.lstm.projection_dim)
    with torch.no_grad(), torch.device("meta"), cache.lend(["a"], vectors) as products:
        assert products is not None and products.slots.is_cpu


@pytest.mark.parametrize("module", ["forward_lstm", "backward_lstm", "token_encoder", "token_encoder.projection"])
def test_a_temporary_hook_leaves_nothing_behind(bilm: PretrainedBiLM, module: str) -> None:
    """A hook that changes nothing, and one that changes the output while it is there."""
    expected = Embedder(bilm, cache=0).embed(SENTENCES)
    embedder = Embedder(bilm)
    hook = bilm.get_submodule(module).register_forward_hook(lambda *_: None)
    embedder.embed(SENTENCES)
    hook.remove()
    for _ in range(2):
        for ours, theirs in zip(embedder.embed(SENTENCES), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_hook_on_the_token_encoder_takes_effect_at_once(bilm: PretrainedBiLM) -> None:
    embedder, plain = Embedder(bilm), Embedder(bilm, cache=0)
    before = embedder.embed(SENTENCES)
    hook = bilm.token_encoder.register_forward_hook(lambda module, inputs, output: output * 0)
    for ours, theirs, old in zip(embedder.embed(SENTENCES), plain.embed(SENTENCES), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert not np.array_equal(ours, old)
    hook.remove()
    for ours, old in zip(embedder.embed(SENTENCES), before, strict=True):
        np.testing.assert_array_equal(ours, old)
