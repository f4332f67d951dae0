"""Kernel = reference: both directions without gradients, over shapes, lengths, clips, skips and states."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils import parametrizations

from elmo.bilm.config import BiLMConfig, LstmConfig, WordEmbeddingConfig
from elmo.bilm.kernels import binding
from elmo.bilm.kernels.lstm_inference import FirstProducts, first_product_width
from elmo.bilm.model import BiLM, BiLMOutput, BiLMState

NO_FIXTURE_CHECK = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def make_model(lstm: LstmConfig, *, seed: int = 0, scale: float = 1.0) -> BiLM:
    config = BiLMConfig(lstm=lstm, word_embedding=WordEmbeddingConfig(num_words=5, dim=lstm.projection_dim))
    model = BiLM(config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            spread = 1.0 if name.endswith("bias") else 1.5 / parameter.shape[-1] ** 0.5
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread * scale)
    return model


def readable(model: BiLM, *arguments: Tensor, state: BiLMState | None, keep_markers: bool) -> BiLMOutput:
    """The specification, in float64."""
    double = copy.deepcopy(model).double()
    vectors, positions, lengths = arguments
    if state is not None:
        state = BiLMState(state.hidden.double(), state.cell.double())
    with torch.no_grad():
        return double.contextualize(vectors.double(), positions, lengths, state=state, keep_markers=keep_markers)


def assert_equal(fast: BiLMOutput, exact: BiLMOutput, tolerance: float) -> None:
    assert exact.layers.dtype == torch.float64, "the reference must have run"
    assert torch.equal(fast.mask, exact.mask)
    assert fast.layers.shape == exact.layers.shape
    for ours, theirs in (
        (fast.layers, exact.layers),
        (fast.state.hidden, exact.state.hidden),
        (fast.state.cell, exact.state.cell),
    ):
        assert (ours.double() - theirs).abs().max().item() <= tolerance if ours.numel() else True


def random_batch(lengths: list[int], words: int, dim: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(words, dim, generator=generator)
    positions = torch.randint(words, (len(lengths), max(lengths)), generator=generator)
    return vectors, positions, torch.tensor(lengths)


lstm_configs = st.builds(
    LstmConfig,
    cell_dim=st.integers(1, 70),
    projection_dim=st.integers(1, 70),
    num_layers=st.integers(1, 3),
    cell_clip=st.sampled_from([None, 0.3, 3.0]),
    projection_clip=st.sampled_from([None, 0.2, 3.0]),
    skip_connections=st.booleans(),
    forget_bias=st.sampled_from([0.0, 1.0]),
)
batches = st.lists(st.integers(2, 12), min_size=1, max_size=60)


@NO_FIXTURE_CHECK
@given(
    config=lstm_configs,
    lengths=batches,
    words=st.integers(1, 30),
    seed=st.integers(0, 1000),
    same_rows=st.sampled_from([None, (), ("hidden",), ("cell",), ("hidden", "cell")]),
    keep_markers=st.booleans(),
)
def test_equals_the_reference(
    variant: str,
    config: LstmConfig,
    lengths: list[int],
    words: int,
    seed: int,
    same_rows: tuple[str, ...] | None,
    keep_markers: bool,
) -> None:
    """`same_rows`: the parts of the state that are one row for all sentences; None for no state."""
    model = make_model(config, seed=seed)
    arguments = random_batch(lengths, words, config.projection_dim, seed)
    state = None
    if same_rows is not None:
        generator = torch.Generator().manual_seed(seed)
        hidden, cell = (
            torch.randn(
                2, config.num_layers, 1 if part in same_rows else len(lengths), width, generator=generator
            ).expand(-1, -1, len(lengths), -1)
            for part, width in (("hidden", config.projection_dim), ("cell", config.cell_dim))
        )
        state = BiLMState(hidden, cell)
    with torch.no_grad():
        fast = model.contextualize(*arguments, state=state, keep_markers=keep_markers)
    exact = readable(model, *arguments, state=state, keep_markers=keep_markers)
    assert_equal(fast, exact, 1e-5)


@pytest.mark.parametrize("cells, width", [(64, 64), (256, 32), (96, 48), (33, 17)])
@pytest.mark.parametrize("lengths", [[21], [5] * 130, [30, 2, 2, 2, 2, 17, 3], list(range(2, 80))])
def test_larger_batches(variant: str, cells: int, width: int, lengths: list[int]) -> None:
    """Wide steps, narrow steps, blocks of steps; the step with 130 rows passes 48 and 96, where the plan changes."""
    model = make_model(LstmConfig(cell_dim=cells, projection_dim=width), scale=0.7)
    arguments = random_batch(lengths, 4000, width, 1)
    with torch.no_grad():
        fast = model.contextualize(*arguments)
    assert_equal(fast, readable(model, *arguments, state=None, keep_markers=False), 1e-5)


@pytest.mark.parametrize("lengths", [[2], [21], [5, 2, 9, 3] * 20])
def test_without_the_state_the_layers_are_the_same(variant: str, lengths: list[int]) -> None:
    model = make_model(LstmConfig(cell_dim=48, projection_dim=24))
    arguments = random_batch(lengths, 50, 24, 2)
    with torch.no_grad():
        whole = model.contextualize(*arguments)
        less = model.contextualize(*arguments, need_state=False)
    # Fewer rows at a step may mean another order of the same sum.
    assert less.layers.shape == whole.layers.shape
    assert less.layers.numel() == 0 or (less.layers - whole.layers).abs().max() < 1e-6
    assert less.state.batch_size == 0


def test_two_threads_give_the_same_bits(variant: str) -> None:
    model = make_model(LstmConfig(cell_dim=48, projection_dim=24))
    arguments = random_batch([9, 4, 7] * 20, 50, 24, 2)
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            with torch.no_grad():
                results.append(model.contextualize(*arguments))
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert (results[0].layers - other.layers).abs().max() < 1e-6
        assert (results[0].state.cell - other.state.cell).abs().max() < 1e-6


def test_callers_in_many_threads(variant: str) -> None:
    model = make_model(LstmConfig(cell_dim=48, projection_dim=24))
    batches = [random_batch([9, 4, 7, 3] * 5, 50, 24, seed) for seed in range(8)]
    with torch.no_grad():
        expected = [model.contextualize(*batch).layers for batch in batches]
    wrong = []

    def work(index: int) -> None:
        with torch.no_grad():
            for _ in range(20):
                if not torch.equal(model.contextualize(*batches[index]).layers, expected[index]):
                    wrong.append(index)

    workers = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_weights_changed_in_place_are_packed_again(variant: str) -> None:
    model = make_model(LstmConfig(cell_dim=16, projection_dim=8))
    arguments = random_batch([5, 4], 10, 8, 3)
    with torch.no_grad():
        before = model.contextualize(*arguments).layers
        model.forward_lstm.layers[1].recurrent_weight.mul_(0.5)
        after = model.contextualize(*arguments)
    assert not torch.equal(before, after.layers)
    assert_equal(after, readable(model, *arguments, state=None, keep_markers=False), 1e-5)


def test_gradients_use_the_reference(variant: str) -> None:
    model = make_model(LstmConfig(cell_dim=16, projection_dim=8))
    output = model.contextualize(*random_batch([5, 4], 10, 8, 3))
    assert output.layers.requires_grad
    with torch.no_grad():
        assert not model.contextualize(*random_batch([5, 4], 10, 8, 3)).layers.requires_grad
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    assert not model.contextualize(*random_batch([5, 4], 10, 8, 3)).layers.requires_grad


def test_nan_propagates(variant: str) -> None:
    """A clip must not hide an overflow from whoever watches for one."""
    model = make_model(LstmConfig(cell_dim=16, projection_dim=8))
    vectors, positions, lengths = random_batch([5], 10, 8, 3)
    vectors[positions[0, 2]] = float("nan")
    with torch.no_grad():
        layers = model.contextualize(vectors, positions, lengths).layers
    assert layers[1:, 0, 1].isnan().any() and layers[2, 0, -1].isnan().any()


@pytest.mark.parametrize("lengths", [[7], [5, 9, 3] * 9])
@torch.no_grad()
def test_cached_first_products(variant: str, lengths: list[int]) -> None:
    """Products that are there are used, the others are put where their slots say."""
    model = make_model(LstmConfig(cell_dim=20, projection_dim=8))
    vectors, positions, ends = random_batch(lengths, 10, 8, 3)

    def run(products: FirstProducts | None, vectors: Tensor = vectors) -> Tensor:
        return model.contextualize(vectors, positions, ends, first_products=products).layers[1:]

    table = torch.full((2, 15, first_product_width(20)), float("nan"))
    slots = torch.randperm(15)[:10]
    some = torch.where(torch.arange(10) < 4, slots, -1 - slots)
    expected = run(None)
    assert torch.equal(run(FirstProducts(table, -1 - slots)), expected)
    assert table[:, slots].isfinite().all() and table.isnan().sum() == 2 * 5 * table.shape[2]
    table[:, slots[4:]] = float("nan")
    assert torch.equal(run(FirstProducts(table, some)), expected)
    assert torch.equal(run(FirstProducts(table, slots), vectors * 0), expected), "read, not made"


def test_error_at_full_size() -> None:
    """At most 1e-5 from float64, with weights of the size that trained models have."""
    if not binding.available():
        pytest.skip("no compiled kernels")
    config = LstmConfig(cell_dim=1024, projection_dim=128)
    model = make_model(config, scale=0.7)
    arguments = random_batch([25, 20, 12, 7], 60, 128, 4)
    with torch.no_grad():
        fast = model.contextualize(*arguments)
    assert_equal(fast, readable(model, *arguments, state=None, keep_markers=False), 1e-5)


@pytest.mark.parametrize("cells, width", [(64, 64), (256, 32), (33, 17), (5, 3)])
@pytest.mark.parametrize("lengths", [[21], [5] * 130, [30, 2, 2, 17, 3]])
def test_half_precision_is_exact_in_the_rounded_weights(
    variant: str, cells: int, width: int, lengths: list[int]
) -> None:
    model = make_model(LstmConfig(cell_dim=cells, projection_dim=width), scale=0.7)
    arguments = random_batch(lengths, 500, width, 1)
    rounded = copy.deepcopy(model)
    with torch.no_grad():
        for name, parameter in rounded.named_parameters():
            if not name.endswith("bias"):
                parameter.copy_(parameter.half().float())
    model.precision = "float16"
    with torch.no_grad():
        fast = model.contextualize(*arguments)
    assert_equal(fast, readable(rounded, *arguments, state=None, keep_markers=False), 1e-5)


@pytest.mark.parametrize("lengths", [[21], [5] * 130, [30, 2, 2, 17, 3]])
def test_int8_is_close_to_float32(variant: str, lengths: list[int]) -> None:
    model = make_model(LstmConfig(cell_dim=256, projection_dim=64), scale=0.7)
    arguments = random_batch(lengths, 500, 64, 1)
    with torch.no_grad():
        exact = model.contextualize(*arguments).layers
        model.precision = "int8"
        fast = model.contextualize(*arguments)
    assert torch.equal(fast.layers[0], exact[0]), "the tokens themselves are not touched"
    similarity = torch.cosine_similarity(fast.layers[1:], exact[1:], dim=-1)[:, fast.mask]
    assert similarity.min() > 0.99
    assert not torch.equal(fast.layers, exact)


def test_gradients_ignore_the_precision(variant: str) -> None:
    model = make_model(LstmConfig(cell_dim=16, projection_dim=8))
    arguments = random_batch([5, 4], 10, 8, 3)
    expected = model.contextualize(*arguments).layers
    model.precision = "int8"
    assert torch.equal(model.contextualize(*arguments).layers, expected)


def test_hooks_and_parametrizations_of_the_lstms_are_used(variant: str) -> None:
    """Hooks are called; a parametrised weight is made anew."""
    model, called = make_model(LstmConfig(cell_dim=16, projection_dim=8)), []
    arguments = random_batch([5, 4], 10, 8, 3)
    model.forward_lstm.register_forward_hook(lambda *_: called.append("forward"))
    layer = model.backward_lstm.typed_layers[0]
    parametrizations.weight_norm(layer, "recurrent_weight")
    with torch.no_grad():
        model.contextualize(*arguments)
        layer.parametrizations.recurrent_weight.original0.data.mul_(0.3)
        after = model.contextualize(*arguments)
    assert called == ["forward"] * 2
    assert_equal(after, readable(model, *arguments, state=None, keep_markers=False), 1e-5)


def test_one_direction_alone_keeps_the_precision(variant: str) -> None:
    model = make_model(LstmConfig(cell_dim=64, projection_dim=32), scale=0.7)
    vectors, positions, lengths = random_batch([9, 5], 30, 32, 1)
    model.precision = "int8"
    with torch.no_grad():
        both = model.contextualize(vectors, positions, lengths, keep_markers=True).layers
        forward = model.forward_lstm(vectors[positions], lengths).layers
    assert (both[1:, ..., :32] - forward).abs().max() < 1e-6
