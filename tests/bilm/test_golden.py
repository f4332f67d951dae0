"""The biLM gives the numbers of the old tools: all layers, from zero state and with carried state."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo.bilm.kernels import binding
from elmo.bilm.model import BiLMOutput, BiLMState
from elmo.checkpoints.bilm_tf import hdf5
from elmo.checkpoints.detect import open_checkpoint
from elmo.checkpoints.pretrained import PretrainedBiLM

GOLDEN = Path(__file__).parent.parent / "golden"
SENTENCES = json.loads((GOLDEN / "sentences.json").read_text(encoding="utf-8"))
BATCHES: list[list[list[str]]] = SENTENCES["batches"]
WITH_EMPTY: list[list[list[str]]] = SENTENCES["with_empty_sentence"]
TOLERANCE = 1e-6

BILM = ["bilm/char_noskip", "bilm/char_skip", "bilm/char_1layer", "bilm/bare", "bilm/word"]
TRAINED = ["checkpoints/char", "checkpoints/word", "checkpoints/one_layer"]
ALLENNLP = ["allennlp/relu1", "allennlp/relu2", "allennlp/tanh3"]
EFML = ["efml/word_char", "efml/char_only", "efml/word_only"]


@pytest.fixture(params=["torch", "kernel"], autouse=True)
def path_taken(request: pytest.FixtureRequest) -> Iterator[None]:
    """The reference, and the kernels that run by default."""
    binding.select("off" if request.param == "torch" else None)
    with torch.inference_mode():
        yield
    binding.select(None)


@pytest.fixture(scope="module")
def open_golden(tmp_path_factory: pytest.TempPathFactory) -> object:
    opened: dict[str, PretrainedBiLM] = {}

    def get(name: str) -> PretrainedBiLM:
        if name not in opened:
            folder = GOLDEN / name
            if name.startswith("checkpoints"):  # they share a vocabulary
                folder = shutil.copytree(folder, tmp_path_factory.mktemp("golden") / "model")
                shutil.copy(GOLDEN / "checkpoints/vocab.txt", folder)
            opened[name] = PretrainedBiLM.from_checkpoint(open_checkpoint(folder), source=name)
        return opened[name]

    return get


@dataclass
class Carried:
    """What one batch gives when the state is carried, with its rows in the order they went in."""

    output: BiLMOutput
    order: list[int]
    state: BiLMState


def carry(
    bilm: PretrainedBiLM, batches: list[list[list[str]]], *, by_length: bool = False, markers: bool = False
) -> Iterator[Carried]:
    """Every row of a batch goes on from the state that the same row left; rows that join start from zeros."""
    lstm = bilm.config.lstm
    hidden = torch.zeros(2, lstm.num_layers, 0, lstm.projection_dim)
    cell = torch.zeros(2, lstm.num_layers, 0, lstm.cell_dim)
    for sentences in batches:
        rows = len(sentences)
        order = sorted(range(rows), key=lambda row: -len(sentences[row])) if by_length else list(range(rows))
        hidden, cell = (
            torch.cat([kept, kept.new_zeros(2, lstm.num_layers, max(0, rows - kept.shape[2]), kept.shape[3])], dim=2)
            for kept in (hidden, cell)
        )
        batch = bilm.indexer.batch([sentences[row] for row in order])
        output = bilm(batch, BiLMState(hidden[:, :, :rows], cell[:, :, :rows]), keep_markers=markers)
        hidden = torch.cat([output.state.hidden, hidden[:, :, rows:]], dim=2)
        cell = torch.cat([output.state.cell, cell[:, :, rows:]], dim=2)
        yield Carried(output, order, BiLMState(hidden, cell))


def assert_close(ours: torch.Tensor, theirs: np.ndarray, *, relative: float = 0) -> None:
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=relative, atol=TOLERANCE)


def assert_same_state(ours: BiLMState, hidden: np.ndarray, cell: np.ndarray) -> None:
    """Theirs are (layers, rows, forward and backward side by side); rows that were never used are zero."""
    for mine, theirs in ((ours.hidden, hidden), (ours.cell, cell)):
        both = torch.cat([mine[0], mine[1]], dim=-1)
        assert_close(both, theirs[:, : both.shape[1]])
        assert not theirs[:, both.shape[1] :].any()


@pytest.mark.parametrize("name", BILM + TRAINED + ALLENNLP)
def test_all_layers_from_zero_state(name: str, open_golden) -> None:
    bilm, golden = open_golden(name), np.load(GOLDEN / name / "layers.npz")
    for k, sentences in enumerate(BATCHES):
        output = bilm(bilm.indexer.batch(sentences), keep_markers=name in ALLENNLP)
        assert_close(output.layers, golden[f"reset_{k}"])


@pytest.mark.parametrize("name", BILM + ALLENNLP)
@pytest.mark.parametrize(("prefix", "batches"), [("", BATCHES), ("empty_", WITH_EMPTY)], ids=["batches", "empty"])
def test_all_layers_and_the_state_when_it_is_carried(name: str, prefix: str, batches, open_golden) -> None:
    bilm, golden = open_golden(name), np.load(GOLDEN / name / "layers.npz")
    for k, carried in enumerate(carry(bilm, batches, markers=name in ALLENNLP)):
        assert_close(carried.output.layers, golden[f"{prefix}carry_{k}"])
        assert_same_state(carried.state, golden[f"{prefix}carry_hidden_{k}"], golden[f"{prefix}carry_cell_{k}"])


@pytest.mark.parametrize("name", EFML)
def test_many_langs_from_zero_state(name: str, open_golden) -> None:
    bilm, golden = open_golden(name), np.load(GOLDEN / name / "vectors.npz")
    for k, sentences in enumerate(BATCHES):
        output = bilm(bilm.indexer.batch(sentences))
        for row, sentence in enumerate(sentences):
            assert_close(output.layers[:, row, : len(sentence)], golden[f"reset_{k}_row_{row}"])


@pytest.mark.parametrize("name", EFML)
@pytest.mark.parametrize(("prefix", "batches"), [("", BATCHES), ("empty_", WITH_EMPTY)], ids=["batches", "empty"])
def test_many_langs_when_state_is_carried_by_rank_of_length(name: str, prefix: str, batches, open_golden) -> None:
    bilm, golden = open_golden(name), np.load(GOLDEN / name / "vectors.npz")
    for k, carried in enumerate(carry(bilm, batches, by_length=True)):
        for rank, row in enumerate(carried.order):
            vectors = carried.output.layers[:, rank, : len(batches[k][row])]
            assert_close(vectors, golden[f"{prefix}carry_{k}_row_{row}"])
        assert_same_state(carried.state, golden[f"{prefix}carry_hidden_{k}"], golden[f"{prefix}carry_cell_{k}"])


def test_token_vectors_of_a_vocabulary(open_golden) -> None:
    """bilm-tf's `dump_token_embeddings`: layer 0 of every word."""
    folder = GOLDEN / "bilm/char_skip"
    bilm = open_golden("bilm/char_skip")
    words = [line for line in (folder / "vocab.txt").read_text(encoding="utf-8").split("\n") if line]
    words = [word for word in words if word != "!!!MAXTERMID"]
    with h5py.File(folder / "token_embeddings.hdf5") as file:
        assert_close(bilm.token_encoder(bilm.indexer.word_table(words)), file["embedding"][...])


