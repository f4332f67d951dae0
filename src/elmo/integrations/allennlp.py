"""AllenNLP's ELMo, for code that was written for it: change the import, leave the rest.

    # was: from allennlp.modules.elmo import Elmo, batch_to_ids; from allennlp.commands.elmo import ElmoEmbedder
    from elmo.integrations.allennlp import Elmo, ElmoEmbedder, batch_to_ids

Signatures, shapes and numbers are those of AllenNLP 0.9, including its **state**: the LSTM goes on from what the batch
before left in the same row, so that the same sentence twice gives two answers. As there, it is reached through the
inner LSTM: `elmo._elmo_lstm._elmo_lstm.reset_states()` forgets it, and `.stateful = False` turns it off. New code is
better served by `elmo.Embedder` and `elmo.ElmoLayer`, which are pure by default.

What differs: biLMs without skip connections, with tanh or of any number of layers work; options and weights may be in
any format that `elmo.load` opens (give None for the other file). A word that is missing from `vocab_to_cache` is
computed from its characters. `embed_file` takes blank lines. Parameters have names of our own: old task models' saved
state dicts fit only in their `scalar_mix_k` part.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np
import torch
from torch import Tensor, nn

from elmo.bilm.model import BiLMState
from elmo.checkpoints import allennlp as hdf5_checkpoint
from elmo.checkpoints.pretrained import PretrainedBiLM, load
from elmo.embedding.carried_state import CarriedState, zero_state
from elmo.embedding.word_cache import encode_words
from elmo.errors import ConfigError, InputError
from elmo.integrations.cached_download import cached_path
from elmo.text.batches import WordTable
from elmo.text.characters import CharacterScheme
from elmo.whole_files import whole_file

_PUBLISHED = (
    "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway/elmo_2x4096_512_2048cnn_2xhighway"
)
DEFAULT_OPTIONS_FILE = f"{_PUBLISHED}_options.json"
DEFAULT_WEIGHT_FILE = f"{_PUBLISHED}_weights.hdf5"
DEFAULT_BATCH_SIZE = 64

_LAYER_NORM_EPSILON = 1e-12
_SCHEME = CharacterScheme.utf8()

logger = logging.getLogger(__name__)


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """Token lists -> character ids, (sentences, longest sentence, 50), 0 where there is no token."""
    ids = torch.zeros(len(batch), max(map(len, batch), default=0), _SCHEME.max_characters, dtype=torch.long)
    for row, sentence in enumerate(batch):
        if isinstance(sentence, str):
            raise InputError(
                f"batch_to_ids takes lists of tokens; sentence {row} is the string {sentence[:40]!r}. Split it."
            )
        if sentence:
            ids[row, : len(sentence)] = torch.tensor([_SCHEME.encode_word(token) for token in sentence])
    return ids


def remove_sentence_boundaries(tensor: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """(batch, tokens + 2, dim) and its mask without the first and the last token of each row; zeros at padding."""
    inner = torch.arange(tensor.shape[1] - 2, device=tensor.device) < (mask.sum(dim=1) - 2)[:, None]
    return tensor[:, 1:-1] * inner[..., None], inner.long()


class ScalarMix(nn.Module):
    """AllenNLP's mix: gamma * sum_k softmax(w)_k tensor_k over a list of tensors."""

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        values = [0.0] * mixture_size if initial_scalar_parameters is None else list(initial_scalar_parameters)
        if len(values) != mixture_size:
            raise ConfigError(f"{len(values)} mix weights were given for {mixture_size} tensors; give one for each.")
        self.mixture_size, self.do_layer_norm = mixture_size, do_layer_norm
        self.scalar_parameters = nn.ParameterList(
            nn.Parameter(torch.tensor([float(value)]), requires_grad=trainable) for value in values
        )
        self.gamma = nn.Parameter(torch.tensor([1.0]), requires_grad=trainable)

    def forward(self, tensors: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """`mask` is needed for layer norm alone."""
        if len(tensors) != self.mixture_size:
            raise ConfigError(f"{len(tensors)} tensors were passed to a mix of {self.mixture_size}.")
        if self.do_layer_norm:
            if mask is None:
                raise ConfigError("A mix with layer norm needs the mask.")
            tensors = [_normalise(tensor, mask) for tensor in tensors]
        weights = torch.softmax(torch.cat(list(self.scalar_parameters)), dim=0)
        return self.gamma * torch.stack([weight * tensor for weight, tensor in zip(weights, tensors, strict=True)]).sum(
            0
        )


def _normalise(tensor: Tensor, mask: Tensor) -> Tensor:
    """One mean and one variance over all unmasked elements, markers included. Padding is shifted along, as there."""
    real = mask.unsqueeze(-1).to(tensor.dtype)
    count = real.sum() * tensor.shape[-1]
    mean = (tensor * real).sum() / count
    variance = (((tensor - mean) * real) ** 2).sum() / count
    return (tensor - mean) / torch.sqrt(variance + _LAYER_NORM_EPSILON)


class _StatefulLstm:
    """What old code reaches for at `_elmo_lstm._elmo_lstm`: the state, and the switch that turns it off."""

    def __init__(self, bilm: PretrainedBiLM) -> None:
        config = bilm.config.lstm
        self.stateful = True
        self.num_layers, self.hidden_size, self.cell_size = config.num_layers, config.projection_dim, config.cell_dim
        self.carried = CarriedState()

    def reset_states(self, mask: Tensor | None = None) -> None:
        """Forget every row, or those where `mask` is true."""
        self.carried.reset(mask)

    @property
    def _states(self) -> tuple[Tensor, Tensor] | None:
        """(layers, rows, 2 * projection) and (layers, rows, 2 * cells), or None."""
        rows = self.carried.rows
        return None if rows is None else (torch.cat(list(rows.hidden), dim=-1), torch.cat(list(rows.cell), dim=-1))

    @_states.setter
    def _states(self, states: tuple[Tensor, Tensor] | None) -> None:
        rows = None if states is None else [torch.stack(state.chunk(2, dim=-1)) for state in states]
        self.carried.rows = None if rows is None else BiLMState(*rows)


class _ElmoBiLm(nn.Module):
    """Character ids -> the activations of every layer, sentence markers included."""

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path | None,
        requires_grad: bool = False,
        vocab_to_cache: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self.bilm = _open(options_file, weight_file).requires_grad_(requires_grad)
        if self.bilm.config.characters is None:
            raise ConfigError(
                "This model knows words by id only, and AllenNLP's interface takes characters. Use elmo.Embedder."
            )
        self.num_layers = self.bilm.config.num_layers
        self._requires_grad = requires_grad
        self._elmo_lstm = _StatefulLstm(self.bilm)
        self._word_embedding: nn.Embedding | None = None
        self.register_buffer("_marker_embeddings", None, persistent=False)
        if vocab_to_cache:
            self.create_cached_cnn_embeddings(vocab_to_cache)

    def get_output_dim(self) -> int:
        return self.bilm.config.output_dim

    def create_cached_cnn_embeddings(self, tokens: Sequence[str]) -> None:
        """Compute the words' vectors once; `word_inputs` of `forward` are places in this list, 0 being padding."""
        config = self.bilm.config
        distinct = list(dict.fromkeys([config.begin_sentence, config.end_sentence, *tokens]))
        place = {word: index for index, word in enumerate(distinct)}
        vectors = encode_words(self.bilm, distinct)
        self._marker_embeddings = vectors[:2]
        table = vectors[[place[word] for word in tokens]]
        self._word_embedding = nn.Embedding.from_pretrained(table, freeze=not self._requires_grad, padding_idx=0)

    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """`inputs`: (batch, tokens, 50). Gives `activations`, a list of (batch, tokens + 2, dim), and `mask`."""
        cached = self._word_embedding
        if cached is not None and word_inputs is not None and int(word_inputs.max()) < cached.num_embeddings:
            assert isinstance(self._marker_embeddings, Tensor)
            vectors = torch.cat([self._marker_embeddings, cached.weight])
            mask = word_inputs > 0
            places = word_inputs + 2
        elif inputs is not None:
            mask = (inputs > 0).any(dim=-1)
            words, places = self._distinct_words(inputs, mask)
            vectors = self.bilm.token_encoder(words)
        else:
            raise InputError("Words outside of vocab_to_cache need their character ids, too; pass both inputs.")
        positions, lengths = _add_markers(places, mask)
        lstm = self._elmo_lstm
        # The zeros are given rather than left out: a stateful run and a fresh one then take the same way.
        state = lstm.carried.take(self.bilm, len(mask)) if lstm.stateful else zero_state(self.bilm, len(mask))
        output = self.bilm.contextualize(vectors, positions, lengths, state=state, keep_markers=True)
        if lstm.stateful:
            lstm.carried.update(output.state)
        return {"activations": list(output.layers), "mask": output.mask.long()}

    def _distinct_words(self, inputs: Tensor, mask: Tensor) -> tuple[WordTable, Tensor]:
        """A table of both markers and then each distinct word of the batch, and where each token stands in it."""
        scheme = self.bilm.config.characters
        assert scheme is not None
        distinct, where = torch.unique(inputs[mask], dim=0, return_inverse=True)
        markers = [
            scheme.encode_word(self.bilm.config.begin_sentence),
            scheme.encode_word(self.bilm.config.end_sentence),
        ]
        places = torch.zeros(mask.shape, dtype=torch.long, device=mask.device)
        places[mask] = where + 2
        characters = torch.cat([torch.tensor(markers, device=inputs.device), distinct])
        return WordTable([], characters, None), places


def _add_markers(places: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Put row 0 of the word table before each sentence and row 1 behind its last token."""
    lengths = mask.sum(dim=1) + 2
    positions = places.new_zeros(places.shape[0], places.shape[1] + 2)
    positions[:, 1:-1] = places * mask
    positions.scatter_(1, (lengths - 1)[:, None], 1)
    return positions, lengths


class Elmo(nn.Module):
    """ELMo for task models: `num_output_representations` learned mixes of one biLM."""

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path | None,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        module: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if module is not None and (options_file is not None or weight_file is not None):
            raise ConfigError("Give options_file and weight_file, or module, but not both.")
        self._elmo_lstm = module or _ElmoBiLm(
            options_file, weight_file, requires_grad=requires_grad, vocab_to_cache=vocab_to_cache
        )
        self._has_cached_vocab = vocab_to_cache is not None
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(dropout)
        self._scalar_mixes: list[ScalarMix] = []
        for index in range(num_output_representations):
            mix = ScalarMix(
                int(self._elmo_lstm.num_layers),  # type: ignore[arg-type]
                do_layer_norm,
                scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(f"scalar_mix_{index}", mix)
            self._scalar_mixes.append(mix)

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Elmo:
        """From the settings of an old configuration file."""
        return cls(**_known_settings(params, cls))

    def get_output_dim(self) -> int:
        return int(self._elmo_lstm.get_output_dim())  # type: ignore[operator]

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """`inputs`: (batch, ..., tokens, 50). Gives `elmo_representations`, (batch, ..., tokens, dim), and `mask`."""
        if word_inputs is not None and not self._has_cached_vocab:
            logger.warning("Word inputs were passed to ELMo, but it has no cached vocabulary; they are not used.")
        use_words = word_inputs is not None and self._has_cached_vocab
        flat_words = word_inputs.reshape(-1, word_inputs.shape[-1]) if use_words and word_inputs is not None else None
        flat = None if inputs is None else inputs.reshape(-1, *inputs.shape[-2:])
        output = self._elmo_lstm(flat, flat_words)
        outer = word_inputs.shape[:-1] if inputs is None and word_inputs is not None else inputs.shape[:-2]
        representations = []
        mask = output["mask"]
        for mix in self._scalar_mixes:
            mixed, mask = mix(output["activations"], output["mask"]), output["mask"]
            if not self._keep_sentence_boundaries:
                mixed, mask = remove_sentence_boundaries(mixed, mask)
            representations.append(self._dropout(mixed).reshape(*outer, *mixed.shape[-2:]))
        return {"elmo_representations": representations, "mask": mask.reshape(*outer, mask.shape[-1])}


class ElmoTokenEmbedder(nn.Module):
    """One mix, with a projection if asked for: what AllenNLP's text field embedders used."""

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path | None,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: int | None = None,
        vocab_to_cache: Sequence[str] | None = None,
        scalar_mix_parameters: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self._elmo = Elmo(
            options_file, weight_file, 1, requires_grad=requires_grad, do_layer_norm=do_layer_norm, dropout=dropout,
            vocab_to_cache=vocab_to_cache, scalar_mix_parameters=scalar_mix_parameters,
        )  # fmt: skip
        width = self._elmo.get_output_dim()
        self._projection = nn.Linear(width, projection_dim) if projection_dim else None
        self.output_dim = projection_dim or width

    @classmethod
    def from_params(cls, vocab: Any, params: Mapping[str, Any]) -> ElmoTokenEmbedder:
        """From an old configuration file's {"type": "elmo_token_embedder", "options_file": ..., "weight_file": ...}.

        `vocab` is AllenNLP's, and None will do unless `namespace_to_cache` asks for its words.
        """
        settings = {name: value for name, value in params.items() if name != "type"}
        namespace = settings.pop("namespace_to_cache", None)
        kind = params.get("type", "elmo_token_embedder")
        if kind != "elmo_token_embedder":
            raise ConfigError(f"These are the settings of {kind!r}; expected those of 'elmo_token_embedder'.")
        if namespace is not None:
            if vocab is None:
                raise ConfigError("'namespace_to_cache' needs the vocabulary; pass it, or leave the setting out.")
            settings["vocab_to_cache"] = list(vocab.get_token_to_index_vocabulary(namespace))
        return cls(**_known_settings(settings, cls))

    def get_output_dim(self) -> int:
        return self.output_dim

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> Tensor:
        vectors: Tensor = self._elmo(inputs, word_inputs)["elmo_representations"][0]
        return vectors if self._projection is None else self._projection(vectors)


class ElmoEmbedder:
    """All layers of token lists as arrays, with AllenNLP's carried state."""

    def __init__(
        self,
        options_file: str | Path | None = DEFAULT_OPTIONS_FILE,
        weight_file: str | Path | None = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
    ) -> None:
        self.elmo_bilm = _ElmoBiLm(options_file, weight_file)
        self.cuda_device = cuda_device
        if cuda_device >= 0:
            self.elmo_bilm = self.elmo_bilm.cuda(cuda_device)

    @torch.no_grad()
    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """(batch, layers, tokens, dim) and the mask, (batch, tokens)."""
        output = self.elmo_bilm(batch_to_ids(batch).to(next(self.elmo_bilm.parameters()).device))
        layers = [remove_sentence_boundaries(layer, output["mask"]) for layer in output["activations"]]
        return torch.stack([layer for layer, _ in layers], dim=1), layers[0][1]

    def embed_sentence(self, sentence: Sequence[str]) -> np.ndarray:
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Each sentence's (layers, tokens, dim)."""
        embeddings, mask = self.batch_to_embeddings(batch)
        values = embeddings.cpu().numpy()
        return [values[row, :, :length].copy() for row, length in enumerate(mask.sum(dim=1).tolist())]

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[np.ndarray]:
        remaining = iter(sentences)
        while batch := list(islice(remaining, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: IO[str],
        output_file_path: str,
        output_format: str = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Lines of space-separated tokens -> hdf5, as `allennlp elmo` wrote it; the file appears when it is whole."""
        if output_format not in ("all", "top", "average"):
            raise ConfigError(f"Unknown output format {output_format!r}; expected all, top or average.")
        sentences = [line.strip() for line in input_file]
        vectors = self.embed_sentences((sentence.split() for sentence in sentences), batch_size)
        keys = sentences if use_sentence_keys else [str(index) for index in range(len(sentences))]
        with whole_file(Path(output_file_path)) as partial, h5py.File(partial, "w") as file:
            for key, layers in zip(keys, vectors, strict=True):
                chosen = {"all": layers, "top": layers[-1], "average": layers.mean(axis=0)}[output_format]
                try:
                    file.create_dataset(key, data=chosen, dtype="float32")
                except (TypeError, ValueError) as error:  # hdf5 takes a slash for a folder's, and . for this one
                    raise InputError(
                        f"The sentence {key[:60]!r} cannot be a key: it stands twice in the input, or is empty, "
                        "'.', or another one up to a slash. Do not use sentences as keys."
                    ) from error
            if not forget_sentences and not use_sentence_keys:
                names = {sentence: str(index) for index, sentence in enumerate(sentences)}
                file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())[0] = json.dumps(names)
        input_file.close()


def _known_settings(params: Mapping[str, Any], owner: type) -> dict[str, Any]:
    """The settings, if the constructor knows them all and has all that it needs."""
    parameters = inspect.signature(owner).parameters
    unknown = [name for name in params if name not in parameters]
    missing = [name for name, known in parameters.items() if known.default is known.empty and name not in params]
    if unknown or missing:
        raise ConfigError(
            f"The settings of {owner.__name__} do not fit: unknown {', '.join(unknown) or 'none'}; missing "
            f"{', '.join(missing) or 'none'}. It takes {', '.join(parameters)}."
        )
    return dict(params)


def _open(options_file: str | Path | None, weight_file: str | Path | None) -> PretrainedBiLM:
    """AllenNLP's two files, by path or address; or one path, of whatever format."""
    if options_file is None or weight_file is None:
        return load(options_file or weight_file)
    options, weights = cached_path(options_file), cached_path(weight_file)
    return PretrainedBiLM.from_checkpoint(hdf5_checkpoint.read(options, weights), source=str(weights))
