import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo.bilm.kernels import binding
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.carried_state import compute_warm_state
from elmo.embedding.embedder import Embedder
from elmo.embedding.layers import choose_layers
from elmo.embedding.long_sentences import PieceSettings, Reading, contextualize_in_pieces
from elmo.embedding.word_cache import encode_words


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    piece=st.integers(1, 50),
    with_state=st.booleans(),
    layers=st.sampled_from(["all", "average", 1]),
)
def test_vectors_and_state_are_those_of_the_whole(
    bilm: PretrainedBiLM, lengths: list[int], piece: int, with_state: bool, layers: str | int
) -> None:
    if not binding.available():
        # torch rounds float32 products by the batch's shape, and this model's weights magnify that.
        bilm.double()
    sentences = [[f"w{row * 3 + place % 5}" for place in range(length)] for row, length in enumerate(lengths)]
    where = bilm.indexer.positions(sentences)
    vectors = encode_words(bilm, where.words)
    state = compute_warm_state(bilm, [["x"]]).expand(len(lengths)) if with_state else None
    choice = choose_layers(layers, 3)
    with torch.no_grad():
        whole = bilm.contextualize(vectors, where.positions, where.lengths, state=state)
    pieces = PieceSettings(piece, choice, None, np.dtype("float32"))
    result = contextualize_in_pieces(bilm, Reading(vectors, where.positions, where.lengths), state, pieces)
    expected = choice.select(whole.layers).numpy()
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(result.vectors[row], expected[:, row, :length], rtol=0, atol=1e-6)
    torch.testing.assert_close(result.state.hidden, whole.state.hidden, rtol=0, atol=1e-6)
    torch.testing.assert_close(result.state.cell, whole.state.cell, rtol=0, atol=1e-6)


@pytest.mark.skipif(not binding.available(), reason="no compiled kernels")
def test_weights_of_less_precision_are_those_of_the_whole(bilm: PretrainedBiLM) -> None:
    """A sentence's vectors do not depend on whether it runs in pieces."""
    sentence = [f"w{place % 7}" for place in range(60)]
    exact = Embedder(bilm).embed([sentence])[0]
    bilm.precision = "int8"
    whole, pieces = Embedder(bilm).embed([sentence])[0], Embedder(bilm, batch_tokens=20).embed([sentence])[0]
    np.testing.assert_allclose(pieces, whole, rtol=0, atol=1e-6)
    assert np.abs(whole - exact).max() > 1e-4
