"""ELMo in spaCy: a component that sets vectors, and an architecture to train with.

    nlp.add_pipe("elmo")                       # `component`: vectors of docs, spans and tokens
    @architectures = "elmo.Tok2Vec.v1"         # `tok2vec`: in the config of `spacy train`

Once the package is installed, spaCy finds both by their entry points; otherwise, importing this module registers them.
"""

from elmo.errors import needs

with needs("spacy", extra="spacy"):
    import spacy  # noqa: F401

from elmo.integrations.spacy.component import ElmoPipe, make_elmo
from elmo.integrations.spacy.tok2vec import build_tok2vec

__all__ = ["ElmoPipe", "build_tok2vec", "make_elmo"]
