"""The mean of several models' weights: often better than each, if they come from one training.

    mean(a, b) = (a + b) / 2, for every parameter, the softmax included

Runs that went on from the same weights stay near enough to each other for their middle to be a model, too, and what
each of them learned by chance cancels out. Models that were trained from different beginnings have nothing in common
place by place: their mean is noise, which the shapes alone do not tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from elmo.checkpoints.checkpoint import Checkpoint, SoftmaxWeights
from elmo.errors import ConfigError


def average(models: Mapping[str, Checkpoint]) -> Checkpoint:
    """The mean of models of one shape and vocabulary, by their names; it has the card of the first."""
    (first_name, first), *others = models.items()
    for name, model in others:
        if model.config != first.config:
            raise ConfigError(f"{name} has another shape than {first_name}; only models of one training have a mean.")
        if model.vocabulary != first.vocabulary or (model.softmax is None) != (first.softmax is None):
            raise ConfigError(f"{name} has another softmax or other words than {first_name}; they must be the same.")
    tensors = {name: _mean([model.tensors[name] for model in models.values()]) for name in first.tensors}
    heads = [model.softmax for model in models.values() if model.softmax is not None]
    softmax = (
        SoftmaxWeights(_mean([head.weight for head in heads]), _mean([head.bias for head in heads])) if heads else None
    )
    # A state to start from belongs to the weights that it was computed with.
    return replace(first, tensors=tensors, softmax=softmax, warm_state=None)


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors)).mean(dim=0)
