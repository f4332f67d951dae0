import numpy as np
import pytest
import torch

from elmo.errors import ConfigError
from elmo.mix.scalar_mix import ScalarMix, normalise_layers


def test_it_starts_as_the_average() -> None:
    layers, mask = torch.randn(3, 2, 4, 5), torch.ones(2, 4, dtype=torch.bool)
    torch.testing.assert_close(ScalarMix(3)(layers, mask), layers.mean(dim=0))


def test_weights_and_gamma_follow_the_formula() -> None:
    mix = ScalarMix(3, weights=[1.0, -2.0, 0.5])
    torch.nn.init.constant_(mix.gamma, 2.5)
    layers, mask = torch.randn(3, 1, 2, 4), torch.ones(1, 2, dtype=torch.bool)
    share = torch.tensor([1.0, -2.0, 0.5]).exp()
    expected = 2.5 * (share / share.sum())[:, None, None, None].mul(layers).sum(dim=0)
    torch.testing.assert_close(mix(layers, mask), expected)
    assert mix.normalised_weights.sum().item() == pytest.approx(1.0)


def test_the_penalty_is_on_the_raw_weights_alone() -> None:
    mix = ScalarMix(2, weights=[3.0, 4.0])
    penalty = mix.penalty(0.1)
    assert penalty.item() == pytest.approx(2.5)
    penalty.backward()
    assert mix.gamma.grad is None
    torch.testing.assert_close(mix.weights.grad, torch.tensor([0.6, 0.8]))


def test_frozen_mixes_hold_weights_and_gamma() -> None:
    assert not any(parameter.requires_grad for parameter in ScalarMix(2, trainable=False).parameters())


def test_layer_norm_is_one_mean_and_variance_a_layer_over_real_tokens() -> None:
    layers = torch.randn(2, 3, 4, 5) * 7 + 2
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]], dtype=torch.bool)
    normal = normalise_layers(layers, mask)
    for layer in normal:
        assert layer[mask].mean().item() == pytest.approx(0, abs=1e-5)
        assert layer[mask].var(correction=0).item() == pytest.approx(1, abs=1e-4)
        assert not layer[~mask].any()


def test_layer_norm_comes_before_the_mix() -> None:
    layers, mask = 5 + torch.randn(3, 2, 4, 6), torch.tensor([[True] * 4, [True, True, False, False]])
    mixed = ScalarMix(3, layer_norm=True)(layers, mask)
    torch.testing.assert_close(mixed, normalise_layers(layers, mask).mean(dim=0))


def test_layer_norm_of_one_token_of_equal_values_and_of_padding_alone() -> None:
    layers, mask = torch.randn(1, 1, 2, 6), torch.tensor([[True, False]])
    token = layers[0, 0, 0]
    torch.testing.assert_close(
        normalise_layers(layers, mask)[0, 0, 0], (token - token.mean()) / token.std(correction=0)
    )
    assert not normalise_layers(torch.full((1, 1, 2, 6), 3.0), mask).any()
    assert not normalise_layers(layers, torch.zeros(1, 2, dtype=torch.bool)).any()


def test_weights_are_float32_whatever_floats_are_given() -> None:
    assert ScalarMix(2, weights=list(np.array([0.5, 1.0]))).weights.dtype == torch.float32


def test_one_weight_for_each_layer() -> None:
    with pytest.raises(ConfigError, match="2 mix weights were given for 3 layers"):
        ScalarMix(3, weights=[1.0, 2.0])
    with pytest.raises(ConfigError, match="num_layers is 0; expected a whole number, at least 1"):
        ScalarMix(0)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float16, 5e-3), (torch.bfloat16, 4e-2)])
def test_layer_norm_of_fp16_does_not_overflow(dtype: torch.dtype, tolerance: float) -> None:
    layers, mask = torch.randn(2, 4, 25, 1024).to(dtype), torch.ones(4, 25, dtype=torch.bool)
    normal = normalise_layers(layers, mask)
    assert normal.dtype == dtype
    torch.testing.assert_close(normal.float(), normalise_layers(layers.float(), mask), atol=tolerance, rtol=tolerance)
