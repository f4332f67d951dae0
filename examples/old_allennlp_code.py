"""A program written for AllenNLP 0.9; only its imports were changed. For new code, see docs/migrate/allennlp.md."""

import torch

# was: from allennlp.modules.elmo import Elmo, batch_to_ids
# was: from allennlp.commands.elmo import ElmoEmbedder
from elmo.integrations.allennlp import Elmo, ElmoEmbedder, batch_to_ids

options_file, weight_file = "english", None  # was: two URLs, which still work

elmo = Elmo(options_file, weight_file, 2, dropout=0)
character_ids = batch_to_ids([["First", "sentence", "."], ["Another", "."]])
embeddings = elmo(character_ids)
for representation in embeddings["elmo_representations"]:
    print(tuple(representation.shape))
print(embeddings["mask"])

embedder = ElmoEmbedder(options_file, weight_file)
first, again = (embedder.embed_sentence(["The", "same", "sentence"]) for _ in range(2))
print("AllenNLP carries state: the same sentence again differs by", abs(first - again).max().round(4))
embedder.elmo_bilm._elmo_lstm.reset_states()
print(
    "after reset_states:",
    torch.allclose(torch.tensor(first), torch.tensor(embedder.embed_sentence(["The", "same", "sentence"]))),
)
