"""AllenNLP's biLM modules around a `PretrainedBiLM`: dictionaries out, and state dicts under AllenNLP's names."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from elmo.bilm.config import BiLMConfig
from elmo.checkpoints.bilm_tf import hdf5 as hdf5_checkpoint
from elmo.checkpoints.many_langs import HIGHWAY
from elmo.checkpoints.pretrained import PretrainedBiLM, load
from elmo.checkpoints.renames import AS_IS, Rename
from elmo.embedding.word_cache import encode_words
from elmo.errors import ConfigError, InputError
from elmo.integrations.allennlp.lstm import ElmoLstm
from elmo.integrations.allennlp.published import published_name
from elmo.integrations.allennlp.text import Mask
from elmo.storage.download import cached_path
from elmo.text.characters import CharacterScheme
from elmo.text.indexer import WordTable, add_markers, distinct_ids

Place = str | Path | None


def open_bilm(options_file: Place, weight_file: Place) -> PretrainedBiLM:
    """AllenNLP's two files, by path or address; or one path, in any format that `elmo.load` opens.

    The forget bias moves into the biases, where AllenNLP has it, so that state dicts are exchanged without rounding.
    """
    name = published_name(options_file, weight_file)
    if name is not None or options_file is None or weight_file is None:
        bilm = load(name or options_file or weight_file)
    else:
        options, weights = cached_path(options_file), cached_path(weight_file)
        bilm = PretrainedBiLM.from_checkpoint(hdf5_checkpoint.read(options, weights), source=str(weights))
    scheme, lstm = bilm.config.characters, bilm.config.lstm
    if scheme is None or scheme.kind != "utf8" or bilm.config.word_embedding is not None:
        raise ConfigError(
            "This model does not read words as UTF-8 bytes alone, and AllenNLP's character ids are bytes. Use "
            "elmo.Embedder or elmo.ElmoLayer."
        )
    bilm.config = replace(bilm.config, lstm=replace(lstm, forget_bias=0.0))
    for stack in (bilm.forward_lstm, bilm.backward_lstm):
        stack.config = bilm.config.lstm
        for layer in stack.typed_layers:
            bias = layer.bias.detach().clone()
            bias[lstm.cell_dim : 2 * lstm.cell_dim] += lstm.forget_bias
            layer.bias = nn.Parameter(bias)
    return bilm


class _ElmoCharacterEncoder(nn.Module):
    """Character ids -> token vectors without context, sentence markers included."""

    def __init__(
        self,
        options_file: Place,
        weight_file: Place,
        requires_grad: bool = False,
        *,
        bilm: PretrainedBiLM | None = None,
    ) -> None:
        """`bilm`: an opened model, instead of the files."""
        super().__init__()
        bilm = bilm or open_bilm(options_file, weight_file)
        self.config = bilm.config
        self.encoder = bilm.token_encoder.requires_grad_(requires_grad)
        self.output_dim = self.config.lstm.projection_dim

    def get_output_dim(self) -> int:
        return self.output_dim

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        """`inputs`: (batch, tokens, 50). Gives `token_embedding`, (batch, tokens + 2, dim), and `mask`."""
        vectors, positions, lengths = self.distinct(inputs)
        mask = torch.arange(positions.shape[1], device=inputs.device) < lengths[:, None]
        return {"mask": mask.as_subclass(Mask), "token_embedding": vectors[positions] * mask[..., None]}

    def distinct(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The vectors of both markers and each distinct word, which of them each token is, and the lengths."""
        scheme = self.config.characters
        assert scheme is not None
        markers = [scheme.encode_word(self.config.begin_sentence), scheme.encode_word(self.config.end_sentence)]
        mask = (inputs > 0).any(dim=-1)
        characters, positions, lengths = distinct_ids(_fit(inputs, scheme), mask, torch.tensor(markers))
        return self.encoder(WordTable([], characters, None)), positions, lengths


def _fit(inputs: Tensor, scheme: CharacterScheme) -> Tensor:
    """Ids as `batch_to_ids` gives them, 50 a word -> as the model spells words, which may be longer or shorter."""
    missing = scheme.max_characters - inputs.shape[-1]
    if missing >= 0:
        return F.pad(inputs, (0, missing), value=scheme.padding)
    cut = inputs[..., : scheme.max_characters]
    # Its end is the last id of a word that was cut; a shorter word has its end or padding there.
    last = cut[..., -1:]
    return torch.cat([cut[..., :-1], torch.where(last == scheme.padding, last, scheme.ids.end_word)], dim=-1)