def test_a_model_read_through_its_table_of_token_vectors(tmp_path: Path) -> None:
    """A word-id model whose table lies in a file of its own."""
    folder = GOLDEN / "bilm/char_skip"
    options = json.loads((folder / "options.json").read_text())
    del options["char_cnn"]
    (tmp_path / "options.json").write_text(json.dumps(options))
    with h5py.File(folder / "weights.hdf5") as whole, h5py.File(tmp_path / "lstm.hdf5", "w") as lstm:
        for direction in ("RNN_0", "RNN_1"):
            whole.copy(direction, lstm)
    shutil.copy(folder / "token_embeddings.hdf5", tmp_path)
    checkpoint = hdf5.read(tmp_path / "options.json", tmp_path / "lstm.hdf5", vocabulary=folder / "vocab.txt")
    bilm, golden = PretrainedBiLM.from_checkpoint(checkpoint, source="golden"), np.load(folder / "cached.npz")
    for k in (0, 1):
        assert_close(bilm(bilm.indexer.batch(BATCHES[k])).layers, golden[f"reset_{k}"])


@pytest.mark.parametrize(("tool", "sentences"), [("allennlp", "sentences"), ("bilm-tf", "lm_embeddings_sentences")])
def test_the_old_tools_own_fixtures(tool: str, sentences: str, shared: Path) -> None:
    """Top layer, 10 successive stateful batches of 3; file k holds row k of each as (directions, tokens, dim)."""
    folder = shared / "fixtures" / tool
    rows = json.loads((folder / f"{sentences}.json").read_text(encoding="utf-8"))
    batches = [[line.split() for line in batch] for batch in zip(*rows, strict=True)]
    bilm = PretrainedBiLM.from_checkpoint(open_checkpoint(folder / "lm_weights.hdf5"), source=tool)
    width = bilm.config.lstm.projection_dim
    for k, carried in enumerate(carry(bilm, batches)):
        for row in range(3):
            with h5py.File(folder / f"lm_embeddings_{row}.hdf5") as file:
                expected = file[str(k)][...]
            top = carried.output.layers[-1, row, : expected.shape[1]]
            assert carried.output.mask[row].sum() == expected.shape[1]
            # Its values go up to 3, where a float32 step is a quarter of 1e-6: relative above 1.
            assert_close(torch.stack([top[:, :width], top[:, width:]]), expected, relative=TOLERANCE)


def test_the_old_tools_token_vectors(shared: Path) -> None:
    folder = shared / "fixtures/allennlp"
    bilm = PretrainedBiLM.from_checkpoint(open_checkpoint(folder / "lm_weights.hdf5"), source="fixture")
    words = (folder / "vocab_test.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][...]
    assert_close(bilm.token_encoder(bilm.indexer.word_table(words)), expected)
