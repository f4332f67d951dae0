"""A program written for simple_elmo; only its import was changed."""

# was: from simple_elmo import ElmoModel
from elmo.integrations.simple_elmo import ElmoModel

model = ElmoModel()
print(model.load("english"))  # was: the path of a folder or a zip, which still works
sentences = [["First", "sentence", "."], ["Another", "."]]
print("vectors:", model.get_elmo_vectors(sentences).shape[:2])
print("averages:", model.get_elmo_vector_average(sentences, layers="top").shape[:1])