class _ElmoBiLm(nn.Module):
    """Character ids -> the activations of every layer, sentence markers included.

    State dicts have AllenNLP's names, so they pass from AllenNLP to here and back.
    """

    _bilm: PretrainedBiLM

    def __init__(
        self,
        options_file: Place,
        weight_file: Place,
        requires_grad: bool = False,
        vocab_to_cache: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        bilm = open_bilm(options_file, weight_file).requires_grad_(requires_grad)
        # Not as a submodule: its parts are registered below, under the names that old code uses.
        self.__dict__["_bilm"] = bilm
        self._token_embedder = _ElmoCharacterEncoder(None, None, requires_grad, bilm=bilm)
        self._elmo_lstm = ElmoLstm.around(bilm)
        self.num_layers = bilm.config.num_layers
        self._requires_grad = requires_grad
        self._word_embedding: nn.Embedding | None = None
        self.register_buffer("_marker_embeddings", None, persistent=False)
        self.register_state_dict_post_hook(_write_old_names)
        self.register_load_state_dict_pre_hook(_read_old_names)
        if vocab_to_cache:
            self.create_cached_cnn_embeddings(vocab_to_cache)

    @property
    def bilm(self) -> PretrainedBiLM:
        """The biLM of this module's parts."""
        lstm = self._elmo_lstm
        return self._bilm.with_parts(self._token_embedder.encoder, lstm.forward_lstm, lstm.backward_lstm)

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
        """`inputs`: (batch, tokens, 50). Gives `activations`, a list of (batch, tokens + 2, dim), and `mask`.

        With a cached vocabulary, word ids alone are enough: as `word_inputs`, or as both.
        """
        cached = self._word_embedding
        if cached is not None and word_inputs is not None and int(word_inputs.max()) < cached.num_embeddings:
            assert isinstance(self._marker_embeddings, Tensor)
            vectors = torch.cat([self._marker_embeddings, cached.weight])
            positions, lengths = add_markers(word_inputs + 2, word_inputs > 0)
        elif inputs is not None and inputs.dim() == 3:
            vectors, positions, lengths = self._token_embedder.distinct(inputs)
        else:
            raise InputError(
                "Expected character ids, (batch, tokens, 50), as batch_to_ids gives them. Without them, all "
                "word ids must be in vocab_to_cache."
            )
        lstm = self._elmo_lstm
        output = self.bilm.contextualize(vectors, positions, lengths, state=lstm.start(len(lengths)), keep_markers=True)
        lstm.finish(output.state)
        return {"activations": list(output.layers), "mask": output.mask.as_subclass(Mask)}


def renames(config: BiLMConfig) -> Iterator[Rename]:
    """AllenNLP's parameter names, inside of `_ElmoBiLm`, and ours."""
    assert config.char_cnn is not None
    theirs, cnn = "_token_embedder.", "_token_embedder.encoder.char_cnn."
    yield Rename(theirs + "_char_embedding_weights", (cnn + "embedding.weight",), AS_IS)
    for part in ("weight", "bias"):
        for i in range(len(config.char_cnn.filters)):
            yield Rename(f"{theirs}char_conv_{i}.{part}", (f"{cnn}convolutions.{i}.{part}",), AS_IS)
        for k in range(config.char_cnn.num_highway):
            ours = (f"{cnn}highways.{k}.carry.{part}", f"{cnn}highways.{k}.transform.{part}")
            yield Rename(f"{theirs}_highways._layers.{k}.{part}", ours, HIGHWAY)
        yield Rename(f"{theirs}_projection.{part}", (f"_token_embedder.encoder.projection.{part}",), AS_IS)
    weights = {
        "input_linearity.weight": "input_weight",
        "state_linearity.weight": "recurrent_weight",
        "state_linearity.bias": "bias",
        **({"state_projection.weight": "projection_weight"} if config.lstm.has_projection else {}),
    }
    for direction in ("forward", "backward"):
        for i in range(config.lstm.num_layers):
            for name, ours_name in weights.items():
                ours_full = f"_elmo_lstm.{direction}_lstm.layers.{i}.{ours_name}"
                yield Rename(f"_elmo_lstm.{direction}_layer_{i}.{name}", (ours_full,), AS_IS)


def _write_old_names(module: nn.Module, state: MutableMapping[str, Tensor], prefix: str, metadata: Any) -> None:
    assert isinstance(module, _ElmoBiLm)
    for rename in renames(module.bilm.config):
        state[prefix + rename.theirs] = rename.transform.write(*(state.pop(prefix + name) for name in rename.ours))


def _read_old_names(module: nn.Module, state: MutableMapping[str, Tensor], prefix: str, *others: Any) -> None:
    """A hook for `load_state_dict`; the last of torch's other arguments is the list of errors."""
    assert isinstance(module, _ElmoBiLm)
    errors: list[str] = others[-1]
    table = list(renames(module.bilm.config))
    names = [prefix + rename.theirs for rename in table]
    missing = [name for name in names if name not in state]
    known = {*names, prefix + "_word_embedding.weight"}
    extra = [name for name in state if name.startswith(prefix) and name not in known]
    if len(missing) < len(names) and (missing or extra):
        # With strict=False torch would load the rest, and leave a mixture of two biLMs.
        errors.append(
            f"The biLM in this state dict is not the one in this model: missing {missing[:3]}, unknown {extra[:3]}. "
            "Open the model with the options file that the saved model had."
        )
        return
    for rename in table:
        if prefix + rename.theirs in state:
            tensors = rename.transform.read(state.pop(prefix + rename.theirs))
            state.update(zip((prefix + name for name in rename.ours), tensors, strict=True))
