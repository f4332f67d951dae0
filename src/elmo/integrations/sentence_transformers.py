"""ELMo as the first module of a SentenceTransformer, which then encodes, trains, saves, loads and runs MTEB.

    elmo = Elmo("path/to/model")
    model = SentenceTransformer(modules=[elmo, Pooling(elmo.get_embedding_dimension(), "mean")])
    model.encode(["She sat on the river bank."])

A saved model loads with `SentenceTransformer(path, trust_remote_code=True)`: sentence-transformers asks for that flag
before it imports any module but its own. The layers are mixed by learned weights, as in `elmo.ElmoLayer`. The biLM is
frozen unless `trainable=True`; the mix always learns. Left out: prompts that are kept out of the pooling
(`include_prompt=False`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from elmo.checkpoints.pretrained import PretrainedBiLM, as_bilm
from elmo.errors import ConfigError, InputError, needs
from elmo.mix.elmo_layer import ElmoLayer
from elmo.text.indexer import TokenBatch, WordTable
from elmo.text.tokenizer import words

with needs("sentence-transformers (6.2 or later)", extra="sentence-transformers"):
    from sentence_transformers.base.modules import InputModule


class Elmo(InputModule):
    """Texts -> one ELMo vector per token."""

    # In the root folder, our config.json would be mistaken for a transformer's.
    save_in_root = False

    def __init__(
        self,
        model: PretrainedBiLM | ElmoLayer | str | Path | None = None,
        *,
        trainable: bool = False,
        dropout: float = 0.0,
        max_seq_length: int | None = None,
        tokenizer: str | None = None,
    ) -> None:
        """`model`: a biLM, its path or name (none: the bundled one), or an ElmoLayer whose mix has already learned.

        `max_seq_length`: longer texts are cut to so many tokens.
        """
        super().__init__()
        if isinstance(model, ElmoLayer):
            if len(model.mixes) != 1 or model.keep_markers:
                raise ConfigError("A sentence model takes an ElmoLayer with one place and without markers.")
            if trainable or dropout:
                raise ConfigError("An ElmoLayer has its own trainable and dropout; give them to the ElmoLayer.")
            self.layer = model
        else:
            self.layer = ElmoLayer(as_bilm(model), dropout=dropout, trainable=trainable)
        self.max_seq_length = max_seq_length
        self.word_tokenizer = tokenizer or self.layer.bilm.config.tokenizer
        self.tokenizer = None  # the trainer reads it, and expects a transformer's tokenizer or None

    def get_embedding_dimension(self) -> int:
        """What `Pooling` needs to know."""
        return self.layer.output_dim

    def preprocess(self, inputs: list[str], prompt: str | None = None, **_: Any) -> dict[str, Tensor]:
        """Texts -> the ids of their tokens. Every tensor has one row per text: losses and DataParallel cut them so."""
        for index, text in enumerate(inputs):
            if not isinstance(text, str):
                raise InputError(f"Input {index} is {type(text).__name__}; ELMo embeds strings.")
        token_lists = [words((prompt or "") + text, self.word_tokenizer)[: self.max_seq_length] for text in inputs]
        batch = self.layer.bilm.indexer.batch(token_lists)
        features = {"input_ids": batch.positions, "elmo_lengths": batch.lengths}
        if batch.words.characters is not None:
            features["elmo_characters"] = batch.words.characters[batch.positions]
        if batch.words.word_ids is not None:
            features["elmo_word_ids"] = batch.words.word_ids[batch.positions]
        steps = torch.arange(max(batch.positions.shape[1] - 2, 0))
        features["attention_mask"] = (steps < (batch.lengths - 2)[:, None]).long()
        return features

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        output = self.layer(_batch(features))
        vectors, mask = output.places[0], output.mask.long()
        if vectors.shape[1] == 0:
            # Texts without a word get one masked token, because pooling needs at least one.
            vectors, mask = vectors.new_zeros(len(vectors), 1, self.layer.output_dim), mask.new_zeros(len(mask), 1)
        return {**features, "token_embeddings": vectors, "attention_mask": mask}

    def get_config_dict(self) -> dict[str, Any]:
        return {"max_seq_length": self.max_seq_length, "tokenizer": self.word_tokenizer}

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """The biLM, the mix and these settings; the folder also opens with `elmo.load`."""
        self.layer.save_pretrained(output_path)
        self.save_config(output_path, filename="elmo_input.json")

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **options: Any) -> Self:
        where = {
            name: options[name] for name in ("token", "cache_folder", "revision", "local_files_only") if name in options
        }
        folder = cls.load_dir_path(model_name_or_path, subfolder=subfolder, **where)
        settings = cls.load_config(model_name_or_path, subfolder=subfolder, config_filename="elmo_input.json", **where)
        return cls(ElmoLayer.from_pretrained(folder), **settings)


def _batch(features: dict[str, Any]) -> TokenBatch:
    """Each distinct word once. The positions in `input_ids` hold only for the batch before it was cut."""
    characters, word_ids = features.get("elmo_characters"), features.get("elmo_word_ids")
    columns = [] if characters is None else [characters]
    columns += [] if word_ids is None else [word_ids[..., None]]
    ids = torch.cat(columns, dim=-1)
    lengths = features["elmo_lengths"]
    real = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
    rows, where = torch.unique(ids[real], dim=0, return_inverse=True)
    positions = torch.zeros(real.shape, dtype=torch.long, device=ids.device)
    positions[real] = where
    table = WordTable(
        [],
        None if characters is None else rows[:, : characters.shape[-1]],
        None if word_ids is None else rows[:, -1],
    )
    return TokenBatch(table, positions, lengths)
