"""gensim: the context-free word layer as KeyedVectors, and as a word2vec file that other tools read."""

from gensim.models import KeyedVectors

from elmo.integrations.gensim import keyed_vectors

words = ["bank", "banks", "banking", "river", "rivers", "money", "walked", "walking"]
vectors = keyed_vectors(None, words)
print("nearest to bank:", [word for word, _ in vectors.most_similar("bank", topn=3)])
vectors.save_word2vec_format("words.txt")
print(len(KeyedVectors.load_word2vec_format("words.txt")), "words read back")
