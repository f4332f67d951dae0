"""Where the biLM runs: the kernels on the CPU, the reference on every other device."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_bilm import SCHEME, make_batch, make_bilm

from elmo.errors import InputError
from elmo.text.indexer import TokenBatch, TokenIndexer, WordTable


@torch.no_grad()
def test_the_kernels_leave_other_devices_alone() -> None:
    """The meta device stands in for a GPU: not the CPU's, and present everywhere."""
    bilm, batch = make_bilm(), make_batch()
    here, elsewhere = bilm(batch), copy.deepcopy(bilm).to("meta")(batch.to("meta"))
    assert elsewhere.layers.is_meta and elsewhere.layers.shape == here.layers.shape
    assert elsewhere.state.cell.shape == here.state.cell.shape and elsewhere.mask.shape == here.mask.shape


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@torch.no_grad()
def test_cuda_equals_the_cpu() -> None:
    bilm, batch = make_bilm(), make_batch()
    on_cpu, on_gpu = bilm(batch), copy.deepcopy(bilm).cuda()(batch.to("cuda"))
    assert on_gpu.layers.is_cuda and on_gpu.mask.is_cuda and on_gpu.state.hidden.is_cuda
    torch.testing.assert_close(on_gpu.layers.cpu(), on_cpu.layers, atol=1e-4, rtol=0)
    assert torch.equal(on_gpu.mask.cpu(), on_cpu.mask)
    torch.testing.assert_close(on_gpu.state.hidden.cpu(), on_cpu.state.hidden, atol=1e-4, rtol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@torch.no_grad()
def test_a_model_moves_back_to_the_cpu() -> None:
    bilm, batch = make_bilm(), make_batch()
    expected = bilm(batch).layers
    assert torch.equal(bilm.cuda().cpu()(batch).layers, expected)


@pytest.mark.parametrize("rows", [1, 4])
def test_a_state_has_one_row_for_each_sentence(rows: int) -> None:
    bilm, batch = make_bilm(), make_batch()
    with torch.no_grad():
        state = bilm(TokenIndexer(SCHEME, None).batch([["a"]] * rows)).state
        with pytest.raises(InputError, match="one row for each sentence"):
            bilm(batch, state)


def test_narrower_whole_numbers_mean_the_same() -> None:
    bilm, batch = make_bilm(), make_batch()
    assert batch.words.characters is not None
    words = WordTable([], batch.words.characters.int(), None)
    narrow = TokenBatch(words, batch.positions.int(), batch.lengths.int())
    for gradients in (False, True):
        with torch.set_grad_enabled(gradients):
            assert torch.equal(bilm(narrow).layers, bilm(batch).layers)


def test_training_works_after_inference_mode() -> None:
    """What was packed for the look is packed anew, in the same memory, at every update."""
    bilm, untouched, batch = make_bilm(), make_bilm(), make_batch()
    with torch.inference_mode():
        bilm(batch)
    for model in (bilm, untouched):
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimiser.zero_grad()
            model(batch).layers.square().sum().backward()
            optimiser.step()
    with torch.no_grad():
        assert torch.equal(bilm(batch).layers, untouched(batch).layers)


def test_torchs_defaults_change_nothing() -> None:
    """The kernels go by addresses: a default of another type or device must not reach their memory."""
    code = """
import torch
from tiny_bilm import make_batch, make_bilm

def results(bilm):
    batch = make_batch()
    with torch.no_grad():
        layers = bilm(batch).layers
    bilm.precision = "int8"
    with torch.no_grad():
        less = bilm(batch).layers
    output = bilm(batch).layers
    output.backward(torch.ones_like(output))
    return [layers, less, output.detach(), *(parameter.grad for parameter in bilm.parameters())]

def same(bilm):
    return all(map(torch.equal, results(bilm), expected))

models = [make_bilm() for _ in range(5)]
expected = results(models.pop())
for dtype in (torch.float16, torch.bfloat16, torch.float64):
    torch.set_default_dtype(dtype)
    assert same(models.pop()), dtype
torch.set_default_dtype(torch.float32)
with torch.device("meta"):
    assert same(models.pop())
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("length", [-1, 9])
def test_a_length_out_of_range_is_refused(gradients: bool, length: int) -> None:
    """With and without the kernels, which would read past the end."""
    bilm, batch = make_bilm(), make_batch()
    lengths = batch.lengths.clone()
    lengths[1] = length
    with torch.set_grad_enabled(gradients), pytest.raises(InputError, match="length of a sentence"):
        bilm(TokenBatch(batch.words, batch.positions, lengths))
    stack, tokens = bilm.forward_lstm, torch.zeros(3, 8, 8)
    with torch.set_grad_enabled(gradients), pytest.raises(InputError, match="length of a sentence"):
        stack(tokens, lengths, dropout=0.5)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("position", [-1, 99])
def test_a_position_out_of_range_is_refused(gradients: bool, position: int) -> None:
    bilm, batch = make_bilm(), make_batch()
    positions = batch.positions.clone()
    positions[0, 2] = position
    with torch.set_grad_enabled(gradients), pytest.raises(IndexError, match="row in the table of words"):
        bilm(TokenBatch(batch.words, positions, batch.lengths))


@pytest.mark.parametrize("sentences", [[], [[], []]], ids=["no sentences", "no tokens"])
def test_an_empty_batch_can_be_trained_on(sentences: list[list[str]]) -> None:
    """The last batch of a data set may be empty: its outputs have no elements, and its gradients are zeros."""
    bilm, batch = make_bilm(), TokenIndexer(SCHEME, None).batch(sentences, markers=False)
    output = bilm(batch, keep_markers=True)
    assert output.layers.shape == (3, len(sentences), 0, 16) and output.state.cell.shape == (2, 2, len(sentences), 24)
    (output.layers.sum() + output.state.hidden.sum()).backward()
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in bilm.parameters())


@torch.no_grad()
def test_word_vectors_of_another_width_are_refused() -> None:
    bilm, batch = make_bilm(), make_batch()
    with pytest.raises((InputError, RuntimeError)):
        bilm.contextualize(torch.zeros(9, 7), batch.positions, batch.lengths)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_autocast_changes_the_precision_but_not_the_type(dtype: torch.dtype) -> None:
    bilm, batch = make_bilm(), make_batch()
    expected = bilm(batch).layers
    with torch.autocast("cpu", dtype):
        layers = bilm(batch).layers
    assert layers.dtype == torch.float32
    torch.testing.assert_close(layers, expected, rtol=0, atol=0.02)
