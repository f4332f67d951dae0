"""LSTM and GRU layers over packed texts as one autograd function each, for training on CPUs.

On a CPU torch builds its RNNs from small differentiable steps: every token adds a product to the gradient of each
weight. Here a layer's inputs are one product for all tokens, a step is one small product and a few in-place
operations, and each weight's gradient is one product over the whole batch at the end. Weights and results are those of
`nn.LSTM` and `nn.GRU` (`tests/tasks/layers/test_fused_rnn.py`). GPUs use torch's own fused kernels.

Packed texts (torch's `PackedSequence`) are the first tokens of all texts, then the second ones, longest text first;
`batch_sizes` is the number of texts at each step. A step's texts are therefore always the first rows of the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Steps:
    """The order in which the tokens of packed texts are read."""

    batch_sizes: Sequence[int]
    reverse: bool

    def rows(self) -> list[tuple[slice, int]]:
        """Each step's rows of the packed data, and their number."""
        found, start = [], 0
        for size in self.batch_sizes:
            found.append((slice(start, start + size), size))
            start += size
        return found[::-1] if self.reverse else found


def run_lstm(data: Tensor, steps: Steps, weights: Sequence[Tensor]) -> Tensor:
    """Hidden states of one direction, (all tokens, hidden). Weights in torch's order: input, recurrent, two biases."""
    input_weight, recurrent_weight, input_bias, recurrent_bias = weights
    result: Tensor = _Lstm.apply(steps, data, input_weight, recurrent_weight, input_bias + recurrent_bias)
    return result


def run_gru(data: Tensor, steps: Steps, weights: Sequence[Tensor]) -> Tensor:
    """Hidden states of one direction of a GRU."""
    result: Tensor = _Gru.apply(steps, data, *weights)
    return result


class _Lstm(torch.autograd.Function):
    """[i, f, g, o] = W_x x + W_h h' + b;  c = f * c' + i * g;  h = o * tanh(c)."""

    @staticmethod
    def forward(context: Any, steps: Steps, data: Tensor, *weights: Tensor) -> Tensor:
        input_weight, recurrent_weight, bias = weights
        dim = recurrent_weight.shape[1]
        # One buffer contains, in turn, the projected inputs, the sums, and the activated gates.
        gates = torch.addmm(bias, data, input_weight.T)
        outputs, before, cells_before, tanhs = (data.new_empty(len(data), dim) for _ in range(4))
        hidden, cell = (data.new_zeros(steps.batch_sizes[0], dim) for _ in range(2))
        transposed = recurrent_weight.T.contiguous()
        for rows, size in steps.rows():
            gate, h, c, tanh = gates[rows], hidden[:size], cell[:size], tanhs[rows]
            before[rows] = h
            cells_before[rows] = c
            gate.addmm_(h, transposed)
            i, f, g, o = gate.split(dim, dim=1)
            gate[:, : 2 * dim].sigmoid_()
            g.tanh_()
            o.sigmoid_()
            c.mul_(f).addcmul_(i, g)
            torch.tanh(c, out=tanh)
            torch.mul(o, tanh, out=h)
            outputs[rows] = h
        context.save_for_backward(data, input_weight, recurrent_weight, gates, before, cells_before, tanhs)
        context.steps = steps
        return outputs

    @staticmethod
    def backward(context: Any, *output_gradients: Tensor) -> tuple[Tensor | None, ...]:
        data, input_weight, recurrent_weight, gates, before, cells_before, tanhs = context.saved_tensors
        dim = recurrent_weight.shape[1]
        d_gates = torch.empty_like(gates)
        d_hidden, d_cell = (data.new_zeros(context.steps.batch_sizes[0], dim) for _ in range(2))
        for rows, size in reversed(context.steps.rows()):
            i, f, g, o = gates[rows].split(dim, dim=1)
            d_i, d_f, d_g, d_o = d_gates[rows].split(dim, dim=1)
            tanh, d_h, d_c = tanhs[rows], d_hidden[:size], d_cell[:size]
            d_h += output_gradients[0][rows]
            torch.mul(d_h, tanh, out=d_o)
            d_h.mul_(o)
            d_c.add_(d_h).addcmul_(d_h * tanh, tanh, value=-1)
            torch.mul(d_c, g, out=d_i)
            torch.mul(d_c, cells_before[rows], out=d_f)
            torch.mul(d_c, i, out=d_g)
            d_c.mul_(f)
            # Through the activations: s' = s (1 - s) and t' = 1 - t^2.
            d_g.addcmul_(d_g * g, g, value=-1)
            for gradient, gate in ((d_gates[rows, : 2 * dim], gates[rows, : 2 * dim]), (d_o, o)):
                gradient.mul_(gate).addcmul_(gradient, gate, value=-1)
            torch.mm(d_gates[rows], recurrent_weight, out=d_h)
        d_data = d_gates @ input_weight if context.needs_input_grad[1] else None
        return None, d_data, d_gates.T @ data, d_gates.T @ before, d_gates.sum(dim=0)


