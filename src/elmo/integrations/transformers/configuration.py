"""The configuration: a biLM's architecture, and how its layers are mixed and trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import PretrainedConfig

from elmo.bilm.config import BiLMConfig, bilm_config
from elmo.checkpoints import native
from elmo.errors import ConfigError
from elmo.settings import to_dict
from elmo.storage.atomic import write_atomic

_REMOTE_MODULE = "modeling_elmo"
_REMOTE_CODE = '''"""Opens this repository with trust_remote_code=True, by the code of the installed elmo-torch."""

try:
    from elmo.integrations.transformers import (
        ElmoConfig,
        ElmoForSequenceClassification,
        ElmoForTokenClassification,
        ElmoModel,
        ElmoTokenizer,
    )
except ImportError as error:
    raise ImportError("This model needs elmo-torch. Run: pip install 'elmo-torch[transformers]'") from error
'''
AUTO_MAP = {
    "AutoConfig": f"{_REMOTE_MODULE}.ElmoConfig",
    "AutoModel": f"{_REMOTE_MODULE}.ElmoModel",
    "AutoModelForTokenClassification": f"{_REMOTE_MODULE}.ElmoForTokenClassification",
    "AutoModelForSequenceClassification": f"{_REMOTE_MODULE}.ElmoForSequenceClassification",
}
TOKENIZER_AUTO_MAP = {"AutoTokenizer": [f"{_REMOTE_MODULE}.ElmoTokenizer", None]}


class ElmoConfig(PretrainedConfig):
    """`bilm` holds the values of a `BiLMConfig`; `ElmoConfig.from_bilm` fills it in."""

    model_type = native.MODEL_TYPE

    bilm: dict[str, Any] | None = None
    special_tokens: dict[str, Any] | None = None
    """The markers of the model's vocabulary, if it has one."""
    card: dict[str, Any] | None = None
    dropout: float = 0.5
    """On the mixed vectors, in the models with a classifier."""
    layer_norm: bool = False
    """Normalize the layers before they are mixed."""
    mix_penalty: float = 0.0
    """lambda of lambda * |w|^2 over the mix weights, added to the loss."""
    pad_token_id: int | None = 0
    train_bilm: bool = False
    """Fine-tune the biLM; by default the mix and the classifier learn alone."""

    @classmethod
    def from_bilm(cls, config: BiLMConfig, **settings: Any) -> ElmoConfig:
        return cls(bilm=to_dict(config), **settings)

    @property
    def bilm_config(self) -> BiLMConfig:
        if self.bilm is None:
            raise ConfigError("This ElmoConfig describes no biLM. Make one with ElmoConfig.from_bilm(model.config).")
        return bilm_config(self.bilm, source="config.json")

    @property
    def hidden_size(self) -> int:
        return self.bilm_config.output_dim

    @property
    def num_hidden_layers(self) -> int:
        """LSTM layers; `hidden_states` has one more, the tokens'."""
        return self.bilm_config.num_layers - 1

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoConfig") -> None:
        """Nothing: saved folders name the installed package, so its source is not copied into them."""

    def to_diff_dict(self) -> dict[str, Any]:
        """What config.json gets: also what `elmo.load` looks for."""
        ours = {"format": native.FORMAT, "version": native.VERSION, "auto_map": AUTO_MAP}
        return {**super().to_diff_dict(), **ours}


def write_remote_code(folder: str | Path) -> None:
    """The file that `trust_remote_code=True` runs."""
    write_atomic(Path(folder) / f"{_REMOTE_MODULE}.py", _REMOTE_CODE)
