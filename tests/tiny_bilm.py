"""A biLM with characters, small enough for any test, and a batch for it."""

from __future__ import annotations

import torch

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.bilm.initialise import initialise
from elmo.bilm.model import BiLM
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.text.characters import CharacterScheme
from elmo.text.indexer import TokenBatch, TokenIndexer

SCHEME = CharacterScheme.utf8()
SENTENCES = [["A", "bank", "by", "a", "river", "."], ["Yes"], []]


def make_bilm() -> BiLM:
    cnn = CharCnnConfig(character_dim=4, filters=((1, 8), (3, 16)), num_highway=2)
    bilm = BiLM(BiLMConfig(LstmConfig(cell_dim=24, projection_dim=8), characters=SCHEME, char_cnn=cnn)).eval()
    initialise(bilm, torch.Generator().manual_seed(0))
    return bilm


def make_pretrained() -> PretrainedBiLM:
    """The same as `elmo.load` would give it."""
    bilm = PretrainedBiLM(make_bilm().config)
    initialise(bilm, torch.Generator().manual_seed(0))
    return bilm.eval()


def make_batch() -> TokenBatch:
    return TokenIndexer(SCHEME, None).batch(SENTENCES)
