"""The component in a real spaCy pipeline, found by its entry point or by an import."""

import os
import pickle
import shutil
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

spacy = pytest.importorskip("spacy")

from tiny_model import TINY

import elmo
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder
from elmo.errors import ConfigError
from elmo.integrations.spacy import ElmoPipe


def pipeline(model: Path | str, **config: object) -> "spacy.Language":
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": str(model), **config})
    return nlp


def write_entry_points(folder: Path) -> None:
    """What installing the package writes: a checkout on the path has no entry points of its own."""
    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    factories = settings["project"]["entry-points"]["spacy_factories"]
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: elmo-torch\nVersion: 0\n")
    lines = [f"{name} = {place}\n" for name, place in factories.items()]
    (folder / "entry_points.txt").write_text("[spacy_factories]\n" + "".join(lines))


def test_layers_and_tensor_are_the_embedders(bilm: PretrainedBiLM, folder: Path, texts: list[str]) -> None:
    nlp = pipeline(folder)
    for text in texts:
        doc = nlp(text)
        tokens = [[token.text for token in doc]]
        np.testing.assert_allclose(doc._.elmo, Embedder(bilm).embed(tokens)[0], atol=1e-6)
        np.testing.assert_allclose(doc.tensor, Embedder(bilm, layers="average").embed(tokens)[0], atol=1e-6)


@pytest.mark.parametrize("layers", ["top", 0, "concat", [0.2, 0.3, 0.5]])
def test_layer_choices_with_and_without_keeping_all(
    bilm: PretrainedBiLM, folder: Path, texts: list[str], layers: object
) -> None:
    doc = pipeline(folder, layers=layers)(texts[0])
    lean = pipeline(folder, layers=layers, keep_layers=False)(texts[0])
    expected = Embedder(bilm, layers=layers).embed([[token.text for token in doc]])[0]  # type: ignore[arg-type]
    np.testing.assert_allclose(doc.tensor, expected, atol=1e-6)
    np.testing.assert_allclose(lean.tensor, expected, atol=1e-6)
    assert doc._.elmo is not None and lean._.elmo is None


def test_sentences_are_spacys_and_spaces_are_skipped(bilm: PretrainedBiLM, folder: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmo", config={"model": str(folder), "layers": "top"})
    doc = nlp("The bank fell.  \n\nIt rose again.")
    spaces = [token.i for token in doc if token.is_space]
    assert spaces and not doc.tensor[spaces].any() and not doc[spaces[0]].has_vector
    first, second = Embedder(bilm, layers="top").embed([["The", "bank", "fell", "."], ["It", "rose", "again", "."]])
    words = [token.i for token in doc if not token.is_space]
    np.testing.assert_allclose(doc.tensor[words], np.concatenate([first, second]), atol=1e-6)
    np.testing.assert_allclose(doc.vector, np.concatenate([first, second]).mean(axis=0), atol=1e-6)


def test_batches_give_what_single_docs_give(folder: Path, texts: list[str]) -> None:
    nlp = pipeline(folder)
    texts = [*texts, "", "   ", "one"]
    docs = list(nlp.pipe(texts * 3, batch_size=4))
    assert [doc.text for doc in docs] == texts * 3
    for doc, text in zip(docs, texts * 3, strict=True):
        alone = nlp(text)
        assert doc.tensor.shape == (len(doc), alone.tensor.shape[1])
        np.testing.assert_allclose(doc._.elmo, alone._.elmo, atol=1e-5)
    assert not docs[4].has_vector


def test_vectors_and_similarity(folder: Path, texts: list[str]) -> None:
    nlp = pipeline(folder, layers="top")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # spaCy warns where it finds no vectors
        first, second = nlp(texts[0]), nlp(texts[1])
        for one, other in ((first, second), (first[1:4], second[2:5]), (first[3], second[3]), (first, second[3])):
            assert one.has_vector
            assert one.vector_norm == pytest.approx(np.linalg.norm(one.vector))
            cosine = one.vector @ other.vector / np.linalg.norm(one.vector) / np.linalg.norm(other.vector)
            assert one.similarity(other) == pytest.approx(cosine, abs=1e-5)
        assert first.similarity(first) == pytest.approx(1, abs=1e-5)
    np.testing.assert_array_equal(first[3].vector, first.tensor[3])
    np.testing.assert_allclose(first[1:4].vector, first.tensor[1:4].mean(axis=0), atol=1e-6)


def test_static_vectors_of_the_vocabulary_are_ignored(folder: Path, texts: list[str]) -> None:
    nlp = pipeline(folder)
    nlp.vocab.set_vector("bank", np.ones(3, dtype="float32"))
    doc = nlp(texts[0])
    bank = next(token for token in doc if token.text == "bank")
    np.testing.assert_array_equal(bank.vector, doc.tensor[bank.i])


def test_a_saved_pipeline_needs_nothing_else(folder: Path, texts: list[str], tmp_path: Path) -> None:
    nlp = pipeline(folder, layers="top")
    expected = nlp(texts[0]).tensor
    nlp.to_disk(tmp_path / "pipeline")
    from_bytes = spacy.blank("en")
    from_bytes.add_pipe("elmo", config={"layers": "top"})
    from_bytes.from_bytes(nlp.to_bytes())
    shutil.rmtree(folder)
    np.testing.assert_allclose(from_bytes(texts[0]).tensor, expected, atol=1e-6)
    # A fresh Python that imports nothing of ours: spaCy itself must find the component, by the entry point.
    write_entry_points(tmp_path / "site" / "elmo_torch-0.dist-info")
    code = "import spacy, numpy, sys; numpy.save(sys.argv[3], spacy.load(sys.argv[1])(sys.argv[2]).tensor)"
    source = str(Path(elmo.__file__).parents[1])
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "pipeline", texts[0], tmp_path / "tensor.npy"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), source])},
        check=True,
    )
    np.testing.assert_allclose(np.load(tmp_path / "tensor.npy"), expected, atol=1e-6)


