"""`elmo.load`: a biLM with its vocabulary, softmax, warm state and card.

A name is, in this order: a path, a bundled model, a published model (`elmo models` lists them), a Hugging Face Hub
repository (owner/name). The network is used for the last two only, and only until they are cached.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from copy import copy
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self, cast, get_args

import torch
from torch import nn

from elmo.bilm.config import BiLMConfig
from elmo.bilm.kernels.binding import Precision
from elmo.bilm.model import BiLM, BiLMState
from elmo.checkpoints import hub, native, published
from elmo.checkpoints.checkpoint import Checkpoint, SoftmaxWeights, empty_bilm, fill
from elmo.checkpoints.detect import open_checkpoint
from elmo.errors import CheckpointError, check_choice
from elmo.settings import to_dict
from elmo.storage.digest import tensor_digest
from elmo.storage.paths import exists
from elmo.text.indexer import TokenIndexer
from elmo.text.vocabulary import Vocabulary

BUNDLED_MODELS = Path(__file__).parent.parent / "models"
DEFAULT_MODEL = "english"
# A name with such a suffix is a file, so it is not looked up on the Hub.
_FILE_SUFFIXES = (".hdf5", ".h5", ".json", ".zip", ".pkl", ".index", ".safetensors", ".txt")


class PretrainedBiLM(BiLM):
    """A biLM with the vocabulary, the softmax, the warm state and the card that came with it."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__(config)
        self.vocabulary: Vocabulary | None = None
        self.softmax: SoftmaxWeights | None = None
        self.warm_state: BiLMState | None = None
        self.card: dict[str, Any] = {}

    @property
    def indexer(self) -> TokenIndexer:
        """Converts words to this model's ids."""
        config = self.config
        return TokenIndexer(
            config.characters,
            self.vocabulary if config.word_embedding is not None else None,
            begin_sentence=config.begin_sentence,
            end_sentence=config.end_sentence,
            max_word_characters=None if config.word_embedding is None else config.word_embedding.max_characters,
        )

    def with_parts(self, *parts: nn.Module) -> Self:
        """This biLM, or a copy with these modules: token encoder, forward LSTM, backward LSTM.

        For modules that hold the parts under names of their own: nn.DataParallel copies what is registered, and a biLM
        that is not would keep the parts of the first device.
        """
        if all(own is part for own, part in zip(self.children(), parts, strict=True)):
            return self
        other = copy(self)
        other._modules = dict(zip(self._modules, parts, strict=True))
        return other

    def digest(self) -> str:
        """A digest of the architecture, the weights and the words of a word table."""
        return tensor_digest(
            self.state_dict(), beside=json.dumps(to_dict(self.config), sort_keys=True) + self._table_words
        )

    def language_model_digest(self) -> str:
        """A digest of what fine-tuning depends on: the biLM, its softmax and the words of the softmax."""
        if self.softmax is None or self.vocabulary is None:
            return self.digest()
        words = "\n".join((*self.vocabulary.special_tokens, *self.vocabulary.words))
        return tensor_digest(vars(self.softmax), beside=f"{self.digest()}\n{words}")

    def token_encoder_digest(self) -> str:
        """A digest of what a word's vector depends on."""
        return tensor_digest(self.token_encoder.state_dict(), beside=self._table_words)

    @property
    def _table_words(self) -> str:
        """The words whose order decides which row of the word table is whose; empty if the model has no such table."""
        if self.config.word_embedding is None or self.vocabulary is None:
            return ""
        return "\n".join(self.vocabulary.words)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, *, source: str) -> Self:
        """A model that uses the tensors of a checkpoint without copying them."""
        bilm = empty_bilm(checkpoint.config, cls)
        assert isinstance(bilm, cls)
        fill(bilm, checkpoint.tensors, source=source)
        bilm.vocabulary = checkpoint.vocabulary
        bilm.softmax = checkpoint.softmax
        bilm.warm_state = checkpoint.warm_state
        bilm.card = checkpoint.card
        return bilm.eval()

    def to_checkpoint(self) -> Checkpoint:
        """The model for the writers of files."""
        tensors = dict(self.state_dict())
        return Checkpoint(self.config, tensors, self.vocabulary, self.softmax, self.warm_state, self.card)

    @classmethod
    def from_pretrained(cls, name: str | Path | None = None, *, precision: str = "float32", **options: Any) -> Self:
        """Open a path, a bundled or published model or a Hub repository, in any ELMo format.

        `precision`: of the LSTMs' weights in the CPU kernels; float16, bfloat16 and int8 are faster and less exact.
        `options`: revision, token and local_files_only, as of huggingface_hub.
        """
        check_choice("precision", precision, get_args(Precision))
        path = locate(name, **options)
        with torch.inference_mode(False):  # tensors made in inference mode could not be trained later
            bilm = cls.from_checkpoint(open_checkpoint(path), source=str(path))
        bilm.precision = cast(Precision, precision)
        return bilm

    def save_pretrained(self, folder: str | Path, *, storage: str = "float32") -> None:
        """Write a folder that `elmo.load` opens. `storage`: float32, float16, bfloat16 or int8."""
        native.write(self.to_checkpoint(), Path(folder), storage=storage)

    def to_files(self) -> dict[str, bytes]:
        """The contents of the files that `save_pretrained` writes, by name."""
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return {path.name: path.read_bytes() for path in Path(folder).iterdir()}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Self:
        """The reverse of `to_files`."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                (Path(folder) / Path(name).name).write_bytes(content)  # without a folder: the names may be a stranger's
            return cls.from_pretrained(folder)

    def push_to_hub(self, repo_id: str, *, private: bool = False, token: str | None = None) -> str:
        """Upload to the Hugging Face Hub; returns the address of the repository."""
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return hub.push(Path(folder), repo_id, private=private, token=token)


def locate(
    name: str | Path | None, *, revision: str | None = None, token: str | None = None, local_files_only: bool = False
) -> Path:
    """The path of a model's files, downloaded first if necessary; None means the bundled default."""
    if name is None:
        return BUNDLED_MODELS / DEFAULT_MODEL
    path = Path(name)
    # TensorFlow users name a checkpoint by the common prefix of its files.
    if exists(path) or exists(path.with_name(path.name + ".index")):
        return path
    if str(name) in bundled_models():
        return BUNDLED_MODELS / name
    if str(name) in published.catalogue():
        return published.obtain(published.catalogue()[str(name)], local_files_only=local_files_only)
    parts = str(name).split("/")
    if len(parts) == 2 and all(parts) and not _is_surely_a_path(path):
        return hub.fetch(str(name), revision=revision, token=token, local_files_only=local_files_only)
    raise CheckpointError(
        f"No model called {str(name)!r}: there is no such file or folder, and no bundled or published model has that "
        f"name.{_suggestion(path)} `elmo models` lists the names; one of the Hugging Face Hub is owner/name."
    )


