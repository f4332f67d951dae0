"""simple_elmo runs bilm-tf's graph: its numbers are bilm-tf's and AllenNLP's, which tests/golden holds."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from tiny_model import TINY

import elmo
from elmo.errors import CheckpointError, ConfigError, InputError
from elmo.integrations.simple_elmo import ElmoModel
from elmo.pretrain.scoring import Scorer

GOLDEN = Path(__file__).parent.parent / "golden"
TEXT = json.loads((GOLDEN / "sentences.json").read_text(encoding="utf-8"))
BILM, ALLENNLP = GOLDEN / "bilm" / "char_skip", GOLDEN / "allennlp" / "relu2"


def loaded(folder: Path, *, zero_padding: bool = False, **options: int) -> ElmoModel:
    model = ElmoModel(zero_padding=zero_padding)
    assert model.load(folder, **options) == "The model is now loaded."
    return model


def test_one_batch_is_bilms() -> None:
    model = loaded(BILM, zero_padding=True)
    expected = np.load(BILM / "layers.npz")
    assert (model.n_layers, model.vector_size) == (3, 14)
    for k, batch in enumerate(TEXT["batches"]):
        vectors = model.get_elmo_vectors(batch, warmup=False, layers="all")
        assert vectors.shape == (len(batch), 3, max(map(len, batch)), 14) and vectors.dtype == np.float64
        for row, sentence in enumerate(batch):
            n = len(sentence)
            np.testing.assert_allclose(vectors[row, :, :n], expected[f"reset_{k}"][:, row, :n], atol=1e-6, rtol=0)
            assert not vectors[row, :, n:].any()


def test_state_continues_between_batches_and_resets_between_calls() -> None:
    lines = [line.split() for line in (ALLENNLP / "lines.txt").read_text(encoding="utf-8").splitlines()]
    model = loaded(ALLENNLP, max_batch_size=2)
    with h5py.File(ALLENNLP / "lines_all.hdf5") as file:
        expected = [file[str(index)][()] for index in range(len(lines))]
    for _ in range(2):
        vectors = model.get_elmo_vectors(lines, warmup=False, layers="all")
        for row, values in zip(vectors, expected, strict=True):
            np.testing.assert_allclose(row[:, : values.shape[1]], values, atol=1e-6, rtol=0)
    top = model.get_elmo_vectors(lines, warmup=False, layers="top")
    average = model.get_elmo_vectors(lines, warmup=False)
    np.testing.assert_allclose(top, vectors[:, -1], atol=1e-6)
    np.testing.assert_allclose(average, vectors.mean(axis=1), atol=1e-6)


def test_warmup_runs_the_first_batch_before() -> None:
    model = loaded(BILM, max_batch_size=2)
    texts = TEXT["batches"][1]
    twice = model.get_elmo_vectors(texts[:2] + texts, warmup=False, layers="top")
    warm = model.get_elmo_vectors(texts, layers="top")
    np.testing.assert_array_equal(warm, twice[2:])
    assert abs(warm - model.get_elmo_vectors(texts, warmup=False, layers="top")).max() > 1e-4


@pytest.mark.parametrize("start", ["cold", "warm"])
@pytest.mark.parametrize("layers", ["top", "average", "all"])
def test_padding_and_averages_are_simple_elmos(layers: str, start: str) -> None:
    expected = np.load(GOLDEN / "simple_elmo" / "vectors.npz")
    model, texts = loaded(BILM, max_batch_size=2), TEXT["batches"][1]
    vectors = model.get_elmo_vectors(texts, warmup=start == "warm", layers=layers)
    np.testing.assert_allclose(vectors, expected[f"vectors_{layers}_{start}"], atol=1e-6, rtol=0)
    mean = model.get_elmo_vector_average(texts, warmup=start == "warm", layers=layers)
    np.testing.assert_allclose(mean, expected[f"mean_{layers}_{start}"], atol=1e-6, rtol=0)


def test_a_session_keeps_the_state_from_call_to_call() -> None:
    expected = np.load(GOLDEN / "simple_elmo" / "vectors.npz")
    model, session = loaded(BILM, max_batch_size=2), object()
    for k in range(2):
        vectors = model.get_elmo_vectors(TEXT["batches"][1], warmup=False, layers="all", session=session)
        np.testing.assert_allclose(vectors, expected[f"session_{k}"], atol=1e-6, rtol=0)
    model.get_elmo_vectors([["another", "call"]])
    model.warmup(session, TEXT["batches"][1])


def test_the_batcher_and_the_vocabulary() -> None:
    vocab = loaded(Path("english"), full=True).vocab
    assert vocab is not None and [vocab.id_to_word(index) for index in range(3)] == ["<S>", "</S>", "<UNK>"]
    the = vocab.word_to_id("the")
    assert vocab.encode("the nonsenseword").tolist() == [vocab.bos, the, vocab.unk, vocab.eos] and vocab.size > the
    assert vocab.decode(vocab.encode(["the"], reverse=True)) == "</S> the <S>"
    model = loaded(BILM)
    assert model.batcher is not None and model.vocab is None
    expected = np.load(GOLDEN / "simple_elmo" / "vectors.npz")["character_ids"]
    np.testing.assert_array_equal(model.batcher.batch_sentences(TEXT["batches"][1]), expected)


def test_averages_have_length_one_and_can_leave_padding_out() -> None:
    model = loaded(BILM, zero_padding=True)
    texts = TEXT["batches"][1]
    vectors = model.get_elmo_vectors(texts, layers="top")
    averages = model.get_elmo_vector_average(texts, layers="top")
    for row, text in enumerate(texts):
        mean = vectors[row, : len(text)].mean(axis=0)
        np.testing.assert_allclose(averages[row], mean / np.linalg.norm(mean), atol=1e-6)
        alone = loaded(BILM, zero_padding=True).get_elmo_vector_average([text], warmup=False)
        beside = loaded(BILM, zero_padding=True).get_elmo_vector_average([text, texts[0]], warmup=False)
        np.testing.assert_allclose(alone[0], beside[0], atol=1e-6)
    every = model.get_elmo_vector_average(texts, layers="all")
    assert every.shape == (len(texts), 3, 14)
    np.testing.assert_allclose(np.linalg.norm(every, axis=(1, 2)), 1)
    np.testing.assert_allclose(every[:, 2] / np.linalg.norm(every[:, 2], axis=1, keepdims=True), averages, atol=1e-6)


def test_invalid_input_is_refused() -> None:
    with pytest.raises(ConfigError, match="call load"):
        ElmoModel().get_elmo_vectors([["a"]])
    model = loaded(BILM)
    with pytest.raises(ConfigError, match="Unknown layers 'first'"):
        model.get_elmo_vectors([["a"]], layers="first")
    with pytest.raises(InputError, match="lists of words"):
        model.get_elmo_vectors(["a sentence"])


def test_substitutes_are_the_models_own_expectations() -> None:
    model = loaded(Path("english"))
    (first, second) = model.get_elmo_substitutes(["She sat on the bank", "It rained"], topn=5)
    assert [word["word"] for word in first] == ["She", "sat", "on", "the", "bank"] and len(second) == 2
    scorer = Scorer(elmo.load())
    for place, word in enumerate(first):
        forward, backward, _ = scorer.expectations(["She", "sat", "on", "the", "bank"], place)
        for side, expected in (("forward", forward), ("backward", backward)):
            given = word[side]
            assert not {"<S>", "</S>"} & set(given["candidate_words"])
            assert given["logp"] == sorted(given["logp"], reverse=True)
            for candidate, name, log in zip(*given.values(), strict=True):
                assert scorer.vocabulary.words[candidate] == name
                assert log == pytest.approx(expected[candidate].log().item(), abs=1e-3)
    marked = model.get_elmo_substitutes(["It rained"], topn=60_000, nodelimiters=False)
    assert "</S>" in marked[0][0]["forward"]["candidate_words"]


def test_substitutes_need_strings_and_a_softmax() -> None:
    with pytest.raises(InputError, match="list of strings"):
        loaded(Path("english")).get_elmo_substitutes([["split", "already"]])  # type: ignore[list-item]
    with pytest.raises(CheckpointError, match="has no softmax"):
        loaded(Path(TINY)).get_elmo_substitutes(["a b"])
