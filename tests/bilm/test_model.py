"""Where the biLM runs: the kernels on the CPU, the readable form on every other device."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.bilm.initialise import initialise
from elmo.bilm.kernels import encoder, inference, kernel_info
from elmo.bilm.model import BiLM
from elmo.errors import InputError
from elmo.text.batches import TokenBatch, TokenIndexer, WordTable
from elmo.text.characters import CharacterScheme

SCHEME = CharacterScheme.utf8()
SENTENCES = [["A", "bank", "by", "a", "river", "."], ["Yes"], []]


def make_bilm() -> BiLM:
    cnn = CharCnnConfig(embedding_dim=4, filters=((1, 8), (3, 16)), num_highway=2)
    bilm = BiLM(BiLMConfig(LstmConfig(cell_dim=24, projection_dim=8), characters=SCHEME, char_cnn=cnn)).eval()
    initialise(bilm, torch.Generator().manual_seed(0))
    return bilm


def make_batch() -> TokenBatch:
    return TokenIndexer(SCHEME, None).batch(SENTENCES)


@torch.no_grad()
def test_the_kernels_leave_other_devices_alone() -> None:
    """The meta device stands in for a GPU: not the CPU's, and present everywhere."""
    bilm, batch = make_bilm(), make_batch()
    elsewhere, moved = copy.deepcopy(bilm).to("meta"), batch.to("meta")
    stacks = [elsewhere.forward_lstm, elsewhere.backward_lstm]
    vectors = bilm.token_encoder(batch.words)
    assert not encoder.fits(elsewhere.token_encoder, moved.words.characters)
    assert not inference.fits(stacks, [vectors.to("meta")])
    if kernel_info().name != "torch":
        assert encoder.fits(bilm.token_encoder, batch.words.characters)
        assert inference.fits([bilm.forward_lstm, bilm.backward_lstm], [vectors])


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


def test_training_goes_on_after_a_look_in_inference_mode() -> None:
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
from test_model import make_batch, make_bilm

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
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
