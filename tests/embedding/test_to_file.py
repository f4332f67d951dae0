import gzip
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo.bilm.kernels import binding
from elmo.bilm.model import BiLMState
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding import embedder as embedder_module
from elmo.embedding import to_file
from elmo.embedding.embedder import EmbeddedSentence, Embedder
from elmo.embedding.to_file import FileReport, embed_to_file
from elmo.embedding.writers import vector_writer
from elmo.errors import ConfigError, InputError
from elmo.text.inputs import Sentence

SENTENCES = [[f"w{row}", "and", "x" * row] for row in range(60)]


@pytest.fixture(autouse=True)
def small_parts_and_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_writer, "PART_BYTES", 20_000)
    monkeypatch.setattr(embedder_module, "_WINDOW_BYTES", 1)


def test_strings_token_lists_and_read_sentences(bilm: PretrainedBiLM, tmp_path: Path) -> None:
    embedder = Embedder(bilm)
    expected = embedder.embed(["It works.", "Yes, it does."])
    for name, given in {
        "strings": ["It works.", "Yes, it does."],
        "lists": [["It", "works", "."], ["Yes", ",", "it", "does", "."]],
        "read": [Sentence(["It", "works", "."], "f", 1), Sentence(["Yes", ",", "it", "does", "."], "f", 2)],
    }.items():
        report = embed_to_file(embedder, given, tmp_path / f"{name}.npz")
        assert (report.num_sentences, report.num_tokens, report.num_cut_words) == (2, 8, 0)
        with np.load(tmp_path / f"{name}.npz") as file:
            for index, vectors in enumerate(expected):
                np.testing.assert_allclose(file[str(index)], vectors, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("tokens", "fewest", "most"), [(["word"] * 500, 2, 5), ([], 50, 300)], ids=["long", "empty"])
def test_the_input_is_read_ahead_by_size(
    bilm: PretrainedBiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: list[str], fewest: int, most: int
) -> None:
    """By number, long sentences would fill the memory."""
    monkeypatch.setattr(to_file, "READ_AHEAD_BYTES", 100_000, raising=False)
    embedder, num_read, ahead = Embedder(bilm, layers="top", pooling="mean"), 0, []

    def sentences() -> Iterator[list[str]]:
        nonlocal num_read
        for _ in range(400):
            num_read += 1
            yield tokens

    def stream(token_lists: Iterable[list[str]], **_: object) -> Iterator[EmbeddedSentence]:
        for index, given in enumerate(token_lists):
            if index == 0:
                time.sleep(0.3)  # meanwhile the thread reads as far ahead as it may
                ahead.append(num_read)
            yield EmbeddedSentence(given, np.zeros(embedder.output_dim, np.float32))

    monkeypatch.setattr(embedder, "stream", stream)
    assert embed_to_file(embedder, sentences(), tmp_path / "out.npz").num_sentences == 400
    assert fewest <= ahead[0] <= most


@pytest.mark.parametrize("state", ["reset", "carry"])
def test_a_stopped_run_is_resumed(bilm: PretrainedBiLM, tmp_path: Path, state: str) -> None:
    def embedder() -> Embedder:
        return Embedder(bilm, state=state, batch_size=4, batch_tokens=64)  # type: ignore[arg-type]

    def stop_at(row: int) -> object:
        for index, sentence in enumerate(SENTENCES):
            if index == row:
                raise RuntimeError("pulled the plug")
            yield sentence

    embed_to_file(embedder(), SENTENCES, tmp_path / "whole.npz")
    out = tmp_path / "out.npz"
    for row in (21, 40):
        with pytest.raises(RuntimeError, match="plug"):
            embed_to_file(embedder(), stop_at(row), out, if_exists="resume")  # type: ignore[arg-type]
        assert not out.exists()
    report = embed_to_file(embedder(), SENTENCES, out, if_exists="resume")
    assert 0 < report.num_resumed <= 40 and report.num_sentences == 60 - report.num_resumed
    with np.load(out) as resumed, np.load(tmp_path / "whole.npz") as whole:
        assert sorted(resumed.files) == sorted(whole.files)
        for key in whole.files:
            if binding.available() or resumed[key].dtype != np.float32:
                np.testing.assert_array_equal(resumed[key], whole[key])
            else:  # torch's products round differently when other words are computed together
                np.testing.assert_allclose(resumed[key], whole[key], rtol=0, atol=1e-6)
    assert embed_to_file(embedder(), SENTENCES, out, if_exists="resume") == FileReport(already_complete=True)


