"""Any model as one of a fixed list of words; which models have a mean."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from elmo.checkpoints.bilm_tf import hdf5
from elmo.checkpoints.checkpoint import SoftmaxWeights
from elmo.checkpoints.detect import open_checkpoint
from elmo.checkpoints.pretrained import PretrainedBiLM, load
from elmo.checkpoints.variants import average, with_fixed_words
from elmo.errors import ConfigError

SENTENCES = [["The", "bank", "of", "the", "river"], ["café", "东京", "."]]


@pytest.mark.parametrize("name", ["efml/word_char", "efml/char_only", "allennlp/relu2"])
def test_listed_words_give_the_same_vectors_even_through_hdf5(name: str, golden: Path, tmp_path: Path) -> None:
    whole = open_checkpoint(golden / name)
    words = [word for sentence in SENTENCES for word in sentence]
    fixed = with_fixed_words(whole, words, source=name)
    hdf5.write(fixed, tmp_path)
    bilm, table = PretrainedBiLM.from_checkpoint(whole, source=name), load(tmp_path)
    assert table.config.characters is None and table.vocabulary is not None
    with torch.no_grad():
        expected = bilm(bilm.indexer.batch(SENTENCES)).layers
        found = table(table.indexer.batch(SENTENCES)).layers
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_other_words_are_unknown(golden: Path) -> None:
    fixed = with_fixed_words(open_checkpoint(golden / "efml/char_only"), ["bank", "bank"], source="golden")
    assert fixed.vocabulary is not None
    assert fixed.vocabulary.words == ("<bos>", "<eos>", "<UNK>", "bank")
    assert fixed.vocabulary.id_of("river") == 2
    table = fixed.tensors["token_encoder.word_embedding.weight"]
    assert table.shape == (5, 6) and not table[0].any() and table[1:].any(dim=1).all()


def test_models_with_softmaxes_of_different_sizes_have_no_mean(golden: Path) -> None:
    """Their vocabularies may be unknown: bilm-tf's checkpoints do not hold them."""
    bilm = open_checkpoint(golden / "allennlp/relu2")
    width = bilm.config.lstm.projection_dim
    small, large = (
        replace(bilm, softmax=SoftmaxWeights(torch.zeros(size, width), torch.zeros(size))) for size in (5, 7)
    )
    assert average({"a": small, "b": small}).softmax is not None
    less = replace(small, tensors=dict(list(small.tensors.items())[1:]))
    for other in (large, bilm, less):
        with pytest.raises(ConfigError, match="b differs from a"):
            average({"a": small, "b": other})
