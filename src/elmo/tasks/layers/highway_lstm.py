"""The deep alternating LSTM with highway connections of semantic role labelling (He et al. 2017; paper, section 4).

    [i, f, o, r] = sigmoid(W_x x + W_h h' + b)       g = tanh(W_x x + W_h h' + b)
    c = f * c' + i * g
    h = dropout(r * o * tanh(c) + (1 - r) * W_s x)   the highway: the fraction of the layer below that passes through

Odd layers read from left to right, even ones from right to left; each reads the one below. The dropout zeroes the same
features of h at every token.

A layer is one autograd function, for the reasons in `fused_rnn.py`. `tests/tasks/layers/test_highway_lstm.py` compares
it with the formulas above.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from elmo.tasks.layers.dropout import keep_mask
from elmo.tasks.layers.fused_rnn import Steps

NUM_GATES = 5
"""i, f, o, r and g; in the input's projection the highway's W_s x follows them."""


class AlternatingHighwayLstm(nn.Module):
    """A stack of layers in alternating directions."""

    def __init__(self, input_dim: int, hidden_dim: int, *, num_layers: int = 8, dropout: float = 0.1) -> None:
        super().__init__()
        self.output_dim = hidden_dim
        self.dropout = dropout
        self.layers = nn.ModuleList(
            HighwayLstmLayer(input_dim if index == 0 else hidden_dim, hidden_dim, reverse=index % 2 == 1)
            for index in range(num_layers)
        )

    def forward(
        self, vectors: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens out"]:
        """Every text has at least one token; the result is zero at padding."""
        lengths = mask.sum(dim=1).cpu()
        packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
        data, batch_sizes = packed.data, packed.batch_sizes.tolist()
        for layer in self.layers:
            keep = None
            if self.training and self.dropout > 0:
                keep = keep_mask(data.new_empty(batch_sizes[0], self.output_dim), self.dropout)
            data = layer(data, batch_sizes, keep)
        repacked = PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        return pad_packed_sequence(repacked, batch_first=True, total_length=mask.shape[1])[0]


class HighwayLstmLayer(nn.Module):
    """One layer, over packed texts: all first tokens, then all second ones, longest text first."""

    def __init__(self, input_dim: int, hidden_dim: int, *, reverse: bool) -> None:
        super().__init__()
        self.reverse = reverse
        self.input_weight = nn.Parameter(torch.empty((NUM_GATES + 1) * hidden_dim, input_dim))
        self.recurrent_weight = nn.Parameter(torch.empty(NUM_GATES * hidden_dim, hidden_dim))
        self.bias = nn.Parameter(torch.zeros(NUM_GATES * hidden_dim))
        for weight in (self.input_weight, self.recurrent_weight):
            for gate in weight.data.split(hidden_dim):
                nn.init.orthogonal_(gate)
        nn.init.ones_(self.bias.data[hidden_dim : 2 * hidden_dim])

    def forward(
        self, data: Float[Tensor, "all dim"], batch_sizes: Sequence[int], keep: Tensor | None
    ) -> Float[Tensor, "all out"]:
        weights = (self.input_weight, self.recurrent_weight, self.bias)
        output: Tensor = _HighwayLstm.apply(Steps(batch_sizes, self.reverse), keep, data, *weights)
        return output


class _HighwayLstm(torch.autograd.Function):
    """A layer with its gradient. A step's rows are the first `size` texts, so states grow and shrink at the end."""

    @staticmethod
    def forward(context: Any, steps: Steps, keep: Tensor | None, data: Tensor, *weights: Tensor) -> Tensor:
        input_weight, recurrent_weight, bias = weights
        hidden_dim = recurrent_weight.shape[1]
        cut = NUM_GATES * hidden_dim
        projected = data @ input_weight.T
        # The gates' buffer contains, in turn, the projected inputs, the sums, and the activated gates.
        gates, highway = projected[:, :cut], projected[:, cut:]
        gates += bias
        total = len(data)
        hiddens, cells, cell_tanhs = (data.new_empty(total, hidden_dim) for _ in range(3))
        transposed = recurrent_weight.T.contiguous()
        hidden = cell = data.new_zeros(0, hidden_dim)
        for rows, size in steps.rows():
            gate, new_cell, cell_tanh, new_hidden = gates[rows], cells[rows], cell_tanhs[rows], hiddens[rows]
            known = min(size, len(hidden))
            if known:
                gate[:known].addmm_(hidden[:known], transposed)
            gate[:, : 4 * hidden_dim].sigmoid_()
            gate[:, 4 * hidden_dim :].tanh_()
            i, f, o, r, g = gate.split(hidden_dim, dim=1)
            torch.mul(i, g, out=new_cell)
            if known:
                new_cell[:known].addcmul_(f[:known], cell[:known])
            torch.tanh(new_cell, out=cell_tanh)
            torch.mul(o, cell_tanh, out=new_hidden)
            new_hidden.sub_(highway[rows]).mul_(r).add_(highway[rows])
            if keep is not None:
                new_hidden.mul_(keep[:size])
            hidden, cell = new_hidden, new_cell
        context.save_for_backward(data, input_weight, recurrent_weight, projected, hiddens, cells, cell_tanhs)
        context.keep, context.steps = keep, steps
        return hiddens

    @staticmethod
    def backward(context: Any, *output_gradients: Tensor) -> tuple[Tensor | None, ...]:
        data, input_weight, recurrent_weight, projected, hiddens, cells, cell_tanhs = context.saved_tensors
        keep: Tensor | None = context.keep
        hidden_dim = recurrent_weight.shape[1]
        gates, highway = projected[:, : NUM_GATES * hidden_dim], projected[:, NUM_GATES * hidden_dim :]
        d_projected = torch.empty_like(projected)
        # The previous hidden state of each token: zero at the start of a text.
        before = torch.zeros_like(hiddens)
        order = context.steps.rows()
        d_hidden = d_cell = data.new_zeros(0, hidden_dim)
        for index in range(len(order) - 1, -1, -1):
            rows, size = order[index]
            i, f, o, r, g = gates[rows].split(hidden_dim, dim=1)
            d_i, d_f, d_o, d_r, d_g, d_highway = d_projected[rows].split(hidden_dim, dim=1)
            through, cell_tanh = highway[rows], cell_tanhs[rows]
            d_h = output_gradients[0][rows].clone()
            later = min(size, len(d_hidden))
            d_h[:later] += d_hidden[:later]
            if keep is not None:
                d_h.mul_(keep[:size])
            # h = r * (o * tanh(c) - s) + s
            torch.mul(o, cell_tanh, out=d_r).sub_(through).mul_(d_h)
            torch.mul(d_h, r, out=d_o)
            torch.sub(d_h, d_o, out=d_highway)
            d_c = (1 - cell_tanh.square()).mul_(d_o).mul_(o)
            d_o.mul_(cell_tanh)
            d_c[:later] += d_cell[:later]
            torch.mul(d_c, g, out=d_i)
            torch.mul(d_c, i, out=d_g)
            d_f.zero_()
            known = 0
            if index:
                earlier, earlier_size = order[index - 1]
                known = min(size, earlier_size)
                torch.mul(d_c[:known], cells[earlier][:known], out=d_f[:known])
                before[rows][:known] = hiddens[earlier][:known]
            four = gates[rows, : 4 * hidden_dim]
            d_projected[rows, : 4 * hidden_dim].mul_(four).mul_(1 - four)
            d_g.mul_(1 - g.square())
            d_hidden = d_projected[rows][:known, : NUM_GATES * hidden_dim] @ recurrent_weight
            d_cell = d_c[:known] * f[:known]
        d_gates = d_projected[:, : NUM_GATES * hidden_dim]
        d_weights = d_projected.T @ data, d_gates.T @ before, d_gates.sum(dim=0)
        return None, None, d_projected @ input_weight, *d_weights
