import pytest
import torch

from elmo.bilm.config import LstmConfig
from elmo.bilm.lstm import LstmLayer, LstmStack
from elmo.bilm.reference import StackState, reverse_within_lengths
from elmo.errors import InputError


def make_stack(**settings: object) -> LstmStack:
    torch.manual_seed(1)
    stack = LstmStack(LstmConfig(**{"cell_dim": 5, "projection_dim": 3, "num_layers": 2, **settings}))  # type: ignore[arg-type]
    for parameter in stack.parameters():
        torch.nn.init.uniform_(parameter, -1.5, 1.5)
    return stack


def one_step_by_hand(layer: LstmLayer, config: LstmConfig, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor):
    """The equations of bilm-tf, written a second time for one token."""
    gates = layer.input_weight @ x + layer.recurrent_weight @ h + layer.bias
    i, f, g, o = gates.split(config.cell_dim)
    c = (f + config.forget_bias).sigmoid() * c + i.sigmoid() * g.tanh()
    c = c.clip(-config.cell_clip, config.cell_clip)
    h = layer.projection_weight @ (o.sigmoid() * c.tanh())
    return h.clip(-config.projection_clip, config.projection_clip), c


@torch.no_grad()
def test_a_layer_follows_its_equations() -> None:
    stack = make_stack(cell_clip=0.6, projection_clip=0.4, num_layers=1)
    tokens = torch.randn(1, 7, 3)
    output = stack(tokens, torch.tensor([7]))
    h, c = torch.zeros(3), torch.zeros(5)
    for step in range(7):
        h, c = one_step_by_hand(stack.layers[0], stack.config, tokens[0, step], h, c)
        torch.testing.assert_close(output.layers[0, 0, step], h)
    torch.testing.assert_close(output.state.cell[0, 0], c)


@torch.no_grad()
def test_skip_connections_begin_at_the_second_layer_and_do_not_recur() -> None:
    with_skip, without = make_stack(), make_stack(skip_connections=False)
    tokens, lengths = torch.randn(2, 4, 3), torch.tensor([4, 2])
    a, b = with_skip(tokens, lengths), without(tokens, lengths)
    torch.testing.assert_close(a.layers[0], b.layers[0])
    real = (torch.arange(4) < lengths[:, None])[..., None]
    torch.testing.assert_close(a.layers[1], b.layers[1] + b.layers[0] * real)
    torch.testing.assert_close(a.state.hidden, b.state.hidden)


@torch.no_grad()
def test_state_after_the_last_real_token_continues_exactly() -> None:
    stack = make_stack()
    tokens, lengths = torch.randn(2, 6, 3), torch.tensor([6, 4])
    whole = stack(tokens, lengths)
    first = stack(tokens[:, :3], torch.tensor([3, 3]))
    second = stack(tokens[:, 3:], torch.tensor([3, 1]), state=first.state)
    torch.testing.assert_close(torch.cat([first.layers, second.layers], dim=2), whole.layers)
    torch.testing.assert_close(second.state.hidden, whole.state.hidden)
    torch.testing.assert_close(second.state.cell, whole.state.cell)


@pytest.mark.parametrize(("dtype", "batch"), [(torch.float32, 0), (torch.float64, 0), (torch.float64, 2)])
@torch.no_grad()
def test_without_tokens_the_state_stays_as_it_is(dtype: torch.dtype, batch: int) -> None:
    """float32 runs in the kernels, float64 in the reference."""
    stack = make_stack().to(dtype)
    state = StackState(torch.randn(2, batch, 3, dtype=dtype), torch.randn(2, batch, 5, dtype=dtype))
    output = stack(torch.zeros(batch, 0, 3, dtype=dtype), torch.zeros(batch, dtype=torch.long), state=state)
    assert output.layers.shape == (2, batch, 0, 3)
    assert torch.equal(output.state.hidden, state.hidden) and torch.equal(output.state.cell, state.cell)


@torch.no_grad()
def test_padding_is_zero_and_changes_no_other_output() -> None:
    stack = make_stack()
    tokens = torch.randn(2, 5, 3)
    lengths = torch.tensor([5, 2])
    spoilt = tokens.clone()
    spoilt[1, 2:] = 1e6
    clean, dirty = stack(tokens, lengths), stack(spoilt, lengths)
    assert not clean.layers[:, 1, 2:].any()
    torch.testing.assert_close(clean.layers, dirty.layers)
    torch.testing.assert_close(clean.state.cell, dirty.state.cell)


def test_without_projection_the_cells_are_the_output() -> None:
    stack = make_stack(cell_dim=3)
    assert stack.layers[0].projection_weight is None
    state = StackState(torch.zeros(2, 1, 3), torch.zeros(2, 1, 3))
    assert stack(torch.randn(1, 2, 3), torch.tensor([2]), state=state).layers.shape == (2, 1, 2, 3)


@pytest.mark.parametrize("lengths", [[3, 1], [2, 2], [1, 3]])
def test_reversing_twice_changes_nothing(lengths: list[int]) -> None:
    tokens, many = torch.randn(2, 3, 2), torch.tensor(lengths)
    torch.testing.assert_close(reverse_within_lengths(reverse_within_lengths(tokens, many), many), tokens)


@pytest.mark.parametrize("wrong", [(2, 1, 3), (2, 3, 3), (1, 2, 3), (2, 2, 4)])
def test_a_state_of_another_shape_is_refused(wrong: tuple[int, ...]) -> None:
    """Rows, layers, widths: the kernels would go past its end, or leave something out."""
    stack = make_stack()
    tokens, lengths = torch.randn(2, 4, 3), torch.tensor([4, 2])
    for shape, cells in ((wrong, (2, 2, 5)), ((2, 2, 3), (*wrong[:2], wrong[2] + 2))):
        with torch.no_grad(), pytest.raises(InputError, match=r"expected \(2, 2, 3\) and \(2, 2, 5\)"):
            stack(tokens, lengths, state=StackState(torch.zeros(shape), torch.zeros(cells)))


def test_a_state_takes_the_type_of_the_weights() -> None:
    stack = make_stack().double()
    tokens, lengths = torch.randn(2, 4, 3).double(), torch.tensor([4, 2])
    state = StackState(torch.randn(2, 2, 3), torch.randn(2, 2, 5))
    exact = StackState(state.hidden.double(), state.cell.double())
    assert torch.equal(stack(tokens, lengths, state=state).layers, stack(tokens, lengths, state=exact).layers)
