"""A biLM's first weights, as bilm-tf drew them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from elmo.bilm.config import CharCnnConfig
from elmo.bilm.lstm import LstmLayer
from elmo.bilm.model import BiLM
from elmo.bilm.token_encoder import CharCnn, Highway


@torch.no_grad()
def initialise(bilm: BiLM, generator: torch.Generator | None = None) -> None:
    """Draw new values for every weight."""
    encoder = bilm.token_encoder
    if encoder.word_embedding is not None:
        encoder.word_embedding.weight.normal_(
            0, 1 / math.sqrt(encoder.word_embedding.embedding_dim), generator=generator
        )
        encoder.word_embedding.weight[0] = 0
    if encoder.char_cnn is not None:
        _initialise_char_cnn(encoder.char_cnn, encoder.char_cnn.config, generator)
    if encoder.projection is not None:
        encoder.projection.weight.normal_(0, 1 / math.sqrt(encoder.projection.in_features), generator=generator)
        encoder.projection.bias.zero_()
    for stack in (bilm.forward_lstm, bilm.backward_lstm):
        for layer in stack.layers:
            assert isinstance(layer, LstmLayer)
            _initialise_lstm(layer, generator)


def _initialise_char_cnn(char_cnn: CharCnn, config: CharCnnConfig, generator: torch.Generator | None) -> None:
    char_cnn.embedding.weight.uniform_(-1, 1, generator=generator)
    char_cnn.embedding.weight[0] = 0
    for convolution in char_cnn.convolutions:
        assert isinstance(convolution, nn.Conv1d) and convolution.bias is not None
        if config.activation == "relu":
            convolution.weight.uniform_(-0.05, 0.05, generator=generator)
        else:
            fan_in = convolution.kernel_size[0] * config.character_dim
            convolution.weight.normal_(0, 1 / math.sqrt(fan_in), generator=generator)
        convolution.bias.zero_()
    for highway in char_cnn.highways:
        assert isinstance(highway, Highway)
        for linear in (highway.carry, highway.transform):
            linear.weight.normal_(0, 1 / math.sqrt(config.num_filters), generator=generator)
        # Closed at first: a new highway layer passes its input on.
        highway.carry.bias.fill_(-2.0)
        highway.transform.bias.zero_()


def _initialise_lstm(layer: LstmLayer, generator: torch.Generator | None) -> None:
    # TensorFlow drew the input and the recurrent rows as one Glorot-uniform kernel.
    gates, width = layer.input_weight.shape
    _uniform(layer.input_weight, 2 * width + gates, generator)
    _uniform(layer.recurrent_weight, 2 * width + gates, generator)
    layer.bias.zero_()
    if layer.projection_weight is not None:
        _uniform(layer.projection_weight, sum(layer.projection_weight.shape), generator)


def _uniform(weight: Tensor, fan_sum: int, generator: torch.Generator | None) -> None:
    limit = math.sqrt(6 / fan_sum)
    weight.uniform_(-limit, limit, generator=generator)
