"""A grown biLM has the outputs of the smaller one, and every new weight gets a gradient."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig, WordEmbeddingConfig
from elmo.bilm.grow import grow
from elmo.bilm.initialise import initialise
from elmo.bilm.model import BiLM
from elmo.errors import ConfigError
from elmo.text.characters import CharacterScheme
from elmo.text.indexer import TokenBatch, TokenIndexer
from elmo.text.vocabulary import Vocabulary

SCHEME = CharacterScheme.utf8()
SMALL = BiLMConfig(
    LstmConfig(cell_dim=24, projection_dim=8),
    characters=SCHEME,
    char_cnn=CharCnnConfig(character_dim=4, filters=((1, 8), (3, 16)), num_highway=2),
)
WORDS = Vocabulary(("<S>", "</S>", "<UNK>", "bank", "river"))


def make_bilm(config: BiLMConfig) -> BiLM:
    bilm = BiLM(config).eval()
    initialise(bilm, torch.Generator().manual_seed(0))
    return bilm


def make_batch(config: BiLMConfig) -> TokenBatch:
    indexer = TokenIndexer(SCHEME, WORDS if config.word_embedding is not None else None)
    return indexer.batch([["A", "bank", "by", "a", "river", "."], ["Yes"], []])


def larger(config: BiLMConfig, *, filters: tuple[tuple[int, int], ...] | None = None, **lstm: int) -> BiLMConfig:
    assert config.char_cnn is not None
    char_cnn = config.char_cnn if filters is None else replace(config.char_cnn, filters=filters)
    return replace(config, lstm=replace(config.lstm, **lstm), char_cnn=char_cnn)


@pytest.mark.parametrize("with_words", [False, True])
@pytest.mark.parametrize(
    "wanted",
    [
        {"cell_dim": 40},
        {"filters": ((1, 8), (3, 16), (5, 12))},
        {"filters": ((1, 12), (3, 20))},
        {"cell_dim": 25, "filters": ((1, 9), (3, 16), (2, 3)), "num_layers": 3},
    ],
)
def test_growing_keeps_the_outputs(wanted: dict[str, int], with_words: bool) -> None:
    config = replace(SMALL, word_embedding=WordEmbeddingConfig(len(WORDS), dim=6) if with_words else None)
    bilm, batch = make_bilm(config), make_batch(config)
    grown = grow(bilm, larger(config, **wanted)).eval()
    with torch.no_grad():
        before, after = bilm(batch), grown(batch)
    same = before.layers.shape[0]
    torch.testing.assert_close(after.layers[:same], before.layers, atol=1e-6, rtol=0)
    for repeated in after.layers[same:]:
        torch.testing.assert_close(repeated, before.layers[-1], atol=1e-6, rtol=0)


def test_every_new_part_learns() -> None:
    """After one step the silent weights speak, so the next step reaches all that is behind them."""
    config = larger(SMALL, filters=((1, 8), (3, 16), (5, 12)), cell_dim=40, num_layers=3)
    grown, batch = grow(make_bilm(SMALL), config, torch.Generator().manual_seed(1)), make_batch(SMALL)
    goal = torch.randn(grown(batch).layers.shape, generator=torch.Generator().manual_seed(2))
    for _ in range(2):
        grown.zero_grad()
        ((grown(batch).layers - goal) ** 2).sum().backward()
        with torch.no_grad():
            for weight in grown.parameters():
                assert weight.grad is not None
                weight -= 1e-3 * weight.grad
    layer = grown.forward_lstm.typed_layers[0]
    assert layer.input_weight.grad is not None
    new_cells = layer.input_weight.grad.view(4, 40, -1)[:, 24:]
    assert new_cells.abs().amax(dim=-1).min() > 0
    top = grown.backward_lstm.typed_layers[2]
    assert top.recurrent_weight.grad is not None and top.recurrent_weight.grad.abs().max() > 0
    assert grown.token_encoder.char_cnn is not None
    new_filters = grown.token_encoder.char_cnn.convolutions[2].weight.grad
    assert isinstance(new_filters, torch.Tensor) and new_filters.abs().max() > 0


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (larger(SMALL, cell_dim=20), "cell_dim is 20, but the model has 24"),
        (larger(SMALL, num_layers=1), "num_layers is 1, but the model has 2"),
        (larger(SMALL, projection_dim=16), "projection_dim is 16, but the model has 8"),
        (larger(SMALL, filters=((1, 8), (2, 16))), "filters is .* the same widths"),
        (larger(SMALL, filters=((1, 8), (3, 15))), "filters is .* the same widths"),
        (larger(SMALL, filters=((1, 8),)), "filters is .* the same widths"),
        (replace(SMALL, char_cnn=CharCnnConfig(4, ((1, 8), (3, 16)), num_highway=3)), "num_highway is 3"),
        (replace(SMALL, tokenizer="whitespace"), "tokenizer is whitespace"),
    ],
)
def test_unsupported_growth_is_refused(wanted: BiLMConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        grow(make_bilm(SMALL), wanted)


def test_growth_without_room_for_new_units_is_refused() -> None:
    plain = larger(SMALL, cell_dim=8)
    narrow = larger(SMALL, cell_dim=4)
    for before, after in [
        (plain, larger(plain, cell_dim=16)),
        (plain, larger(plain, num_layers=3)),
        (narrow, larger(narrow, cell_dim=8)),
    ]:
        with pytest.raises(ConfigError, match="without projection"):
            grow(make_bilm(before), after)
    stacked = replace(SMALL, lstm=replace(SMALL.lstm, skip_connections=False))
    with pytest.raises(ConfigError, match="no skip connections"):
        grow(make_bilm(stacked), larger(stacked, num_layers=3))
