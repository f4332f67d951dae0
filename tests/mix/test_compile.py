"""torch.compile, torch.export and autocast see the operators of `elmo.bilm.ops`, and nothing of what is behind them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.mix.elmo_layer import ElmoLayer

HERE = Path(__file__).parent


@pytest.mark.parametrize("kernel", ["", "off"])
@pytest.mark.parametrize(
    "checks",
    [
        pytest.param(("one_graph", "export"), id="inference"),
        pytest.param(("few_graphs", "gradients"), id="more", marks=pytest.mark.slow),
    ],
)
def test_compiled_and_exported(checks: tuple[str, ...], kernel: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path]), "ELMO_KERNEL": kernel}
    command = [sys.executable, str(HERE / "run_compiled.py"), *checks]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("trainable", [False, True])
def test_autocast_output_is_close_to_float32(make_bilm: Callable[..., PretrainedBiLM], trainable: bool) -> None:
    layer, sentences = ElmoLayer(make_bilm(), dropout=0.0, trainable=trainable), [["The", "bank"], ["Hello"]]
    expected = layer(sentences).places[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = layer(sentences).places[0]
    assert (inside.float() - expected).norm() < 0.05 * expected.norm()
    inside.float().sum().backward()
    assert (layer.bilm.forward_lstm.typed_layers[0].input_weight.grad is not None) == trainable