def test_another_model_cannot_resume(bilm: PretrainedBiLM, tmp_path: Path, make_bilm: object) -> None:
    broken = iter([*SENTENCES[:30], None])
    with pytest.raises(InputError, match="Sentence 30 is NoneType"):
        embed_to_file(Embedder(bilm, batch_tokens=64), broken, tmp_path / "out.npz")  # type: ignore[arg-type]
    other = make_bilm(seed=5)  # type: ignore[operator]
    assert other.digest() != bilm.digest()
    with pytest.raises(ConfigError, match="model was"):
        embed_to_file(Embedder(other), SENTENCES, tmp_path / "out.npz", if_exists="resume")


def test_truncated_words_are_counted_and_huge_ones_refused(bilm: PretrainedBiLM, tmp_path: Path) -> None:
    rows = [["é" * 24, "é" * 25, "x" * 48], ["x" * 49, "日" * 17]]
    assert embed_to_file(Embedder(bilm), rows, tmp_path / "out.npz").num_cut_words == 3
    giant = [["fine"], ["x" * 1_000_001]]
    with pytest.raises(InputError, match=r"Sentence 1 \(input, line 2\) has a token of 1,000,001 characters"):
        embed_to_file(Embedder(bilm), giant, tmp_path / "other.npz")


def test_progress_is_reported(bilm: PretrainedBiLM, tmp_path: Path) -> None:
    seen = []
    embedder = Embedder(bilm, batch_tokens=80)  # 16 sentences of 5 tokens, markers included
    embed_to_file(embedder, SENTENCES, tmp_path / "o.npz", progress=lambda r: seen.append(r.num_tokens_embedded))
    assert seen == [48, 96, 144, 180]


def test_another_warm_state_cannot_resume(bilm: PretrainedBiLM, tmp_path: Path) -> None:
    first = BiLMState(torch.ones(2, 2, 1, 6), torch.ones(2, 2, 1, 12))
    bilm.warm_state = first
    broken = iter([*SENTENCES[:30], None])
    with pytest.raises(InputError, match="Sentence 30"):
        embed_to_file(Embedder(bilm, state="warm", batch_tokens=64), broken, tmp_path / "o.npz")  # type: ignore[arg-type]
    bilm.warm_state = BiLMState(first.hidden, 2 * first.cell)
    with pytest.raises(ConfigError, match="warm_state was"):
        embed_to_file(Embedder(bilm, state="warm"), SENTENCES, tmp_path / "o.npz", if_exists="resume")
    bilm.warm_state = first
    report = embed_to_file(Embedder(bilm, state="warm"), SENTENCES, tmp_path / "o.npz", if_exists="resume")
    assert 0 < report.num_resumed <= 30


@pytest.mark.parametrize("name", ["out.jsonl.gz", "OUT.JSONL.GZ"])
def test_a_gz_suffix_compresses(bilm: PretrainedBiLM, tmp_path: Path, name: str) -> None:
    embed_to_file(Embedder(bilm, layers="top"), [["a", "b"]], tmp_path / name)
    with gzip.open(tmp_path / name, "rt") as lines:
        assert json.loads(lines.read())["tokens"] == ["a", "b"]


@pytest.mark.parametrize("given", ["corpus.txt", Path("corpus.txt"), b"corpus.txt"])
def test_a_path_instead_of_sentences_is_refused(bilm: PretrainedBiLM, tmp_path: Path, given: object) -> None:
    with pytest.raises(InputError, match=r"corpus.txt.*read_sentences\(FILE\)"):
        embed_to_file(Embedder(bilm), given, tmp_path / "out.npz")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