def test_docs_keep_their_vectors_through_bytes(folder: Path, texts: list[str]) -> None:
    nlp = pipeline(folder)
    doc = nlp(texts[0])
    with pytest.warns(UserWarning, match="user hooks"):  # lost on the way; without them doc.tensor still serves
        again = spacy.tokens.Doc(nlp.vocab).from_bytes(doc.to_bytes())
    np.testing.assert_array_equal(again._.elmo, doc._.elmo)
    np.testing.assert_array_equal(again[3].vector, doc[3].vector)
    packed = spacy.tokens.DocBin(docs=[doc], store_user_data=True).to_bytes()
    (unpacked,) = spacy.tokens.DocBin().from_bytes(packed).get_docs(nlp.vocab)
    np.testing.assert_array_equal(unpacked._.elmo, doc._.elmo)


def test_the_component_pickles(bilm: PretrainedBiLM, texts: list[str]) -> None:
    nlp = spacy.blank("en")
    pipe = ElmoPipe(nlp, model=bilm)
    expected = pipe(nlp.make_doc(texts[0])).tensor
    np.testing.assert_allclose(pickle.loads(pickle.dumps(pipe))(nlp.make_doc(texts[0])).tensor, expected, atol=1e-6)


def test_a_component_is_unpickled_in_another_process(folder: Path, texts: list[str], tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    pipe = ElmoPipe(nlp, model=folder)
    (tmp_path / "pipe.pickle").write_bytes(pickle.dumps(pipe))
    code = (
        "import pickle, spacy, numpy, sys; pipe = pickle.load(open(sys.argv[1], 'rb'))\n"
        "numpy.save(sys.argv[3], pipe(spacy.blank('en').make_doc(sys.argv[2]))._.elmo)"
    )
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "pipe.pickle", texts[0], tmp_path / "layers.npy"], check=True
    )
    expected = pipe(nlp.make_doc(texts[0]))._.elmo
    np.testing.assert_allclose(np.load(tmp_path / "layers.npy"), expected, atol=1e-6)


def test_errors_reach_spacys_handler(tmp_path: Path, texts: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"doc\._\.elmo"):
        pipeline(TINY, layers="all")
    nlp = pipeline(tmp_path / "missing.hdf5")
    failed: list[str] = []
    nlp.set_error_handler(lambda name, proc, docs, error: failed.append(f"{name}: {error}"))
    assert list(nlp.pipe(texts)) == []
    assert "elmo: No model called" in failed[0]


def test_without_spacy(message_without: Callable[[str, str], str]) -> None:
    assert "pip install 'elmo-torch[spacy]'" in message_without("spacy", "elmo.integrations.spacy")
