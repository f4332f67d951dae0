"""An LSTM layer with gradients: forward and backward in C, as one function of autograd.

What the readable layer keeps as a graph of many small steps is kept here as four buffers. A second derivative is not
to be had. Inside torch's autocast to bfloat16 the products are of that type, where the processor has it; sums, states
and what is between the products stay float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.bilm.config import LstmConfig
from elmo.bilm.kernels import binding
from elmo.bilm.kernels.packing import (
    PackedLayer,
    PackedTransposed,
    Precision,
    gate_order,
    is_plain,
    packed_layer,
    padded_cells,
    training_precision,
)
from elmo.bilm.lstm import LstmLayer


class BackwardWeights:
    """A layer's weights packed the other way round, for the gradients of what went into them."""

    def __init__(
        self, input_weight: Tensor, recurrent_weight: Tensor, projection_weight: Tensor | None, precision: Precision
    ) -> None:
        order = gate_order(len(input_weight) // 4)
        self.back = PackedTransposed(recurrent_weight, input_weight, inner_order=order, precision=precision)
        self.cell = None if projection_weight is None else PackedTransposed(projection_weight, precision=precision)


class _LayerFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        packed: PackedLayer,
        lengths: Tensor,
        inputs: Tensor,
        hidden: Tensor,
        cell: Tensor,
        input_weight: Tensor,
        recurrent_weight: Tensor,
        bias: Tensor,
        projection_weight: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        batch, steps, _ = inputs.shape
        inputs = inputs if inputs.stride(2) == 1 else inputs.contiguous()
        hidden, cell, lengths = hidden.contiguous(), cell.contiguous(), lengths.long().contiguous()
        num_cells, width = packed.struct.num_cells, packed.struct.hidden_dim
        out = inputs.new_empty(batch, steps, width)
        hidden_out, cell_out = torch.empty_like(hidden), torch.empty_like(cell)
        cells = padded_cells(num_cells)
        kept = batch * steps
        scratch = binding.Scratch(4 * kept * (5 * cells + width))
        job = binding.Training(
            layer=packed.struct,
            batch=batch,
            steps=steps,
            lengths=lengths.data_ptr(),
            x=inputs.data_ptr(),
            x_row=inputs.stride(0),
            x_step=inputs.stride(1),
            hidden_in=hidden.data_ptr(),
            cell_in=cell.data_ptr(),
            out=out.data_ptr(),
            hidden_out=hidden_out.data_ptr(),
            cell_out=cell_out.data_ptr(),
            gates=scratch.address,
            cells=scratch.address + 4 * kept * 4 * cells,
            raw=scratch.address + 4 * kept * 5 * cells,
        )
        if binding.library().elmo_train_forward(job, binding.num_threads()) != 0:
            raise MemoryError("No memory for the LSTM's working buffers; use a smaller batch.")
        ctx.save_for_backward(inputs, hidden, cell, out, input_weight, recurrent_weight, projection_weight)
        ctx.job, ctx.scratch, ctx.lengths, ctx.packed = job, scratch, lengths, packed
        return out, hidden_out, cell_out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor, d_hidden_out: Tensor, d_cell_out: Tensor) -> tuple[Tensor | None, ...]:
        inputs, hidden, cell, out, input_weight, recurrent_weight, projection_weight = ctx.saved_tensors
        batch, steps, input_dim = inputs.shape
        width, kept, cells = out.shape[2], batch * steps, padded_cells(cell.shape[1])
        weights = BackwardWeights(input_weight, recurrent_weight, projection_weight, ctx.packed.precision)
        incoming = [tensor.contiguous() for tensor in (d_out, d_hidden_out, d_cell_out)]
        d_inputs = inputs.new_empty(batch, steps, input_dim)
        d_hidden, d_cell = torch.empty_like(hidden), torch.empty_like(cell)
        d_weights = [torch.empty_like(weight) for weight in (input_weight, recurrent_weight)]
        d_bias = input_weight.new_empty(len(input_weight))
        d_projection = None if projection_weight is None else torch.empty_like(projection_weight)
        panel = 4 * binding.vector_length()
        outputs_size = -(-cell.shape[1] // panel) * panel
        turned_size = (input_dim + 2 * width + 1) * (-(-kept // 16) * 16 + 16)
        sizes = (kept * 4 * cells, kept * outputs_size, turned_size, kept * width)
        scratch = binding.Scratch(4 * sum(sizes))
        starts = [scratch.address + 4 * sum(sizes[:index]) for index in range(4)]
        job = binding.Training.from_buffer_copy(ctx.job)
        # Saved tensors may have moved: hooks can keep them elsewhere in the meantime.
        job.x, job.x_row, job.x_step = inputs.data_ptr(), inputs.stride(0), inputs.stride(1)
        job.hidden_in, job.cell_in, job.out = hidden.data_ptr(), cell.data_ptr(), out.data_ptr()
        job.d_gates, job.outputs, job.turned, job.d_projected = starts
        job.cell_weight = binding.Matrix() if weights.cell is None else weights.cell.struct
        job.back_weight = weights.back.struct
        job.d_out, job.d_hidden_out, job.d_cell_out = (tensor.data_ptr() for tensor in incoming)
        job.d_x, job.d_hidden_in, job.d_cell_in = d_inputs.data_ptr(), d_hidden.data_ptr(), d_cell.data_ptr()
        job.d_input_weight, job.d_recurrent_weight = (tensor.data_ptr() for tensor in d_weights)
        job.d_bias = d_bias.data_ptr()
        job.d_projection_weight = None if d_projection is None else d_projection.data_ptr()
        if binding.library().elmo_train_backward(job, binding.num_threads()) != 0:
            raise MemoryError("No memory for the LSTM's working buffers; use a smaller batch.")
        return None, None, d_inputs, d_hidden, d_cell, *d_weights, d_bias, d_projection


def run_layer(
    layer: LstmLayer, inputs: Tensor, lengths: Tensor, *, hidden: Tensor, cell: Tensor, config: LstmConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer over a batch: its h at every token (zeros past a sentence's end), and the last h and c."""
    weights = (layer.input_weight, layer.recurrent_weight, layer.bias, layer.projection_weight)
    return _LayerFunction.apply(
        packed_layer(layer, config, training_precision()), lengths, inputs, hidden, cell, *weights
    )


def fits(layer: LstmLayer, *tensors: Tensor) -> bool:
    """Whether the kernel can take these: a plain layer, float32 on the CPU."""
    if not binding.available() or not is_plain(layer, LstmLayer):
        return False
    everything = (*tensors, *layer.parameters())
    return all(map(binding.takes, everything))
