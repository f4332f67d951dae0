"""Weights in sixteen letters: what files made with a model remember it by."""

from __future__ import annotations

import hashlib

import torch
from torch import nn


def fingerprint(module: nn.Module, *, beside: str = "") -> str:
    """The same for the same weights, whatever the model is called; `beside` is what else tells models apart."""
    digest = hashlib.sha256(beside.encode())
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:16]
