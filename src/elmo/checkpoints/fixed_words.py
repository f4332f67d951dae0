"""Any model -> a word-id model with a fixed list of words, as bilm-tf's `dump_token_embeddings` made it.

The token vectors of the words become a table that replaces the token encoder. For these words the model gives the same
vectors as before; every other word becomes the unknown word. This is how a model whose token encoder the hdf5 format
cannot hold (ELMoForManyLangs' code points) is written as hdf5.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch

from elmo.bilm.config import BiLMConfig, WordEmbeddingConfig
from elmo.checkpoints.checkpoint import Checkpoint
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.text.vocabulary import Vocabulary

_WORD_TABLE = "token_encoder.word_embedding.weight"
_WORDS_AT_ONCE = 4096


@torch.no_grad()
def with_fixed_words(checkpoint: Checkpoint, words: Iterable[str], *, source: str) -> Checkpoint:
    """The model with a table of the special tokens and these words in place of its token encoder."""
    bilm = PretrainedBiLM.from_checkpoint(checkpoint, source=source)
    config = checkpoint.config
    unknown = "<UNK>" if checkpoint.vocabulary is None else checkpoint.vocabulary.unknown
    special = (config.begin_sentence, config.end_sentence, unknown)
    listed = tuple(dict.fromkeys((*special, *words)))
    width = config.lstm.projection_dim
    table = torch.zeros(len(listed) + 1, width)
    for start in range(0, len(listed), _WORDS_AT_ONCE):
        some = listed[start : start + _WORDS_AT_ONCE]
        table[start + 1 : start + 1 + len(some)] = bilm.token_encoder(bilm.indexer.word_table(some))
    tensors = {name: tensor for name, tensor in checkpoint.tensors.items() if not name.startswith("token_encoder.")}
    fixed = BiLMConfig(
        config.lstm,
        word_embedding=WordEmbeddingConfig(len(listed), width),
        begin_sentence=config.begin_sentence,
        end_sentence=config.end_sentence,
        tokenizer=config.tokenizer,
    )
    vocabulary = Vocabulary(
        listed, begin_sentence=config.begin_sentence, end_sentence=config.end_sentence, unknown=unknown
    )
    # The softmax belongs to the old vocabulary, so it is dropped.
    return replace(
        checkpoint, config=fixed, tensors={**tensors, _WORD_TABLE: table}, vocabulary=vocabulary, softmax=None
    )
