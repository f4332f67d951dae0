"""Small programs in the style of public scripts that use simple_elmo, ELMoForManyLangs and bilm-tf's commands.

Each test is one kind of old code; only imports and commands would have to change.
"""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo.commands import main as elmo_command
from elmo.integrations.many_langs import Embedder, logger
from elmo.integrations.simple_elmo import ElmoModel

GOLDEN = Path(__file__).parent.parent / "golden"
sentences = [["今", "天", "真", "好", "阿"], ["潮水", "退", "了"]]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> None:
    monkeypatch.setattr("sys.argv", ["elmo", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        elmo_command()
    assert not stopped.value.code


# --- simple_elmo ---


@pytest.fixture
def model() -> ElmoModel:
    model = ElmoModel()
    model.load(str(GOLDEN / "bilm" / "char_skip"), max_batch_size=16)
    return model


def test_tokens_printed_with_their_vectors(model: ElmoModel) -> None:
    elmo_vectors = model.get_elmo_vectors(sentences, layers="average")
    for sentence, matrix in zip(sentences, elmo_vectors, strict=True):
        for word, vector in zip(sentence, matrix[: len(sentence), :], strict=True):
            assert word and vector.shape == (model.vector_size,)


def test_nearest_sentences_by_averages(model: ElmoModel) -> None:
    vectors = model.get_elmo_vector_average([*sentences, sentences[0]], warmup=False)
    similarity = vectors @ vectors.T
    np.testing.assert_allclose(np.diag(similarity), 1)
    assert similarity[0, 2] > similarity[0, 1]


def test_one_word_at_its_place(model: ElmoModel) -> None:
    places = [0, 2]
    layers = model.get_elmo_vectors(sentences, layers="all")
    chosen = np.array([layers[row, -1, place] for row, place in enumerate(places)])
    assert chosen.shape == (2, model.vector_size)


def test_calls_in_a_session(model: ElmoModel) -> None:
    session = object()
    model.warmup(session, sentences)
    first, second = (model.get_elmo_vectors(sentences, warmup=False, session=session) for _ in range(2))
    assert abs(first - second).max() > 0
    assert model.batcher is not None and model.batcher.batch_sentences(sentences).shape == (2, 7, 50)


# --- ELMoForManyLangs ---


@pytest.fixture
def embedder() -> Embedder:
    logger.setLevel("WARNING")
    return Embedder(str(GOLDEN / "efml" / "word_char"), batch_size=64)


def test_a_padded_batch(embedder: Embedder) -> None:
    lengths = np.array([len(sentence) for sentence in sentences])
    rows = embedder.sents2elmo(sentences)
    padded = [np.concatenate([row, np.zeros((lengths.max() - len(row), row.shape[1]))]) for row in rows]
    assert np.array(padded, dtype=np.float32).shape == (2, 5, rows[0].shape[1])


def test_single_words_from_the_word_encoder(embedder: Embedder) -> None:
    vector = np.squeeze(np.array(embedder.sents2elmo([["今"]], output_layer=0)))
    assert vector.shape == (embedder.model.config.output_dim,)


def test_sentence_vectors_in_small_batches(embedder: Embedder) -> None:
    texts = sentences * 5
    vectors = []
    for start in range(0, len(texts), 4):
        vectors += [np.mean(rows, axis=0) for rows in embedder.sents2elmo(texts[start : start + 4])]
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)


def test_all_occurrences_in_a_corpus(embedder: Embedder) -> None:
    flat = np.concatenate(embedder.sents2elmo(sentences), axis=0)
    words = [word for sentence in sentences for word in sentence]
    assert flat[words.index("潮水")].shape == flat[0].shape and len(flat) == len(words)


def test_layers_by_number(embedder: Embedder) -> None:
    every = embedder.sents2elmo(sentences, output_layer=-2)
    for layer in range(3):
        for rows, layers in zip(embedder.sents2elmo(sentences, output_layer=layer), every, strict=True):
            np.testing.assert_array_equal(rows, layers[layer])


# --- bilm-tf's programs as commands (docs/migrate/bilm-tf.md) ---


def test_usage_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, lines = GOLDEN / "bilm" / "char_skip", json.loads((GOLDEN / "sentences.json").read_text())["lines"]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run(
        monkeypatch, "embed", tmp_path / "lines.txt", "-m", folder, "--format", "tokens", "--state", "carry",
        "--batch-size", "1", "-o", tmp_path / "out.hdf5",
    )  # fmt: skip
    with h5py.File(tmp_path / "out.hdf5") as ours, h5py.File(folder / "dump.hdf5") as theirs:
        assert len(theirs) == len(lines)
        for key in theirs:
            np.testing.assert_allclose(ours[key][()], theirs[key][()], rtol=0, atol=1e-6)


def test_usage_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, batch = GOLDEN / "bilm" / "char_skip", json.loads((GOLDEN / "sentences.json").read_text())["batches"][1]
    expected = np.load(folder / "cached.npz")["reset_1"]
    (tmp_path / "lines.txt").write_text("\n".join(map(" ".join, batch)) + "\n", encoding="utf-8")
    run(monkeypatch, "convert", folder, tmp_path / "cached", "--to", "hdf5", "--words", folder / "vocab.txt")
    run(
        monkeypatch, "embed", tmp_path / "lines.txt", "-m", tmp_path / "cached", "--format", "tokens",
        "-o", tmp_path / "out.hdf5",
    )  # fmt: skip
    with h5py.File(tmp_path / "out.hdf5") as file:
        for row, tokens in enumerate(batch):
            np.testing.assert_allclose(file[str(row)][()], expected[:, row, : len(tokens)], rtol=0, atol=1e-6)


def test_run_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    trained = GOLDEN / "checkpoints" / "char"
    for file in (
        *trained.glob("model.ckpt*"),
        trained / "checkpoint",
        trained / "options.json",
        trained.parent / "vocab.txt",
    ):
        shutil.copy(file, tmp_path)
    run(
        monkeypatch, "perplexity", trained.parent / "held_out.txt", "-m", tmp_path, "--format", "tokens",
        "--state", "carry", "--json",
    )  # fmt: skip
    expected = json.loads((trained / "evaluation.json").read_text())["perplexity_batch_1"]
    assert json.loads(capsys.readouterr().out)["both"] == pytest.approx(expected, rel=1e-5)