def bundled_models() -> list[str]:
    """The models that come with the package."""
    return sorted(folder.name for folder in BUNDLED_MODELS.iterdir() if folder.is_dir())


def _is_surely_a_path(path: Path) -> bool:
    """Whether a name cannot be a Hub repository."""
    return (
        path.suffix in _FILE_SUFFIXES
        or path.is_absolute()
        or str(path).startswith(("~", ".."))
        or (exists(path.parent) and path.parent.is_dir())  # a mistyped file in an existing folder
    )


def _suggestion(path: Path) -> str:
    """The nearest file beside a path that does not exist, or else the nearest name of a model."""
    try:
        beside = [str(path.with_name(near.name)) for near in path.parent.iterdir()]
    except OSError:
        beside = []
    names = [*bundled_models(), *published.catalogue()] if path.parent == Path() else []
    near = get_close_matches(str(path), [*names, *beside], n=1, cutoff=0.8)
    return f" Did you mean {near[0]!r}?" if near else ""


def as_bilm(model: PretrainedBiLM | str | Path | None) -> PretrainedBiLM:
    """A model that was opened before, or the one that `load` opens by this name."""
    return model if isinstance(model, PretrainedBiLM) else load(model)


def load(name: str | Path | None = None, *, precision: str = "float32", **options: Any) -> PretrainedBiLM:
    """Open an ELMo model: ours, bilm-tf's, AllenNLP's or ELMoForManyLangs'; without a name, the bundled one.

    `name`: a path, or the name of a bundled, published (`elmo models`) or Hub model. The other options are
    those of `PretrainedBiLM.from_pretrained`.
    """
    return PretrainedBiLM.from_pretrained(name, precision=precision, **options)
