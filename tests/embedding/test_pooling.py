import pytest
import torch

from elmo.embedding.pooling import pool


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_padding_does_not_count(pooling: str) -> None:
    layers = -torch.rand(2, 3, 4, 5) - 1  # below zero, so that padding would win a maximum
    lengths = torch.tensor([4, 2, 0])
    layers[:, torch.arange(4) >= lengths[:, None]] = 0
    pooled = pool(layers, lengths, pooling)  # type: ignore[arg-type]
    for row, length in enumerate(lengths.tolist()):
        own = layers[:, row, :length]
        expected = torch.zeros(2, 5) if length == 0 else own.mean(1) if pooling == "mean" else own.amax(1)
        torch.testing.assert_close(pooled[:, row], expected)


def test_a_batch_of_empty_sentences() -> None:
    assert pool(torch.zeros(3, 2, 0, 4), torch.tensor([0, 0]), "mean").abs().sum() == 0
