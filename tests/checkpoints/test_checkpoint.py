"""Filling a model with tensors, and counting what it learns."""

import math

import pytest
import torch

from elmo.checkpoints.bilm_tf.options import config_from_options
from elmo.checkpoints.checkpoint import check_finite, count_parameters, empty_bilm, fill
from elmo.errors import CheckpointError

# The published option files: name -> (LSTM, projection, highways, parameters without softmax)
PUBLISHED = {
    "original": (4096, 512, 2, 93_600_848),
    "medium": (2048, 256, 1, 28_027_728),
    "small": (1024, 128, 1, 13_593_296),
}


@pytest.mark.parametrize(("dim", "projection", "highways", "parameters"), PUBLISHED.values(), ids=PUBLISHED)
def test_the_published_options_have_the_published_parameters(
    dim: int, projection: int, highways: int, parameters: int, tmp_path
) -> None:
    filters = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
    cnn = {"activation": "relu", "embedding": {"dim": 16}, "filters": filters, "max_characters_per_token": 50}
    lstm = {"cell_clip": 3, "proj_clip": 3, "n_layers": 2, "use_skip_connections": True}
    options = {
        "lstm": {**lstm, "dim": dim, "projection_dim": projection},
        "char_cnn": {**cnn, "n_characters": 262, "n_highway": highways},
    }
    assert count_parameters(config_from_options(options, num_words=None, source=tmp_path)) == parameters


def test_filling_takes_the_tensors_themselves(make_bilm) -> None:
    tensors = dict(make_bilm().state_dict())
    bilm = empty_bilm(make_bilm().config)
    fill(bilm, tensors, source="a test")
    for name, parameter in bilm.named_parameters():
        assert parameter.data_ptr() == tensors[name].data_ptr()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_refused(value: float) -> None:
    with pytest.raises(CheckpointError, match=r"^a test holds NaN or infinite values in b\. Expected finite weights"):
        check_finite({"a": torch.ones(3), "b": torch.tensor([1.0, value])}, source="a test")


def test_finite_values_with_an_infinite_sum_are_accepted() -> None:
    check_finite({"a": torch.full((3,), 3e38)}, source="a test")


def test_filling_names_all_that_is_wrong(make_bilm) -> None:
    tensors = dict(make_bilm().state_dict())
    tensors["stray"] = tensors.pop("token_encoder.projection.bias")
    tensors["token_encoder.projection.weight"] = torch.zeros(2, 3)
    with pytest.raises(CheckpointError) as raised:
        fill(empty_bilm(make_bilm().config), tensors, source="a test")
    for part in (
        "missing: token_encoder.projection.bias",
        "not part of the model: stray",
        "is (2, 3), expected (6, 16)",
    ):
        assert part in str(raised.value)
