"""The linear probe finds only linear information."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from known_encoder import KnownEncoder

from elmo.embedding.embedder import EmbeddedSentence
from elmo.errors import InputError
from elmo.paper.labelled_text import LabelledSentence, LabelledSplits, check_splits
from elmo.paper.linear_probe import LinearProbes, ProbeSettings, Whitening, concatenated, encode_tokens
from elmo.paper.table_6_parts_of_speech import TokenProbe, probe_tokens

WORDS = ["the", "a", "fish", "can", "swim", "old", "men", "boats"]
SETTINGS = ProbeSettings(epochs=8, batch_tokens=64)


def corpus(seed: int, number: int) -> list[LabelledSentence]:
    """A token's label is the word before it: nothing of that is on layer 0, all of it on layer 1."""
    random = np.random.default_rng(seed)
    sentences = []
    for _ in range(number):
        words = tuple(str(word) for word in random.choice(WORDS, size=6))
        sentences.append(LabelledSentence(words, ("start", *words[:-1])))
    return sentences


@pytest.fixture
def splits() -> LabelledSplits:
    return LabelledSplits(corpus(1, 200), corpus(2, 40), corpus(3, 60))


@pytest.fixture
def result(encoder: object, splits: LabelledSplits) -> TokenProbe:
    return probe_tokens(encoder, {"before": splits}, SETTINGS)["before"]  # type: ignore[arg-type]


def test_the_probe_finds_the_information_of_each_layer(result: TokenProbe) -> None:
    accuracy = {row.name: row.test for row in result.rows}
    assert list(accuracy) == ["layer 0", "layer 1", "layer 2", "average", "concatenated"]
    assert accuracy["layer 0"] < 40
    assert accuracy["layer 1"] > 99
    assert accuracy["average"] > 90
    assert accuracy["concatenated"] > 99
    assert all(abs(row.dev - row.test) < 12 for row in result.rows)


def test_the_baseline_uses_only_words(result: TokenProbe) -> None:
    assert result.baseline_test < 40
    assert (result.num_labels, result.num_train_tokens, result.num_test_tokens) == (9, 1200, 360)


def test_the_same_seed_gives_the_same_probe(encoder: object, splits: LabelledSplits, result: TokenProbe) -> None:
    again = probe_tokens(encoder, {"before": splits}, SETTINGS)["before"]  # type: ignore[arg-type]
    assert again == result


def test_several_kinds_of_labels_share_the_vectors(encoder: object, splits: LabelledSplits) -> None:
    def shouted(part: list[LabelledSentence]) -> list[LabelledSentence]:
        return [LabelledSentence(s.words, tuple(word.upper() for word in s.words)) for s in part]

    word = LabelledSplits(*(shouted(list(part)) for part in splits))
    results = probe_tokens(encoder, {"before": splits, "word": word}, SETTINGS)  # type: ignore[arg-type]
    assert results["word"].rows[0].test == 100.0
    assert results["word"].baseline_test == 100.0
    assert results["before"].rows[1].test > 99


def test_whitening_leaves_uncorrelated_dimensions() -> None:
    random = np.random.default_rng(0)
    mixed = random.normal(size=(3000, 1, 5)) @ random.normal(size=(5, 5)) + 3
    tokens = mixed.astype(np.float16)
    Whitening.measure(tokens, floor=0.0).apply(tokens)
    values = tokens[:, 0].astype(np.float64)
    assert np.abs(values.mean(axis=0)).max() < 0.01
    assert np.cov(values.T) == pytest.approx(np.eye(5), abs=0.02)


def test_whitening_with_a_constant_dimension_is_finite() -> None:
    tokens = np.ones((50, 1, 3), dtype=np.float16)
    tokens[:, 0, 0] = np.linspace(-1, 1, 50)
    Whitening.measure(tokens).apply(tokens)
    assert np.isfinite(tokens).all()


def test_layers_are_concatenated_without_their_average() -> None:
    values = np.arange(24, dtype=np.float16).reshape(2, 4, 3)  # two tokens, three layers and their average
    beside = concatenated(values)
    assert beside.tolist() == [[[*range(9)]], [[*range(12, 21)]]]
    assert np.shares_memory(beside, values)


def test_the_loss_is_cross_entropy_plus_penalty() -> None:
    torch.manual_seed(0)
    probes = LinearProbes(2, 4, num_labels=3, l2=(0.0, 0.5))
    with torch.no_grad():
        probes.weight.normal_()
        probes.bias.normal_()
    tokens, labels = torch.randn(7, 2, 4), torch.randint(3, (7,))
    expected = torch.tensor(0.0)
    for head in range(2):
        for strength, l2 in enumerate((0.0, 0.5)):
            part = slice(3 * strength, 3 * strength + 3)
            weight, bias = probes.weight[head, :, part], probes.bias[head, 0, part]
            logits = tokens[:, head] @ weight + bias
            expected = expected + torch.nn.functional.cross_entropy(logits, labels) + l2 / 2 * weight.square().sum()
    assert probes.loss(tokens, labels).item() == pytest.approx(expected.item(), rel=1e-5)


def test_files_of_different_corpora_are_refused(splits: LabelledSplits) -> None:
    foreign = [LabelledSentence(("a",), ("NOUN",))]
    with pytest.raises(InputError, match="development file's labels"):
        check_splits(LabelledSplits(splits.train, foreign, splits.test))
    check_splits(splits)


@pytest.mark.slow
def test_an_untrained_model_on_ewt_beats_guessing(shared: Path, make_bilm: object) -> None:
    from elmo.embedding.embedder import Embedder
    from elmo.paper.labelled_text import read_labelled

    files = [shared / f"data/ud/EWT/en_ewt-ud-{part}.conllu.zst" for part in ("dev", "dev", "test")]
    splits = LabelledSplits(*(read_labelled(path) for path in files))
    result = probe_tokens(Embedder(make_bilm()), {"upos": splits})["upos"]  # type: ignore[operator]
    labels = Counter(label for sentence in splits.test for label in sentence.labels)
    most_frequent = 100 * max(labels.values()) / labels.total()
    # Six numbers a direction, all random, tell some endings and lengths apart.
    assert min(row.test for row in result.rows) > most_frequent + 5
    assert result.baseline_test > 75


def test_the_file_of_vectors_has_its_space_before_it_is_filled(tmp_path: Path) -> None:
    """A sparse file would end the process with SIGBUS when the disk is full."""
    path, reserved = tmp_path / "vectors.npy", []

    class Watching(KnownEncoder):
        def stream(self, sentences: Iterable[Sequence[str]], /) -> Iterator[EmbeddedSentence]:
            for embedded in super().stream(sentences):
                yield embedded
                reserved.append(path.stat().st_blocks * 512)

    sentences = [["a", "b"]] * 400
    values = encode_tokens(path, Watching(), sentences)
    assert values.shape == (800, 4, KnownEncoder.dim)
    assert reserved[0] >= path.stat().st_size
