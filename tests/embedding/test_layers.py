import numpy as np
import pytest
import torch

from elmo.embedding.layers import choose_layers
from elmo.errors import ConfigError

LAYERS = torch.arange(3 * 4 * 5, dtype=torch.float32).reshape(3, 4, 5)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("all", LAYERS),
        (0, LAYERS[0]),
        (-1, LAYERS[2]),
        ("top", LAYERS[2]),
        ("1", LAYERS[1]),
        ("average", LAYERS.mean(dim=0)),
        ([0.5, 0.25, 2.0], 0.5 * LAYERS[0] + 0.25 * LAYERS[1] + 2 * LAYERS[2]),
        (np.array([0.5, 0.25, 2.0]), 0.5 * LAYERS[0] + 0.25 * LAYERS[1] + 2 * LAYERS[2]),
        (torch.tensor([0.5, 0.25, 2.0]), 0.5 * LAYERS[0] + 0.25 * LAYERS[1] + 2 * LAYERS[2]),
        (np.int64(1), LAYERS[1]),
        ("0.5, 0.25, 2", 0.5 * LAYERS[0] + 0.25 * LAYERS[1] + 2 * LAYERS[2]),
        ("concat", torch.cat(list(LAYERS), dim=-1)),
    ],
)
def test_every_choice_of_layers(spec: object, expected: torch.Tensor) -> None:
    choice = choose_layers(spec, 3)  # type: ignore[arg-type]
    kept = choice.select(LAYERS).numpy()
    assert kept.shape[0] == choice.num_kept
    np.testing.assert_allclose(choice.arrange(kept), expected.numpy(), rtol=1e-6)
    assert choice.shape(4, 5) == tuple(expected.shape)


def test_arranging_pooled_vectors() -> None:
    pooled = LAYERS[:, 0].numpy()
    for spec in ("all", "concat", 1):
        choice = choose_layers(spec, 3)
        kept = choice.select(LAYERS[:, 0]).numpy()
        assert choice.arrange(kept).shape == choice.shape(None, 5)
    np.testing.assert_array_equal(choose_layers("concat", 3).arrange(pooled), pooled.reshape(-1))


def test_one_direction_can_be_selected() -> None:
    for spec in ("all", "average", 1, "concat"):
        choice = choose_layers(spec, 3)
        halves = [choice.select(LAYERS[..., :2]), choice.select(LAYERS[..., 2:])]
        torch.testing.assert_close(torch.cat(halves, dim=-1), choice.select(LAYERS))


@pytest.mark.parametrize(
    "spec",
    [
        "middle",
        3,
        -4,
        [1.0, 2.0],
        "1,2",
        "",
        True,
        None,
        1.5,
        "nan,1,1",
        [1.0, float("inf"), 0.0],
        ["a", "b", "c"],
        [0.5, None, 0.5],
        np.ones((3, 1)),
    ],
)
def test_unsuitable_choices_are_refused(spec: object) -> None:
    with pytest.raises(ConfigError, match=r"layer"):
        choose_layers(spec, 3)  # type: ignore[arg-type]
