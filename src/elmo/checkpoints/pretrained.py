"""A biLM with what came along in its files: what `elmo.load` gives, and how it is saved.

A name is, in this order: a path, the name of a bundled model, a Hugging Face Hub repository. Opening a path or a
bundled model never touches the network.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, Self, cast, get_args

from elmo.bilm.config import BiLMConfig
from elmo.bilm.fingerprint import fingerprint
from elmo.bilm.kernels.packing import Precision
from elmo.bilm.model import BiLM, BiLMState
from elmo.checkpoints import hub, native
from elmo.checkpoints.checkpoint import Checkpoint, SoftmaxWeights, empty_bilm, fill
from elmo.checkpoints.detect import open_checkpoint
from elmo.errors import CheckpointError, ConfigError
from elmo.text.batches import TokenIndexer
from elmo.text.vocabulary import Vocabulary

BUNDLED_MODELS = Path(__file__).parent.parent / "models"
DEFAULT_MODEL = "english"
# A name that ends like this is a file's, so the Hub need not be asked for it.
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
        """How words become this model's ids."""
        config = self.config
        return TokenIndexer(
            config.characters,
            self.vocabulary if config.word_embedding is not None else None,
            begin_sentence=config.begin_sentence,
            end_sentence=config.end_sentence,
            max_word_characters=None if config.word_embedding is None else config.word_embedding.max_characters,
        )

    def identity(self) -> str:
        """Tells models apart by their architecture and weights, whatever they are called."""
        return fingerprint(self, beside=json.dumps(self.config.to_dict(), sort_keys=True))

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, *, source: str) -> Self:
        """A model around the tensors of a checkpoint, which are not copied."""
        bilm = empty_bilm(checkpoint.config, cls)
        assert isinstance(bilm, cls)
        fill(bilm, checkpoint.tensors, source=source)
        bilm.vocabulary = checkpoint.vocabulary
        bilm.softmax = checkpoint.softmax
        bilm.warm_state = checkpoint.warm_state
        bilm.card = checkpoint.card
        return bilm.eval()

    def to_checkpoint(self) -> Checkpoint:
        """All that a file needs."""
        tensors = dict(self.state_dict())
        return Checkpoint(self.config, tensors, self.vocabulary, self.softmax, self.warm_state, self.card)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        token: str | None = None,
        local_files_only: bool = False,
        precision: str = "float32",
    ) -> Self:
        """Open a path, a bundled model or a Hub repository, in whichever ELMo format it is.

        `precision`: how the CPU kernels keep the LSTMs' weights; float16, bfloat16 and int8 are faster and less exact.
        """
        if precision not in get_args(Precision):
            raise ConfigError(f"Unknown precision {precision!r}; expected one of {', '.join(get_args(Precision))}.")
        path = locate(name, revision=revision, token=token, local_files_only=local_files_only)
        bilm = cls.from_checkpoint(open_checkpoint(path), source=str(path))
        bilm.precision = cast(Precision, precision)
        return bilm

    def save_pretrained(self, folder: str | Path, *, storage: str = "float32") -> None:
        """Write a folder that `elmo.load` opens. `storage`: float32, float16, bfloat16 or int8."""
        native.write(self.to_checkpoint(), Path(folder), storage=storage)

    def push_to_hub(self, repo_id: str, *, private: bool = False, token: str | None = None) -> str:
        """Upload to the Hugging Face Hub; returns the repository's address."""
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return hub.push(Path(folder), repo_id, private=private, token=token)


def locate(
    name: str | Path | None, *, revision: str | None = None, token: str | None = None, local_files_only: bool = False
) -> Path:
    """Where a model's files are; None means the bundled default."""
    name = DEFAULT_MODEL if name is None else name
    path = Path(name)
    # TensorFlow users name a checkpoint by what its files have in common.
    if path.exists() or path.with_name(path.name + ".index").exists():
        return path
    bundled = BUNDLED_MODELS / str(name)
    if bundled.is_dir() and bundled.parent == BUNDLED_MODELS:
        return bundled
    if path.suffix in _FILE_SUFFIXES or path.is_absolute() or str(name).startswith((".", "~")):
        raise CheckpointError(f"No model at {str(name)!r}: there is no such file or folder. Check the path.")
    return hub.fetch(str(name), revision=revision, token=token, local_files_only=local_files_only)


def load(name: str | Path | None = None, *, precision: str = "float32", **options: Any) -> PretrainedBiLM:
    """Open an ELMo model: ours, bilm-tf's, AllenNLP's or ELMoForManyLangs'; without a name, the bundled one.

    The options are those of `PretrainedBiLM.from_pretrained`.
    """
    return PretrainedBiLM.from_pretrained(locate(name, **options), precision=precision)
