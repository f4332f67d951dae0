"""An LSTM layer with gradients: forward and backward in C.

What autograd would save for many small steps is saved in one buffer. Second derivatives are not available. With
bfloat16 only the products have this dtype; sums, states and everything else stay float32.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from elmo.bilm.config import LstmConfig
from elmo.bilm.kernels import binding
from elmo.bilm.kernels.binding import Precision
from elmo.bilm.kernels.lstm_inference import check_shapes
from elmo.bilm.kernels.packing import PackedLayer, PackedTransposed, gate_order, packed_layer, padded_cells
from elmo.bilm.reference import LayerWeights


class LayerCall(NamedTuple):
    """What a layer computes with, forward and backward."""

    inputs: Tensor
    """(batch, tokens, dim)"""
    lengths: Tensor
    state: tuple[Tensor, Tensor]
    """h and c before the first token"""
    weights: LayerWeights
    config: LstmConfig
    precision: Precision

    def contiguous(self) -> LayerCall:
        """As the library reads it: rows of inputs may have any stride."""
        inputs = self.inputs if self.inputs.stride(2) == 1 else self.inputs.contiguous()
        hidden, cell = self.state
        state = hidden.contiguous(), cell.contiguous()
        return self._replace(inputs=inputs, lengths=self.lengths.long().contiguous(), state=state)


class LayerForward(NamedTuple):
    """A layer's result, and what its gradient needs."""

    out: Tensor
    """h at every token, zeros past a sentence's end"""
    hidden: Tensor
    cell: Tensor
    """after each sentence's last token"""
    kept: Tensor
    """gates, cells and h before the clip, in the library's layout; `kept_size` floats"""


def kept_size(batch: int, steps: int, config: LstmConfig) -> int:
    """Floats in `LayerForward.kept`."""
    return batch * steps * (5 * padded_cells(config.cell_dim) + config.projection_dim)


def forward(call: LayerCall) -> LayerForward:
    """One layer over a batch from left to right."""
    batch, steps, dim = call.inputs.shape
    check_shapes(dim, call.lengths, batch, call.config)
    call = call.contiguous()
    hidden, cell = call.state
    kept = binding.scratch(4 * kept_size(batch, steps, call.config)).view(torch.float32)
    out = call.inputs.new_empty(batch, steps, call.config.projection_dim)
    result = LayerForward(out, torch.empty_like(hidden), torch.empty_like(cell), kept)
    packed = packed_layer(call.weights, call.config, call.precision)
    job = _job(call, packed, result)
    job.hidden_out, job.cell_out = result.hidden.data_ptr(), result.cell.data_ptr()
    binding.check(binding.library().elmo_train_forward(job, binding.num_threads()))
    return result


def _job(call: LayerCall, packed: PackedLayer, result: LayerForward) -> ctypes.Structure:
    (batch, steps, _), inputs, (hidden, cell) = call.inputs.shape, call.inputs, call.state
    kept, size = result.kept.data_ptr(), 4 * batch * steps * padded_cells(call.config.cell_dim)
    return binding.struct.elmo_training(
        layer=packed.struct,
        batch=batch,
        steps=steps,
        lengths=call.lengths.data_ptr(),
        x=inputs.data_ptr(),
        x_row=inputs.stride(0),
        x_step=inputs.stride(1),
        hidden_in=hidden.data_ptr(),
        cell_in=cell.data_ptr(),
        out=result.out.data_ptr(),
        gates=kept,
        cells=kept + 4 * size,
        raw=kept + 5 * size,
    )


def backward(gradients: Sequence[Tensor], result: LayerForward, call: LayerCall) -> list[Tensor]:
    """The gradients of the inputs, of h and c before them, and of every weight, from those of `forward`'s results."""
    call, result = call.contiguous(), result._replace(out=result.out.contiguous())
    inputs, (hidden, cell), weights, config, precision = call.inputs, call.state, *call[3:]
    batch, steps, input_dim = inputs.shape
    width, tokens, cells = config.projection_dim, batch * steps, padded_cells(config.cell_dim)
    order = gate_order(config.cell_dim)
    back = PackedTransposed(weights.recurrent, weights.input, inner_order=order, precision=precision)
    projection = weights.projection
    cell_weight = None if projection is None else PackedTransposed(projection, precision=precision)
    incoming = [tensor.contiguous() for tensor in gradients]
    d_inputs = inputs.new_empty(batch, steps, input_dim)
    d_hidden, d_cell = torch.empty_like(hidden), torch.empty_like(cell)
    d_weights = [weight.new_empty(weight.shape) for weight in weights if weight is not None]
    panel = 4 * binding.vector_length()
    outputs_size = -(-config.cell_dim // panel) * panel
    transposed_size = (input_dim + 2 * width + 1) * (-(-tokens // 16) * 16 + 16)
    sizes = (tokens * 4 * cells, tokens * outputs_size, transposed_size, tokens * width)
    scratch = binding.scratch(4 * sum(sizes))
    packed = packed_layer(weights, config, precision)
    job = _job(call, packed, result)
    job.d_gates, job.outputs, job.transposed, job.d_projected = (
        scratch.data_ptr() + 4 * sum(sizes[:index]) for index in range(4)
    )
    job.cell_weight = binding.struct.elmo_matrix() if cell_weight is None else cell_weight.struct
    job.back_weight = back.struct
    job.d_out, job.d_hidden_out, job.d_cell_out = (tensor.data_ptr() for tensor in incoming)
    job.d_x, job.d_hidden_in, job.d_cell_in = d_inputs.data_ptr(), d_hidden.data_ptr(), d_cell.data_ptr()
    job.d_input_weight, job.d_recurrent_weight, job.d_bias = (tensor.data_ptr() for tensor in d_weights[:3])
    job.d_projection_weight = None if projection is None else d_weights[3].data_ptr()
    binding.check(binding.library().elmo_train_backward(job, binding.num_threads()))
    return [d_inputs, d_hidden, d_cell, *d_weights]
