"""The mean of several models' weights: often better than each of them, if they come from one training run.

    mean(a, b) = (a + b) / 2, for every parameter, the softmax included

Runs that continue from the same weights stay close enough for their mean to be a model, and averaging reduces their
noise. The mean of models that were initialized differently is useless, which their shapes alone do not show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from elmo.checkpoints.checkpoint import Checkpoint, SoftmaxWeights
from elmo.errors import ConfigError


def average(models: Mapping[str, Checkpoint]) -> Checkpoint:
    """The mean of models (by name) of one shape and vocabulary; it has the card of the first."""
    (first_name, first), *others = models.items()
    for name, model in others:
        if model.config != first.config:
            raise ConfigError(
                f"{name} has another shape than {first_name}; only models of one training run can be averaged."
            )
        if model.vocabulary != first.vocabulary or (model.softmax is None) != (first.softmax is None):
            raise ConfigError(f"{name} has another softmax or other words than {first_name}; they must be the same.")
    tensors = {name: _mean([model.tensors[name] for model in models.values()]) for name in first.tensors}
    heads = [model.softmax for model in models.values() if model.softmax is not None]
    softmax = (
        SoftmaxWeights(_mean([head.weight for head in heads]), _mean([head.bias for head in heads])) if heads else None
    )
    # A warm state is only valid for the weights that it was computed with.
    return replace(first, tensors=tensors, softmax=softmax, warm_state=None)


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors)).mean(dim=0)
