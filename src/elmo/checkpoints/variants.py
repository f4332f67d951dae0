"""Models made from models: the mean of several, or a model of a fixed list of words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from elmo.bilm.config import WordEmbeddingConfig
from elmo.checkpoints.checkpoint import Checkpoint, SoftmaxWeights
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import ConfigError
from elmo.text.vocabulary import Vocabulary

_WORD_TABLE = "token_encoder.word_embedding.weight"
_WORDS_AT_ONCE = 4096


def average(models: Mapping[str, Checkpoint]) -> Checkpoint:
    """The mean of the weights of models (by name), the softmax included; it has the card of the first.

    Models that continue from the same weights stay close enough for their mean to be a model, often a better one. The
    mean of models that were initialized differently is useless, which their shapes alone do not show.
    """
    (first_name, first), *others = models.items()
    for name, model in others:
        same = model.config == first.config and model.vocabulary == first.vocabulary
        same = same and model.tensors.keys() == first.tensors.keys()
        if not same or _softmax_size(model) != _softmax_size(first):
            raise ConfigError(
                f"{name} differs from {first_name} in its shape, its softmax or its vocabulary. Average models of one "
                "training run."
            )
    tensors = {name: _mean([model.tensors[name] for model in models.values()]) for name in first.tensors}
    heads = [model.softmax for model in models.values() if model.softmax is not None]
    means = [_mean([getattr(head, part) for head in heads]) for part in ("weight", "bias")] if heads else []
    # A warm state is only valid for the weights that it was computed with.
    return replace(first, tensors=tensors, softmax=SoftmaxWeights(*means) if heads else None, warm_state=None)


def _softmax_size(model: Checkpoint) -> int:
    return 0 if model.softmax is None else len(model.softmax.bias)


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors)).mean(dim=0)


@torch.no_grad()
def with_fixed_words(checkpoint: Checkpoint, words: Iterable[str], *, source: str) -> Checkpoint:
    """A word-id model of these words and the special tokens, as bilm-tf's `dump_token_embeddings` made it.

    The token vectors of the words become a table that replaces the token encoder: these words get the same vectors as
    before, and every other word becomes the unknown word. This is how a model whose token encoder the hdf5 format
    cannot hold (ELMoForManyLangs' code points) is written as hdf5.
    """
    bilm, config = PretrainedBiLM.from_checkpoint(checkpoint, source=source), checkpoint.config
    unknown = "<UNK>" if checkpoint.vocabulary is None else checkpoint.vocabulary.unknown
    listed = tuple(dict.fromkeys((config.begin_sentence, config.end_sentence, unknown, *words)))
    width = config.lstm.projection_dim
    table = torch.zeros(len(listed) + 1, width)
    for start in range(0, len(listed), _WORDS_AT_ONCE):
        some = listed[start : start + _WORDS_AT_ONCE]
        table[start + 1 : start + 1 + len(some)] = bilm.token_encoder(bilm.indexer.word_table(some))
    tensors = {name: tensor for name, tensor in checkpoint.tensors.items() if not name.startswith("token_encoder.")}
    return replace(
        checkpoint,
        config=replace(config, characters=None, char_cnn=None, word_embedding=WordEmbeddingConfig(len(listed), width)),
        tensors={**tensors, _WORD_TABLE: table},
        vocabulary=Vocabulary(
            listed, begin_sentence=config.begin_sentence, end_sentence=config.end_sentence, unknown=unknown
        ),
        softmax=None,  # it belongs to the old vocabulary
    )
