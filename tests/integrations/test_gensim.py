"""gensim's own KeyedVectors holds the token layer, searches it, and writes it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

gensim_models = pytest.importorskip("gensim.models")

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder
from elmo.errors import InputError
from elmo.integrations.gensim import keyed_vectors, write_word2vec
from elmo.text.vocabulary import Vocabulary

WORDS = ["bank", "banks", "river", "Fluß", "銀行", "bank"]


def test_the_vectors_are_the_token_layer(bilm: PretrainedBiLM, tmp_path: Path) -> None:
    vectors = keyed_vectors(bilm, WORDS)
    assert vectors.index_to_key == WORDS[:-1]
    layer = Embedder(bilm, layers=0).embed([WORDS[:-1]])[0]
    # Layer 0 holds the token vector twice.
    np.testing.assert_array_equal(vectors.vectors, layer[:, : vectors.vector_size])
    (nearest, cosine), *_ = vectors.most_similar("bank")
    units = vectors.vectors / np.linalg.norm(vectors.vectors, axis=1, keepdims=True)
    cosines = units[1:] @ units[0]
    assert nearest == WORDS[1 + cosines.argmax()] and cosine == pytest.approx(cosines.max(), abs=1e-6)
    vectors.save_word2vec_format(str(tmp_path / "words.bin"), binary=True)
    again = gensim_models.KeyedVectors.load_word2vec_format(str(tmp_path / "words.bin"), binary=True)
    assert again.index_to_key == vectors.index_to_key
    np.testing.assert_array_equal(again.vectors, vectors.vectors)


def test_the_models_own_words(bilm: PretrainedBiLM, folder: Path) -> None:
    with pytest.raises(InputError, match="has no vocabulary"):
        keyed_vectors(folder)
    bilm.vocabulary = Vocabulary.build(["the", "bank", "the"])
    assert keyed_vectors(bilm).index_to_key == ["the", "bank"]


@pytest.mark.parametrize("name", ["w.vec", "w.bin", "w.vec.gz", "w.bin.gz", "w.txt.bz2"])
def test_files_have_the_form_that_their_names_say(bilm: PretrainedBiLM, tmp_path: Path, name: str) -> None:
    words = tmp_path / "words.txt"
    words.write_text("bank\nFluß\n", encoding="utf-8")
    written = write_word2vec(bilm, tmp_path / name, words=words)
    again = gensim_models.KeyedVectors.load_word2vec_format(str(tmp_path / name), binary=".bin" in name)
    assert again.index_to_key == ["bank", "Fluß"]
    np.testing.assert_allclose(again.vectors, written.vectors, atol=1e-6)
    assert {path.name for path in tmp_path.iterdir()} == {name, "words.txt"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [("bank", "into a list"), ([], "No words"), (["a", ""], "Word 1 is ''"), (["a", 3], "Word 1 is 3")],
)
def test_invalid_input_is_refused(bilm: PretrainedBiLM, words: object, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        keyed_vectors(bilm, words)  # type: ignore[arg-type]


def test_without_gensim(message_without: Callable[[str, str], str]) -> None:
    assert "pip install 'elmo-torch[gensim]'" in message_without("gensim", "elmo.integrations.gensim")
