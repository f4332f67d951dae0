import pytest
import torch

from elmo.bilm.model import BiLMState
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.carried_state import CarriedState, compute_warm_state
from elmo.errors import InputError


def _after(bilm: PretrainedBiLM, *sentences: list[str], state: BiLMState | None = None) -> BiLMState:
    with torch.no_grad():
        return bilm(bilm.indexer.batch(sentences), state).state


def test_rows_may_start_late_and_skip_batches(bilm: PretrainedBiLM) -> None:
    carried = CarriedState()
    first = _after(bilm, ["a"], ["b", "c"], state=carried.take(bilm, 2))
    carried.update(first)
    second = _after(bilm, ["d"], state=carried.take(bilm, 1))
    carried.update(second)
    assert carried.rows is not None
    torch.testing.assert_close(carried.rows.cell[:, :, 0], second.cell[:, :, 0])
    torch.testing.assert_close(carried.rows.cell[:, :, 1], first.cell[:, :, 1])
    third = carried.take(bilm, 3)
    torch.testing.assert_close(third.hidden[:, :, :2], carried.rows.hidden[:, :, :2])
    assert third.hidden[:, :, 2].abs().sum() == 0 and third.cell[:, :, 2].abs().sum() == 0


def test_resetting_some_rows(bilm: PretrainedBiLM) -> None:
    carried = CarriedState()
    carried.update(_after(bilm, ["a"], ["b"]))
    before = carried.take(bilm, 2)
    carried.reset(torch.tensor([True, False]))
    after = carried.take(bilm, 2)
    assert after.cell[:, :, 0].abs().sum() == 0
    torch.testing.assert_close(after.cell[:, :, 1], before.cell[:, :, 1])
    with pytest.raises(InputError, match="2 rows"):
        carried.reset(torch.tensor([True]))
    carried.reset()
    assert carried.rows is None


def test_resetting_clears_what_is_not_a_number(bilm: PretrainedBiLM) -> None:
    after = _after(bilm, ["a"], ["b"])
    carried = CarriedState(BiLMState(torch.full_like(after.hidden, torch.nan), torch.full_like(after.cell, torch.inf)))
    carried.reset(torch.tensor([True, False]))
    cleared = carried.take(bilm, 1)
    assert not cleared.hidden.any() and not cleared.cell.any()


def test_the_warm_state_is_one_row_that_text_left(bilm: PretrainedBiLM) -> None:
    warm = compute_warm_state(bilm, [["one", "sentence", "."]])
    torch.testing.assert_close(warm.cell, _after(bilm, ["one", "sentence", "."]).cell)
    warm = compute_warm_state(bilm, [["one", "sentence"], ["."]], batch_size=1)
    with torch.no_grad():
        first = bilm(bilm.indexer.batch([["one", "sentence"]])).state
        torch.testing.assert_close(warm.hidden, bilm(bilm.indexer.batch([["."]]), first).state.hidden)
    warm = compute_warm_state(bilm, [["a", "b"], ["c"], ["d"]], batch_size=2)
    assert warm.batch_size == 1
    with pytest.raises(InputError, match="at least one"):
        compute_warm_state(bilm, [])


def test_training_continues_from_a_state_of_inference_mode(bilm: PretrainedBiLM) -> None:
    carried, batch = CarriedState(), bilm.indexer.batch([["a", "b"]])
    with torch.inference_mode():
        carried.update(bilm(batch).state)
    bilm(batch, carried.take(bilm, 1)).layers.sum().backward()
    assert bilm.forward_lstm.typed_layers[0].recurrent_weight.grad is not None
