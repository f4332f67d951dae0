"""ELMo in Hugging Face transformers: importing this module registers it with the Auto classes.

    import elmo.integrations.transformers
    from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline

    model = AutoModelForTokenClassification.from_pretrained("models/mine", num_labels=9)
    tokenizer = AutoTokenizer.from_pretrained("models/mine")

A folder that either side saved opens in the other: `config.json` and `model.safetensors` serve both. Saved folders also
hold a file of remote code that imports this module, so that `trust_remote_code=True` opens them without the import.
"""

from __future__ import annotations

from elmo.errors import needs

with needs("transformers (5 or later)", extra="transformers"):
    import transformers

from elmo.integrations.transformers.configuration import ElmoConfig
from elmo.integrations.transformers.model import (
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoPreTrainedModel,
)
from elmo.integrations.transformers.tokenizer import ElmoTokenizer

__all__ = [
    "ElmoConfig",
    "ElmoForSequenceClassification",
    "ElmoForTokenClassification",
    "ElmoModel",
    "ElmoPreTrainedModel",
    "ElmoTokenizer",
]

transformers.AutoConfig.register("elmo", ElmoConfig, exist_ok=True)
transformers.AutoTokenizer.register(ElmoConfig, tokenizer_class=ElmoTokenizer, exist_ok=True)
transformers.AutoModel.register(ElmoConfig, ElmoModel, exist_ok=True)
transformers.AutoModelForTokenClassification.register(ElmoConfig, ElmoForTokenClassification, exist_ok=True)
transformers.AutoModelForSequenceClassification.register(ElmoConfig, ElmoForSequenceClassification, exist_ok=True)
