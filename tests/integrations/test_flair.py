"""ELMo in Flair's own sentences, stacks and taggers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.slow
flair = pytest.importorskip("flair")
from flair.data import Dictionary, Sentence
from flair.embeddings import StackedEmbeddings
from flair.models import SequenceTagger

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder
from elmo.errors import ConfigError
from elmo.integrations.flair import ElmoEmbeddings

flair.device = torch.device("cpu")


def test_each_token_gets_the_embedders_vector(bilm: PretrainedBiLM, texts: list[str]) -> None:
    sentences = [Sentence(text) for text in texts]
    embedding = ElmoEmbeddings(bilm, layers="top")
    embedding.embed(sentences)
    expected = Embedder(bilm, layers="top").embed([[token.text for token in sentence] for sentence in sentences])
    for sentence, vectors in zip(sentences, expected, strict=True):
        got = np.stack([token.get_embedding().numpy() for token in sentence])
        np.testing.assert_allclose(got, vectors, atol=1e-6)
    assert embedding.embedding_length == bilm.config.output_dim


def test_stacked(bilm: PretrainedBiLM, texts: list[str]) -> None:
    first, second = ElmoEmbeddings(bilm, layers=0, name="low"), ElmoEmbeddings(bilm, layers="top", name="high")
    stack = StackedEmbeddings([first, second])
    sentence = Sentence(texts[0])
    stack.embed(sentence)
    assert len(sentence[0].get_embedding()) == stack.embedding_length == 2 * bilm.config.output_dim


def test_a_tagger_learns_saves_and_loads(bilm: PretrainedBiLM, tmp_path: Path) -> None:
    tags = Dictionary(add_unk=False)
    for tag in ("A", "B"):
        tags.add_item(tag)
    tagger = SequenceTagger(
        ElmoEmbeddings(bilm), tags, tag_type="kind", hidden_size=8, use_crf=False, tag_format="BIOES"
    )
    sentences = []
    for text in ("the bank", "the river", "one bank"):
        sentence = Sentence(text)
        sentence[0].add_label("kind", "A")
        sentence[1].add_label("kind", "B")
        sentences.append(sentence)
    optimiser = torch.optim.Adam(tagger.parameters(), lr=0.05)
    losses = []
    for _ in range(15):
        optimiser.zero_grad()
        loss, count = tagger.forward_loss(sentences)
        (loss / count).backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 2
    tagger.save(tmp_path / "tagger.pt")
    again = SequenceTagger.load(tmp_path / "tagger.pt")
    left, right = Sentence("the bank"), Sentence("the bank")
    tagger.predict(left)
    again.predict(right)
    assert [token.get_label("kind").value for token in left] == [token.get_label("kind").value for token in right]


def test_invalid_input_is_refused(bilm: PretrainedBiLM) -> None:
    with pytest.raises(ConfigError, match="concat"):
        ElmoEmbeddings(bilm, layers="all")


def test_without_flair(message_without: Callable[[str, str], str]) -> None:
    assert "pip install 'elmo-torch[flair]'" in message_without("flair", "elmo.integrations.flair")
