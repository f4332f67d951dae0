"""AllenNLP's ELMo, for code that was written for it: change the import, leave the rest.

    # was: from allennlp.modules.elmo import Elmo, batch_to_ids; from allennlp.commands.elmo import ElmoEmbedder
    from elmo.integrations.allennlp import Elmo, ElmoEmbedder, batch_to_ids

Signatures, shapes and numbers are those of AllenNLP 0.9 to 2.10, including its **state**: the LSTM continues from what
the previous batch left in the same row, so the same sentence twice gives two answers. `reset_states()` of the inner
LSTM (`elmo._elmo_lstm._elmo_lstm`, or whatever `model.modules()` yields as `_EncoderBase`) forgets it, and
`.stateful = False` turns it off. New code is better served by `elmo.Embedder` and `elmo.ElmoLayer`, which are pure by
default. `python -m elmo.integrations.allennlp elmo IN OUT --all` is AllenNLP 0.9's command.

What differs: biLMs without skip connections, with tanh or of any number of layers work; options and weights may be in
any format that `elmo.load` opens (give None for the other file), if the model reads UTF-8 bytes. Masks are boolean, as
in 1.x and 2.x, and take `1 - mask` as in 0.9. A word that is missing from `vocab_to_cache` is computed from its
characters. `embed_file` takes blank lines. An empty sentence has the model's own width, not always 1024.
"""

from elmo.errors import ElmoError as ConfigurationError
from elmo.integrations.allennlp.bilm import _ElmoBiLm, _ElmoCharacterEncoder
from elmo.integrations.allennlp.embedder import ElmoEmbedder
from elmo.integrations.allennlp.lstm import ElmoLstm, LstmCellWithProjection, _EncoderBase
from elmo.integrations.allennlp.modules import Elmo, ElmoTokenEmbedder, ElmoTokenEmbedderMultiLang, ScalarMix
from elmo.integrations.allennlp.published import DEFAULT_BATCH_SIZE, DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE
from elmo.integrations.allennlp.text import (
    ELMoCharacterMapper,
    ELMoTokenCharactersIndexer,
    Mask,
    add_sentence_boundary_token_ids,
    batch_to_ids,
    remove_sentence_boundaries,
)

__all__ = [
    "DEFAULT_BATCH_SIZE", "DEFAULT_OPTIONS_FILE", "DEFAULT_WEIGHT_FILE", "ConfigurationError", "ELMoCharacterMapper",
    "ELMoTokenCharactersIndexer", "Elmo", "ElmoEmbedder", "ElmoLstm", "ElmoTokenEmbedder", "ElmoTokenEmbedderMultiLang",
    "LstmCellWithProjection", "Mask", "ScalarMix", "_ElmoBiLm", "_ElmoCharacterEncoder", "_EncoderBase",
    "add_sentence_boundary_token_ids", "batch_to_ids", "remove_sentence_boundaries",
]  # fmt: skip
