"""Copies made from a weight detect every change of it."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable

import pytest
import torch
from tiny_bilm import make_batch, make_bilm
from torch import Tensor, nn

from elmo.bilm.model import BiLM
from elmo.bilm.weights import Weight, version_of, watch


def _one_value_through_data(weight: Tensor) -> None:
    weight.data[5, 3] += 1


def _in_place(weight: Tensor) -> None:
    with torch.no_grad():
        weight[5, 3] += 1


def _other_data(weight: Tensor) -> None:
    changed = weight.detach().clone()
    changed[5, 3] += 1
    weight.data = changed


def _data_and_back(weight: Tensor) -> None:
    """The memory of the first change may be used for the second one."""
    for _ in range(3):
        changed = weight.detach().clone()
        changed[5, 3] += 1
        weight.data = changed


def _fused_optimizer(weight: Tensor) -> None:
    weight.grad = torch.zeros_like(weight)
    weight.grad[5, 3] = 1
    torch.optim.Adam([weight], lr=1.0, fused=True).step()


def _numpy_and_announced(weight: Tensor) -> None:
    weight.detach().numpy()[5, 3] += 1
    torch.autograd.graph.increment_version(weight)


CHANGES = [_one_value_through_data, _in_place, _other_data, _data_and_back, _fused_optimizer, _numpy_and_announced]
MATRICES = [
    "forward_lstm.layers.0.input_weight",
    "backward_lstm.layers.1.recurrent_weight",
    "backward_lstm.layers.0.projection_weight",
    "token_encoder.projection.weight",
    "token_encoder.char_cnn.highways.0.carry.weight",
]


def fresh(bilm: BiLM) -> Tensor:
    """The layers by a model that was never run before."""
    with torch.no_grad():
        return copy.deepcopy(bilm)(make_batch()).layers


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("loaded", [False, True], ids=["made", "loaded"])
def test_a_change_of_one_value_is_detected(change: Callable[[Tensor], None], name: str, loaded: bool) -> None:
    bilm, batch = make_bilm(), make_batch()
    if loaded:
        bilm.load_state_dict(copy.deepcopy(bilm.state_dict()), assign=True)
    with torch.no_grad():
        before = bilm(batch).layers
        with torch.enable_grad():
            bilm(batch)
    change(bilm.get_parameter(name))
    with torch.no_grad():
        after = bilm(batch).layers
    assert not torch.equal(after, before)
    assert torch.equal(after, fresh(bilm))


def test_a_replaced_parameter_is_detected() -> None:
    """Even where it takes the memory of the old one, with a count of changes of its own."""
    bilm, batch = make_bilm(), make_batch()
    layer = bilm.forward_lstm.typed_layers[0]
    for scale in (1.0, 2.0, 3.0):
        layer.recurrent_weight = nn.Parameter(torch.full_like(layer.recurrent_weight, 0.01 * scale))
        with torch.no_grad():
            assert torch.equal(bilm(batch).layers, fresh(bilm))


def test_changes_in_inference_mode_are_detected() -> None:
    """PyTorch counts no changes of tensors that are made in inference mode."""
    with torch.inference_mode():
        bilm, batch = make_bilm(), make_batch()
        before = bilm(batch).layers
        bilm.forward_lstm.typed_layers[0].input_weight[5, 3] += 1
        after = bilm(batch).layers
    assert not torch.equal(after, before)


def test_only_parameters_have_versions() -> None:
    weight = nn.Parameter(torch.zeros(2))
    assert version_of([weight]) is None
    watch([weight])
    assert version_of([weight]) == version_of([weight]) is not None
    assert version_of([weight, torch.zeros(2)]) is None


def test_a_watched_parameter_is_a_parameter() -> None:
    bilm = make_bilm()
    weight = bilm.forward_lstm.typed_layers[0].input_weight
    assert type(weight) is Weight and isinstance(weight, nn.Parameter) and weight.is_leaf
    assert isinstance(nn.Parameter(weight), nn.Parameter) and torch.equal(nn.Parameter(weight), weight)
    assert type(weight.detach()) is type(weight.data) is type(weight + 0) is Tensor
    assert all(type(tensor) is Tensor for tensor in bilm.state_dict().values())


def test_copies_and_pickles_have_weights_of_their_own() -> None:
    bilm, batch = make_bilm(), make_batch()
    with torch.no_grad():
        expected = bilm(batch).layers
    buffer = io.BytesIO()
    torch.save(bilm, buffer)
    buffer.seek(0)
    others = [copy.deepcopy(bilm), pickle.loads(pickle.dumps(bilm)), torch.load(buffer, weights_only=False)]
    with torch.no_grad():
        bilm.forward_lstm.typed_layers[0].input_weight.zero_()
        for other in others:
            assert torch.equal(other(batch).layers, expected)
