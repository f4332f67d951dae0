"""Flair: ELMo as token embeddings."""

from flair.data import Sentence

from elmo.integrations.flair import ElmoEmbeddings

embedding = ElmoEmbeddings(layers="top")  # the bundled biLM; or a path, or a Hub name
sentence = Sentence("She sat on the river bank.")
embedding.embed(sentence)
print(len(sentence), "tokens,", len(sentence[5].get_embedding()) == embedding.embedding_length)
