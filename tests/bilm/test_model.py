"""Where the biLM runs: the kernels on the CPU, the readable form on every other device."""

from __future__ import annotations

import copy

import pytest
import torch

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.bilm.kernels import encoder, inference, kernel_info
from elmo.bilm.model import BiLM
from elmo.text.batches import TokenBatch, TokenIndexer
from elmo.text.characters import CharacterScheme

SCHEME = CharacterScheme.utf8()
SENTENCES = [["A", "bank", "by", "a", "river", "."], ["Yes"], []]


def make_bilm() -> BiLM:
    torch.manual_seed(0)
    cnn = CharCnnConfig(embedding_dim=4, filters=((1, 8), (3, 16)), num_highway=2)
    return BiLM(BiLMConfig(LstmConfig(cell_dim=24, projection_dim=8), characters=SCHEME, char_cnn=cnn)).eval()


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
