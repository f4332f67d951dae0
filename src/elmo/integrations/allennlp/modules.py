"""AllenNLP's ELMo modules for task models: learned mixes of one biLM's layers."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from elmo.checkpoints.alignment import load_mapping
from elmo.errors import ConfigError
from elmo.integrations.allennlp.bilm import Place, _ElmoBiLm
from elmo.integrations.allennlp.published import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE
from elmo.integrations.allennlp.text import Mask, remove_sentence_boundaries
from elmo.mix.scalar_mix import LAYER_NORM_EPSILON
from elmo.storage.download import cached_path

_VECTORS = "elmo_representations"

logger = logging.getLogger(__name__)


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
        """`mask` is only needed for layer norm."""
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
    """One mean and one variance over all unmasked elements, markers included. As in AllenNLP, padding is shifted."""
    real = mask.unsqueeze(-1).to(tensor.dtype)
    count = real.sum() * tensor.shape[-1]
    mean = (tensor * real).sum() / count
    variance = (((tensor - mean) * real) ** 2).sum() / count
    return (tensor - mean) / torch.sqrt(variance + LAYER_NORM_EPSILON)


class Elmo(nn.Module):
    """ELMo for task models: `num_output_representations` learned mixes of one biLM."""

    def __init__(
        self,
        options_file: Place,
        weight_file: Place,
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
        if module is None:
            module = _ElmoBiLm(options_file, weight_file, requires_grad=requires_grad, vocab_to_cache=vocab_to_cache)
        self._elmo_lstm = module
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
        characters: Tensor | None = inputs
        words, outer = None, inputs.shape[:-2]
        if word_inputs is not None and self._has_cached_vocab:
            words, outer = word_inputs.reshape(-1, word_inputs.shape[-1]), word_inputs.shape[:-1]
            if inputs.shape == word_inputs.shape:  # word ids as both: AllenNLP never looked at the first
                characters = None
        elif word_inputs is not None:
            logger.warning("Word inputs were passed to ELMo, but it has no cached vocabulary; they are not used.")
        flat = None if characters is None else characters.reshape(-1, *characters.shape[-2:])
        output = self._elmo_lstm(flat, words)
        representations = []
        mask = output["mask"]
        for index in range(len(self._scalar_mixes)):
            mix = getattr(self, f"scalar_mix_{index}")  # as in AllenNLP: a program may have replaced it
            mixed, mask = mix(output["activations"], output["mask"]), output["mask"]
            if not self._keep_sentence_boundaries:
                mixed, mask = remove_sentence_boundaries(mixed, mask)
            representations.append(self._dropout(mixed).reshape(*outer, *mixed.shape[-2:]))
        return {_VECTORS: representations, "mask": mask.reshape(*outer, mask.shape[-1]).as_subclass(Mask)}


class _TokenEmbedder(nn.Module):
    """What the embedders of text fields share: a projection, and the settings of configuration files."""

    settings_type: str

    def __init__(self, projection_dim: int | None, width: int) -> None:
        super().__init__()
        self._projection = nn.Linear(width, projection_dim) if projection_dim else None
        self.output_dim = projection_dim or width

    @classmethod
    def from_params(cls, vocab: Any, params: Mapping[str, Any]) -> Self:
        """From an old configuration file's {"type": "elmo_token_embedder", "options_file": ..., "weight_file": ...}.

        `vocab` is AllenNLP's, and None will do unless `namespace_to_cache` asks for its words.
        """
        settings = {name: value for name, value in params.items() if name != "type"}
        namespace = settings.pop("namespace_to_cache", None)
        kind = params.get("type", cls.settings_type)
        if kind != cls.settings_type:
            raise ConfigError(f"These are the settings of {kind!r}; expected those of {cls.settings_type!r}.")
        if namespace is not None:
            if vocab is None:
                raise ConfigError("'namespace_to_cache' needs the vocabulary; pass it, or leave the setting out.")
            settings["vocab_to_cache"] = list(vocab.get_token_to_index_vocabulary(namespace))
        return cls(**_known_settings(settings, cls))

    def get_output_dim(self) -> int:
        return self.output_dim

    def _project(self, vectors: Tensor) -> Tensor:
        return vectors if self._projection is None else self._projection(vectors)


class ElmoTokenEmbedder(_TokenEmbedder):
    """One mix, with a projection if asked for: what AllenNLP's text field embedders used."""

    settings_type = "elmo_token_embedder"

    def __init__(
        self,
        options_file: Place = DEFAULT_OPTIONS_FILE,
        weight_file: Place = DEFAULT_WEIGHT_FILE,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: int | None = None,
        vocab_to_cache: Sequence[str] | None = None,
        scalar_mix_parameters: Sequence[float] | None = None,
    ) -> None:
        elmo = Elmo(
            options_file, weight_file, 1, requires_grad=requires_grad, do_layer_norm=do_layer_norm, dropout=dropout,
            vocab_to_cache=vocab_to_cache, scalar_mix_parameters=scalar_mix_parameters,
        )  # fmt: skip
        super().__init__(projection_dim, elmo.get_output_dim())
        self._elmo = elmo

    def forward(
        self, inputs: Tensor | None = None, word_inputs: Tensor | None = None, *, elmo_tokens: Tensor | None = None
    ) -> Tensor:
        """`elmo_tokens` is 2.x's name of `inputs`."""
        return self._project(self._elmo(inputs if elmo_tokens is None else elmo_tokens, word_inputs)[_VECTORS][0])


class ElmoTokenEmbedderMultiLang(_TokenEmbedder):
    """A biLM for each language, each with a matrix that maps its vectors into a space common to all."""

    settings_type = "elmo_token_embedder_multilang"

    def __init__(
        self,
        options_files: Mapping[str, Place],
        weight_files: Mapping[str, Place],
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: int | None = None,
        vocab_to_cache: Sequence[str] | None = None,
        scalar_mix_parameters: Sequence[float] | None = None,
        aligning_files: Mapping[str, Place] | None = None,
    ) -> None:
        """`aligning_files`: torch files of a (dim, dim) matrix; a language without one stays as it is."""
        if set(options_files) != set(weight_files):
            raise ConfigError(
                f"Options were given for {sorted(options_files)} and weights for {sorted(weight_files)}; "
                "expected the same languages."
            )
        elmos = {
            language: Elmo(
                options_files[language], weight_files[language], 1, requires_grad=requires_grad,
                do_layer_norm=do_layer_norm, dropout=dropout, vocab_to_cache=vocab_to_cache,
                scalar_mix_parameters=scalar_mix_parameters,
            )
            for language in weight_files
        }  # fmt: skip
        widths = {elmo.get_output_dim() for elmo in elmos.values()}
        if len(widths) != 1:
            raise ConfigError(f"The languages' models have widths {sorted(widths)}; expected one width for all.")
        (width,) = widths
        super().__init__(projection_dim, width)
        for language, elmo in elmos.items():
            self.add_module(f"elmo_{language}", elmo)
            aligning = nn.Linear(width, width, bias=False).requires_grad_(False)
            file = (aligning_files or {}).get(language)
            aligning.weight.copy_(load_mapping(cached_path(file), dim=width) if file else torch.eye(width))
            self.add_module(f"aligning_{language}", aligning)

    def forward(self, inputs: Tensor, lang: str, word_inputs: Tensor | None = None) -> Tensor:
        vectors = getattr(self, f"elmo_{lang}")(inputs, word_inputs)[_VECTORS][0]
        return self._project(getattr(self, f"aligning_{lang}")(vectors))


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
