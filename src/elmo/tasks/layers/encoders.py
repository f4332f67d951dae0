"""Bidirectional RNNs over padded texts, with variational dropout on the input of each layer.

Padding is not read: the backward direction starts at the last token of each text. On CPUs the layers run in
`fused_rnn.py`. Left out: the alternating highway LSTM of semantic roles (`highway_lstm.py`).
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from elmo.tasks.layers.dropout import VariationalDropout
from elmo.tasks.layers.fused_rnn import Steps, run_gru, run_lstm

_WEIGHT_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


class BidirectionalRnn(nn.Module):
    """Layers of LSTMs or GRUs in both directions; every layer reads both directions of the one below."""

    def __init__(
        self,
        input_dim: int,
        hidden_dim: int,
        *,
        kind: Literal["lstm", "gru"] = "lstm",
        num_layers: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.output_dim = 2 * hidden_dim
        """Both directions side by side."""
        rnn, self.run = (nn.LSTM, run_lstm) if kind == "lstm" else (nn.GRU, run_gru)
        widths = [input_dim] + [self.output_dim] * (num_layers - 1)
        self.layers = nn.ModuleList(rnn(width, hidden_dim, batch_first=True, bidirectional=True) for width in widths)
        self.dropout = VariationalDropout(dropout)
        for layer in self.layers:
            _initialise(layer, hidden_dim, is_lstm=kind == "lstm")

    def forward(
        self, vectors: Float[Tensor, "batch tokens dim"], mask: Bool[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens out"]:
        """Every text has at least one token; the result is zero at padding."""
        lengths = mask.sum(dim=1).cpu()
        for layer in self.layers:
            packed = pack_padded_sequence(self.dropout(vectors), lengths, batch_first=True, enforce_sorted=False)
            output = self._run_fused(layer, packed) if vectors.is_cpu else layer(packed)[0]
            vectors, _ = pad_packed_sequence(output, batch_first=True, total_length=mask.shape[1])
        return vectors

    def _run_fused(self, layer: nn.Module, packed: PackedSequence) -> PackedSequence:
        directions = []
        for ending in ("", "_reverse"):
            weights = [getattr(layer, f"{name}_l0{ending}") for name in _WEIGHT_NAMES]
            steps = Steps(packed.batch_sizes.tolist(), reverse=bool(ending))
            directions.append(self.run(packed.data, steps, weights))
        return packed._replace(data=torch.cat(directions, dim=1))


def _initialise(layer: nn.Module, hidden_dim: int, *, is_lstm: bool) -> None:
    """Orthogonal recurrent weights, and a bias of 1 for the forget gates of LSTMs."""
    for name, parameter in layer.named_parameters():
        if "weight_hh" in name:
            for gate in parameter.data.split(hidden_dim):
                nn.init.orthogonal_(gate)
        elif "weight_ih" in name:
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.zeros_(parameter)
            if is_lstm and "bias_ih" in name:
                torch.nn.init.ones_(parameter.data[hidden_dim : 2 * hidden_dim])
