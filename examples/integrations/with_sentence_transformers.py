"""sentence-transformers: ELMo as the first module of a sentence model."""

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from elmo.integrations.sentence_transformers import Elmo

elmo = Elmo()  # the bundled biLM; or a path, or a Hub name
model = SentenceTransformer(modules=[elmo, Pooling(elmo.get_embedding_dimension(), "mean")], device="cpu")
vectors = model.encode(["She sat on the river bank.", "He fished from the bank.", "The bank lent him money."])
print("similarities of", len(vectors), "sentences:")
print(model.similarity(vectors, vectors))
model.save("sentence-model")
again = SentenceTransformer("sentence-model", device="cpu", trust_remote_code=True)
print("saved and loaded:", abs(again.encode(["The same."]) - model.encode(["The same."])).max() < 1e-6)
