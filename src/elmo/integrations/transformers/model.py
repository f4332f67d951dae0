"""The models: a frozen biLM, a learned mix of its layers, and classifiers of tokens and of texts on top.

The parameters of `ElmoModel` have the names of a biLM's, with `mix.*` besides; that is why a folder of one opens as the
other. A frozen biLM runs without gradients, also during training, so the CPU kernels are used.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput, TokenClassifierOutput

from elmo.bilm.initialise import initialise
from elmo.checkpoints import native
from elmo.checkpoints.checkpoint import Checkpoint, some_names
from elmo.checkpoints.detect import open_checkpoint
from elmo.checkpoints.pretrained import PretrainedBiLM, locate
from elmo.errors import CheckpointError, InputError
from elmo.integrations.transformers.configuration import ElmoConfig, write_remote_code
from elmo.mix.scalar_mix import ScalarMix
from elmo.text.indexer import TokenBatch, WordTable, distinct_ids


@dataclass
class ElmoModelOutput(BaseModelOutput):
    """The mix, the layers, and where there is a word."""

    word_mask: Tensor | None = None
    """(batch, tokens); not among the values that `return_dict=False` gives."""


class ElmoPreTrainedModel(PreTrainedModel):
    """Loading and saving, for all of them."""

    config_class = ElmoConfig
    base_model_prefix = "elmo"
    main_input_name = "input_ids"
    accepts_loss_kwargs = False  # the loss is a mean over the batch, which Trainer must divide when it accumulates
    _keys_to_ignore_on_load_missing = [r"mix\.(weights|gamma)"]  # noqa: RUF012 - a mix that has not learned is a mean
    _keys_to_ignore_on_load_unexpected = [r"warm_state\."]  # noqa: RUF012

    def _init_weights(self, module: nn.Module) -> None:
        """For what a checkpoint lacks: a new mix, a new classifier."""
        if isinstance(module, ScalarMix):
            nn.init.zeros_(module.weights)
            nn.init.ones_(module.gamma)
        elif isinstance(module, nn.Linear) and module is getattr(self, "classifier", None):
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)

    @property
    def elmo_model(self) -> ElmoModel:
        return self if isinstance(self, ElmoModel) else self.elmo

    @classmethod
    def from_pretrained(cls, name: str | Path, *arguments: Any, config: Any = None, **options: Any) -> Any:
        """Open a folder that either side saved, or any name or path that `elmo.load` opens."""
        where = {key: options.pop(key) for key in ("revision", "token", "local_files_only") if key in options}
        folder = locate(name, **where) / options.pop("subfolder", "")
        with_info = options.pop("output_loading_info", False)
        if native.matches(folder):
            checkpoint, tensors = native.read(folder), native.read_tensors(folder / native.WEIGHTS_FILE)
            config = config if isinstance(config, ElmoConfig) else ElmoConfig.from_pretrained(config or folder)
        else:
            checkpoint = open_checkpoint(folder)
            tensors = checkpoint.tensors
            config = config if isinstance(config, ElmoConfig) else ElmoConfig.from_bilm(checkpoint.config)
        own = {key: options.pop(key) for key in list(options) if hasattr(config, key) and key != "dtype"}
        for key, value in own.items():
            setattr(config, key, value)
        model, info = super().from_pretrained(
            None, *arguments, config=config, state_dict=tensors, output_loading_info=True, **options
        )
        missing = sorted(key for key in info["missing_keys"] if key.removeprefix("elmo.").startswith(native.BILM_PARTS))
        if missing:
            raise CheckpointError(f"The weights in {folder} lack {some_names(missing)}. Copy the whole folder again.")
        model.config.name_or_path = str(name)
        model.elmo_model.take(checkpoint)
        return (model, info) if with_info else model

    def save_pretrained(self, save_directory: str | Path, is_main_process: bool = True, **options: Any) -> None:
        """Write a folder that `from_pretrained` and `elmo.load` open; the latter leaves mix and classifier out."""
        super().save_pretrained(save_directory, is_main_process=is_main_process, **options)
        # Newer versions of transformers look at the process's rank as well.
        if getattr(self, "should_save_on_this_rank", bool)(is_main_process):
            self._write_companions(save_directory)

    def _upload_modified_files(self, working_dir: str | Path, *arguments: Any, **options: Any) -> Any:
        # With push_to_hub=True, transformers uploads before its save_pretrained returns.
        self._write_companions(working_dir)
        return super()._upload_modified_files(working_dir, *arguments, **options)

    def _write_companions(self, folder: str | Path) -> None:
        write_remote_code(folder)
        native.write_companions(self.elmo_model.bilm.to_checkpoint(), Path(folder))

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoModel") -> None:
        """Nothing: saved folders name the installed package, so its source is not copied into them."""


class ElmoModel(ElmoPreTrainedModel):
    """Words -> one vector each: gamma * sum_k softmax(w)_k h_k over the biLM's layers."""

    _bilm: PretrainedBiLM

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        bilm = PretrainedBiLM(config.bilm_config)
        # The biLM itself is no submodule: its parts are, under the names that they have in a biLM's checkpoint.
        object.__setattr__(self, "_bilm", bilm)
        self.token_encoder, self.forward_lstm, self.backward_lstm = (
            bilm.token_encoder,
            bilm.forward_lstm,
            bilm.backward_lstm,
        )
        self.mix = ScalarMix(config.bilm_config.num_layers, layer_norm=config.layer_norm)
        if bilm.device.type != "meta":
            initialise(bilm, torch.Generator().manual_seed(torch.initial_seed()))
        bilm.requires_grad_(config.train_bilm)
        self.post_init()

    @property
    def bilm(self) -> PretrainedBiLM:
        """The biLM of this module's parts."""
        return self._bilm.with_parts(self.token_encoder, self.forward_lstm, self.backward_lstm)

    def take(self, checkpoint: Checkpoint) -> None:
        """Keep what came with the weights, and freeze the biLM unless it is to be trained."""
        self.bilm.vocabulary, self.bilm.softmax = checkpoint.vocabulary, checkpoint.softmax
        self.bilm.card = self.config.card = checkpoint.card
        if checkpoint.vocabulary is not None:
            self.config.special_tokens = native.special_tokens(checkpoint.vocabulary)
        self.bilm.requires_grad_(self.config.train_bilm)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        character_ids: Tensor | None = None,
        vocabulary_ids: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **_: Any,
    ) -> Any:
        """What `ElmoTokenizer` gives -> `last_hidden_state` (batch, tokens, dim), the mix; zero at padding.

        `hidden_states`: the layers, layer 0 (the tokens) first. `input_ids` alone say nothing about the words.
        """
        ids, mask = self._spell(attention_mask, character_ids, vocabulary_ids)
        layers = self.bilm(self._batch(ids, mask)).layers
        mixed = self.mix(layers, mask)
        with_layers = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        output = ElmoModelOutput(mixed, hidden_states=tuple(layers) if with_layers else None, word_mask=mask)
        return output if return_dict is not False else output.to_tuple()[:-1]

    def _spell(
        self, attention_mask: Tensor | None, character_ids: Tensor | None, vocabulary_ids: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """All ids of each word, (batch, tokens, ids), and where there is a word, (batch, tokens)."""
        config = self.bilm.config
        needed = {
            "character_ids": (config.characters is not None, character_ids),
            "vocabulary_ids": (config.word_embedding is not None, vocabulary_ids),
        }
        if missing := [name for name, (wanted, given) in needed.items() if wanted and given is None]:
            raise InputError(f"This model needs {' and '.join(missing)}. Make the inputs with its ElmoTokenizer.")
        columns = []
        if config.characters is not None and character_ids is not None:
            # A batch without a single word has no last dimension.
            width = config.characters.max_characters
            columns.append(character_ids.reshape(len(character_ids), character_ids.shape[1], width))
        if config.word_embedding is not None and vocabulary_ids is not None:
            columns.append(vocabulary_ids[..., None])
        ids = torch.cat([column.long() for column in columns], dim=-1)
        mask = (ids > 0).any(dim=-1) if attention_mask is None else attention_mask.bool()
        if (mask[:, 1:] & ~mask[:, :-1]).any():
            raise InputError("attention_mask has padding before words; ELMo takes padding only on the right.")
        return ids, mask

    def _batch(self, ids: Tensor, mask: Tensor) -> TokenBatch:
        """Each distinct word once, both sentence markers first, and where the words stand."""
        config = self.bilm.config
        rows, positions, lengths = distinct_ids(ids, mask, self._marker_rows())
        characters = None if config.characters is None else rows[:, : config.characters.max_characters]
        word_ids = None if config.word_embedding is None else rows[:, -1]
        return TokenBatch(WordTable([], characters, word_ids), positions, lengths)

    def _marker_rows(self) -> Tensor:
        config, parts = self.bilm.config, []
        markers = self.bilm.indexer.word_table([config.begin_sentence, config.end_sentence])
        if markers.characters is not None and (scheme := config.characters) is not None:
            missing = scheme.max_characters - markers.characters.shape[1]
            parts.append(F.pad(markers.characters, (0, missing), value=scheme.padding))
        if markers.word_ids is not None:
            parts.append(markers.word_ids[:, None])
        return torch.cat(parts, dim=-1)


class _Classifier(ElmoPreTrainedModel):
    """ELMo, dropout, a linear layer."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.elmo = ElmoModel(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    output_class: type[TokenClassifierOutput] | type[SequenceClassifierOutput]

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        character_ids: Tensor | None = None,
        vocabulary_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **options: Any,
    ) -> Any:
        """What `ElmoTokenizer` gives -> logits and, with `labels`, the loss. `options` are `ElmoModel.forward`'s."""
        return_dict = options.pop("return_dict", None)
        encoded = self.elmo(input_ids, attention_mask, character_ids, vocabulary_ids, **options)
        logits = self.classifier(self.dropout(self._features(encoded.last_hidden_state, encoded.word_mask)))
        loss = None
        if labels is not None:
            strength = self.config.mix_penalty if self.training else 0.0
            loss = self._loss(logits, labels)
            loss = loss + self.elmo.mix.penalty(strength) if strength else loss
        output = self.output_class(loss=loss, logits=logits, hidden_states=encoded.hidden_states)
        return output if return_dict is not False else output.to_tuple()

    @abstractmethod
    def _features(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """The classifier's input from the word vectors (batch, tokens, dim)."""

    @abstractmethod
    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of the labels."""


class ElmoForTokenClassification(_Classifier):
    """A label for each word; `labels` (batch, tokens) are -100 where there is none."""

    output_class = TokenClassifierOutput

    def _features(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return vectors

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.reshape(-1, self.num_labels), labels.reshape(-1))


class ElmoForSequenceClassification(_Classifier):
    """A label for each text, from the mean of its words.

    `labels`: (batch,) classes; floats with one label are regression, (batch, labels) floats several labels.
    """

    output_class = SequenceClassifierOutput

    def _features(self, vectors: Tensor, mask: Tensor) -> Tensor:
        # Padding is zero, so the sum is that of the words.
        return vectors.sum(dim=1) / mask.sum(dim=1).clamp_min(1)[:, None]

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        kind = self.config.problem_type
        if kind == "regression" or (kind is None and self.num_labels == 1):
            return F.mse_loss(logits.squeeze(-1), labels.to(logits.dtype).reshape(logits.squeeze(-1).shape))
        if kind == "multi_label_classification" or (kind is None and labels.is_floating_point()):
            return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
        return F.cross_entropy(logits, labels)
