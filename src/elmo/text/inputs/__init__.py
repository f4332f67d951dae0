"""Files and standard input -> token lists, as a stream."""

from elmo.text.inputs.files import ReadProgress
from elmo.text.inputs.formats import Sentence
from elmo.text.inputs.reader import FORMATS, read_sentences

__all__ = ["FORMATS", "ReadProgress", "Sentence", "read_sentences"]