class _Gru(torch.autograd.Function):
    """r, z = sigmoid(W_x x + W_h h' + b);  n = tanh(W_x x + b + r * (W_h h' + b));  h = n + z * (h' - n)."""

    @staticmethod
    def forward(context: Any, steps: Steps, data: Tensor, *weights: Tensor) -> Tensor:
        input_weight, recurrent_weight, input_bias, recurrent_bias = weights
        dim = recurrent_weight.shape[1]
        gates = torch.addmm(input_bias, data, input_weight.T)
        outputs, before, candidates = (data.new_empty(len(data), dim) for _ in range(3))
        hidden = data.new_zeros(steps.batch_sizes[0], dim)
        transposed = recurrent_weight.T.contiguous()
        for rows, size in steps.rows():
            gate, h = gates[rows], hidden[:size]
            before[rows] = h
            recurrent = torch.addmm(recurrent_bias, h, transposed)
            gate[:, : 2 * dim].add_(recurrent[:, : 2 * dim]).sigmoid_()
            r, z, n = gate.split(dim, dim=1)
            candidates[rows] = recurrent[:, 2 * dim :]
            n.addcmul_(r, recurrent[:, 2 * dim :]).tanh_()
            h.sub_(n).mul_(z).add_(n)
            outputs[rows] = h
        context.save_for_backward(data, input_weight, recurrent_weight, gates, before, candidates)
        context.steps = steps
        return outputs

    @staticmethod
    def backward(context: Any, *output_gradients: Tensor) -> tuple[Tensor | None, ...]:
        data, input_weight, recurrent_weight, gates, before, candidates = context.saved_tensors
        dim = recurrent_weight.shape[1]
        # The gradients of the two sides differ only in n: the recurrent one is multiplied by r.
        d_input, d_recurrent = torch.empty_like(gates), torch.empty_like(gates)
        d_hidden = data.new_zeros(context.steps.batch_sizes[0], dim)
        for rows, size in reversed(context.steps.rows()):
            r, z, n = gates[rows].split(dim, dim=1)
            d_r, d_z, d_n = d_input[rows].split(dim, dim=1)
            d_h = d_hidden[:size]
            d_h += output_gradients[0][rows]
            torch.sub(before[rows], n, out=d_z).mul_(d_h)
            carried = d_h * z
            torch.sub(d_h, carried, out=d_n)
            d_n.addcmul_(d_n * n, n, value=-1)
            torch.mul(d_n, candidates[rows], out=d_r)
            both = gates[rows, : 2 * dim]
            d_both = d_input[rows, : 2 * dim]
            d_both.mul_(both).addcmul_(d_both, both, value=-1)
            d_recurrent[rows, : 2 * dim] = d_both
            torch.mul(d_n, r, out=d_recurrent[rows, 2 * dim :])
            torch.addmm(carried, d_recurrent[rows], recurrent_weight, out=d_h)
        d_data = d_input @ input_weight if context.needs_input_grad[1] else None
        d_biases = d_input.sum(dim=0), d_recurrent.sum(dim=0)
        return None, d_data, d_input.T @ data, d_recurrent.T @ before, *d_biases
