"""Stand-ins for what the old ELMo tools import but ELMo itself never uses.

AllenNLP 0.9.0 imports spaCy, jsonnet, boto3 and a dozen more at the top of its modules. Their 2019 versions
do not install on Python 3.11, so a finder answers for exactly the names below - and only where the real
package is missing - with empty modules. No number that a tool computes passes through here:
`check_fixtures.py` shows that.
Left out: everything that trains or reads data sets with those packages.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types

STANDING_IN = {
    "_jsonnet", "boto3", "botocore", "conllu", "editdistance", "flaky", "flask", "flask_cors", "ftfy",
    "gevent", "jsonpickle", "matplotlib", "nltk", "numpydoc", "overrides", "parsimonious", "pytest",
    "pytorch_pretrained_bert", "pytorch_transformers", "pytz", "responses", "scipy", "six", "sklearn",
    "spacy", "sqlparse", "tensorboardX", "unidecode", "word2number",
}  # fmt: skip


class _Nothing(type):
    """A class that answers any attribute with another such class, so that hints and base classes resolve."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing(name, (), {})

    def __iter__(cls):
        return iter(())


class _StubModule(types.ModuleType):
    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "overrides":  # the decorator of that name must hand its function back
            return lambda function: function
        # Exceptions are caught by name in `except` clauses, so these must be real exception classes.
        bases = (Exception,) if name.endswith(("Error", "Exception")) else ()
        return type(name, bases, {}) if bases else _Nothing(name, (), {})


class _StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last on sys.meta_path: an installed package always wins."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in STANDING_IN:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return _StubModule(spec.name)

    def exec_module(self, module):
        module.__path__ = []


def tensorflow_v1() -> types.ModuleType:
    """Let `import tensorflow` mean TensorFlow 1's interface, which bilm was written for."""
    import tensorflow

    v1 = tensorflow.compat.v1
    v1.disable_v2_behavior()
    sys.modules["tensorflow"] = v1
    return v1


sys.meta_path.append(_StubFinder())
