"""Files and standard input -> token lists, as a stream."""

from elmo.text.inputs.files import ReadProgress
from elmo.text.inputs.formats import RowOptions
from elmo.text.inputs.reader import FORMATS, Sentence, read_sentences

__all__ = ["FORMATS", "ReadProgress", "RowOptions", "Sentence", "read_sentences"]
