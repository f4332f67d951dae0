"""ELMo for task models: a biLM that runs once and one learned mix for every place it is put in (paper, section 3.3).

    layer = ElmoLayer(elmo.load(), places=2, dropout=0.5)
    at_input, at_output = layer(sentences).places
    loss = task_loss + layer.penalty(0.001)

The biLM is frozen unless asked otherwise; the mixes learn.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from elmo.bilm.model import BiLMState
from elmo.checkpoints import hub, native
from elmo.checkpoints.pretrained import PretrainedBiLM, as_bilm, locate
from elmo.errors import CheckpointError, ConfigError, InputError
from elmo.mix.scalar_mix import ScalarMix
from elmo.settings import check_number
from elmo.storage.atomic import write_atomic
from elmo.storage.json_file import read_json_object
from elmo.text.indexer import TokenBatch

_CONFIG_FILE, _WEIGHTS_FILE = "elmo_layer.json", "elmo_layer.safetensors"


@dataclass(frozen=True)
class ElmoLayerOutput:
    """One vector per token for every place."""

    places: list[Tensor]
    """Each (batch, tokens, dim), zero at padding."""
    mask: Tensor
    """True where there is a token, (batch, tokens)."""
    state: BiLMState


def check_layers(layers: Sequence[int] | None, num_layers: int) -> list[int]:
    """The layers that are mixed, 0 being the tokens; None means all."""
    # Numbers of NumPy's are made Python's, which JSON can hold.
    try:
        chosen = [index(layer) for layer in (range(num_layers) if layers is None else layers)]
    except TypeError:  # no sequence, or not of whole numbers
        chosen = []
    if not chosen or not all(-num_layers <= layer < num_layers for layer in chosen):
        raise ConfigError(f"layers is {layers}; expected some of 0 to {num_layers - 1}, this model's layers.")
    return chosen


class ElmoLayer(nn.Module):
    """A biLM with learned mixes."""

    def __init__(
        self,
        bilm: PretrainedBiLM | str | Path | None = None,
        *,
        places: int = 1,
        dropout: float = 0.5,
        layer_norm: bool = False,
        trainable: bool = False,
        keep_markers: bool = False,
        layers: Sequence[int] | None = None,
    ) -> None:
        """`bilm`: a model, or what `elmo.load` takes; without it, the bundled model.

        `places`: how often the task's model uses ELMo; each place has its own mix.

        `layers`: which of the biLM's layers are mixed, 0 being the tokens; all by default, (-1,) the last alone.
        """
        super().__init__()
        check_number("places", places, int, at_least=1)
        check_number("dropout", dropout, float, at_least=0, at_most=1)
        self.bilm = as_bilm(bilm)
        self.layers = check_layers(layers, self.bilm.config.num_layers)
        self.keep_markers = keep_markers
        self.dropout = nn.Dropout(float(dropout))
        self.mixes = nn.ModuleList(ScalarMix(len(self.layers), layer_norm=layer_norm) for _ in range(places))
        self.bilm_trainable = trainable
        self.set_bilm_trainable(trainable)

    def set_bilm_trainable(self, trainable: bool) -> None:
        """Freeze or free the biLM; give its parameters their own learning rate when it is free."""
        self.bilm_trainable = trainable
        self.bilm.requires_grad_(trainable)

    @property
    def output_dim(self) -> int:
        return self.bilm.config.output_dim

    def forward(
        self, sentences: TokenBatch | Sequence[Sequence[str]], state: BiLMState | None = None
    ) -> ElmoLayerOutput:
        """Token lists (or a batch made from them) -> vectors. A bare string is not a token list."""
        batch = sentences if isinstance(sentences, TokenBatch) else self.batch(sentences)
        # Autograd records the weights that require gradients, also those of nn.DataParallel's copies, which
        # `parameters()` does not find.
        output = self.bilm(batch, state, keep_markers=self.keep_markers)
        return ElmoLayerOutput(self.mix(output.layers, output.mask), output.mask, output.state)

    def mix(self, layers: Float[Tensor, "layers batch tokens dim"], mask: Tensor) -> list[Tensor]:
        """Every place's vectors from all layers, computed now or before: what a frozen biLM's cache gives."""
        layers = layers if self.layers == list(range(len(layers))) else layers[self.layers]
        return [self.dropout(mix(layers, mask)) for mix in self._typed_mixes]

    def batch(self, sentences: Sequence[Sequence[str]]) -> TokenBatch:
        """The batch that `forward` makes of token lists."""
        if isinstance(sentences, str):
            raise InputError("One string was given; expected a list of sentences, each a list of tokens.")
        device = self._typed_mixes[0].gamma.device
        return self.bilm.indexer.batch(sentences).to(device)

    def penalty(self, strength: float) -> Float[Tensor, ""]:
        """lambda * |w|^2 over every place's mix weights, to be added to the loss."""
        return torch.stack([mix.penalty(strength) for mix in self._typed_mixes]).sum()

    def mix_weights(self) -> list[list[float]]:
        """What each layer counts for at every place; each sums to one."""
        return [mix.normalised_weights.tolist() for mix in self._typed_mixes]

    def gammas(self) -> list[float]:
        return [mix.gamma.item() for mix in self._typed_mixes]

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the biLM and the mixes: a folder that needs nothing else. Each file is written atomically."""
        folder = Path(folder)
        self.bilm.save_pretrained(folder)
        native.write_tensors(self.mixes.state_dict(), folder / _WEIGHTS_FILE)
        settings = {
            "places": len(self.mixes),
            "dropout": self.dropout.p,
            "layer_norm": self._typed_mixes[0].layer_norm,
            "trainable": self.bilm_trainable,
            "keep_markers": self.keep_markers,
            "layers": self.layers,
        }
        write_atomic(folder / _CONFIG_FILE, json.dumps(settings, indent=2) + "\n")

    @classmethod
    def from_pretrained(cls, name: str | Path, *, revision: str | None = None, token: str | None = None) -> ElmoLayer:
        """The reverse of `save_pretrained`; also opens a Hub repository."""
        folder = locate(name, revision=revision, token=token)
        if not (folder / _CONFIG_FILE).exists():
            raise CheckpointError(
                f"{folder} has no {_CONFIG_FILE}: it holds a biLM without mixes. "
                f"Use ElmoLayer(elmo.load({str(name)!r}))."
            )
        settings = read_json_object(folder / _CONFIG_FILE, expected="the settings of an ElmoLayer")
        weights = native.read_tensors(folder / _WEIGHTS_FILE)
        bilm = PretrainedBiLM.from_pretrained(folder)
        try:
            layer = cls(bilm, **settings)
            layer.mixes.load_state_dict(weights)
        except (TypeError, ValueError, RuntimeError) as error:  # unknown or impossible settings; other tensors
            reason = " ".join(str(error).split()).rstrip(".")
            raise CheckpointError(
                f"{_CONFIG_FILE} and {_WEIGHTS_FILE} in {folder} do not fit its biLM or each other: {reason}. "
                "Copy the whole folder again, or save the layer again."
            ) from error
        return layer

    def push_to_hub(self, repo_id: str, *, private: bool = False, token: str | None = None) -> str:
        """Upload the biLM and the mixes; returns the repository's address."""
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return hub.push(Path(folder), repo_id, private=private, token=token)

    @property
    def _typed_mixes(self) -> list[ScalarMix]:
        return cast("list[ScalarMix]", list(self.mixes))
