"""RNNs over padded texts: padding has no effect, dropout has one mask per text."""

import pytest
import torch

from elmo.tasks.layers.dropout import VariationalDropout
from elmo.tasks.layers.encoders import BidirectionalRnn


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_padding_does_not_change_a_text(kind: str) -> None:
    torch.manual_seed(0)
    rnn = BidirectionalRnn(3, 4, kind=kind, num_layers=2)  # type: ignore[arg-type]
    vectors = torch.randn(2, 5, 3)
    mask = torch.tensor([[True] * 3 + [False] * 2, [True] * 5])
    together = rnn(vectors, mask)
    alone = rnn(vectors[:1, :3], mask[:1, :3])
    torch.testing.assert_close(together[:1, :3], alone)
    assert together.shape == (2, 5, rnn.output_dim)
    assert (together[0, 3:] == 0).all()


def test_every_token_depends_on_both_sides() -> None:
    torch.manual_seed(0)
    rnn = BidirectionalRnn(3, 4)
    vectors, mask = torch.randn(1, 4, 3), torch.ones(1, 4, dtype=torch.bool)
    changed = vectors.clone()
    changed[0, 2] += 1
    differs = (rnn(vectors, mask) != rnn(changed, mask))[0]
    assert differs[:, :4].any(1).tolist() == [False, False, True, True]
    assert differs[:, 4:].any(1).tolist() == [True, True, True, False]


def test_variational_dropout_zeroes_features_of_a_text_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    dropout = VariationalDropout(0.25)
    ones = torch.ones(4, 6, 2000)
    dropped = dropout(ones)
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped)), "the same for every token"
    assert not torch.equal(dropped[0], dropped[1]), "different texts forget different features"
    assert dropped.mean().item() == pytest.approx(1, abs=0.02)
    assert torch.equal(dropout.eval()(ones), ones)
