"""A program written for ELMoForManyLangs; only its import was changed."""

# was: from elmoformanylangs import Embedder
from elmo.integrations.many_langs import Embedder

embedder = Embedder("english")  # was: the folder of a language, which still works
for vectors in embedder.sents2elmo([["Ein", "Satz"], ["Noch", "einer", "."]], output_layer=-2):
    print("layers, tokens:", vectors.shape[:2])
