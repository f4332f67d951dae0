"""Run AllenNLP 0.9.0's own ELMo tests against `elmo.integrations.allennlp`, and compare with the list of results.

    setup.sh allennlp ENV
    ENV/bin/pip install safetensors jaxtyping typer rich huggingface_hub pytest flaky jsonnet nltk scipy scikit-learn \
        tensorboardX conllu==1.3.1
    ENV/bin/python run_allennlp_tests.py                # exits with 1 if a result differs from allennlp_tests.txt
    ENV/bin/python run_allennlp_tests.py --theirs       # the same tests on AllenNLP's own modules

The tests and all that is not ELMo (readers, vocabularies, the tagger, its training) come from the published package.
Before the tests are imported, each of AllenNLP's ELMo classes and functions is replaced by ours of the same name.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "src"))

EXPECTED = HERE / "allennlp_tests.txt"
_HOMES = {
    "allennlp.modules.elmo": ("Elmo", "_ElmoBiLm", "_ElmoCharacterEncoder", "batch_to_ids"),
    "allennlp.modules.elmo_lstm": ("ElmoLstm",),
    "allennlp.modules.lstm_cell_with_projection": ("LstmCellWithProjection",),
    "allennlp.modules.scalar_mix": ("ScalarMix",),
    "allennlp.modules.token_embedders.elmo_token_embedder": ("ElmoTokenEmbedder",),
    "allennlp.modules.token_embedders.elmo_token_embedder_multilang": ("ElmoTokenEmbedderMultiLang",),
    "allennlp.data.token_indexers.elmo_indexer": ("ELMoCharacterMapper", "ELMoTokenCharactersIndexer"),
    "allennlp.nn.util": ("add_sentence_boundary_token_ids", "remove_sentence_boundaries"),
}


def replace_modules() -> None:
    """Put ours in the place of AllenNLP's, first where other modules of AllenNLP take their names from."""
    from allennlp.common import checks

    from elmo.integrations import allennlp as ours
    from elmo.integrations.allennlp.__main__ import main as command

    checks.ConfigurationError = ours.ConfigurationError
    for home in _HOMES:
        importlib.import_module(home)
    swaps: dict[int, Any] = {}
    for home, names in _HOMES.items():
        for name in names:
            swaps[id(getattr(sys.modules[home], name))] = registered(getattr(ours, name), name)
    swap(swaps)
    from allennlp import commands
    from allennlp.commands import elmo as their_command

    swaps[id(their_command.ElmoEmbedder)] = ours.ElmoEmbedder
    swap(swaps)
    commands.main = command


def swap(swaps: dict[int, Any]) -> None:
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "allennlp":
            for key, value in list(vars(module).items()):
                if id(value) in swaps:
                    setattr(module, key, swaps[id(value)])


def registered(ours: Any, name: str) -> Any:
    """What AllenNLP finds by a name in configuration files has to be a subclass of its own base class."""
    from allennlp.data.token_indexers.token_indexer import TokenIndexer
    from allennlp.modules.token_embedders.token_embedder import TokenEmbedder

    known = {
        "ELMoTokenCharactersIndexer": (TokenIndexer, "elmo_characters"),
        "ElmoTokenEmbedder": (TokenEmbedder, "elmo_token_embedder"),
        "ElmoTokenEmbedderMultiLang": (TokenEmbedder, "elmo_token_embedder_multilang"),
    }
    if name not in known:
        return ours
    base, key = known[name]

    def from_params(cls: type, vocab: Any = None, params: Any = None, **extras: Any) -> Any:
        # AllenNLP's trainer packs a model's files into its archive if they were named to it.
        for part, given in [(part, params.get(part)) for part in params]:
            if part in ("options_file", "weight_file"):
                params.add_file_to_archive(part)
            elif part in ("options_files", "weight_files"):
                for language in given:
                    given.add_file_to_archive(language)
        return super(subclass, cls).from_params(vocab, params)

    body = {"from_params": classmethod(from_params)} if base is TokenEmbedder else {}
    subclass = type(name, (ours, base), body)
    base.register(key, exist_ok=True)(subclass)
    return subclass


class Results:
    """A plugin of pytest that keeps each test's outcome."""

    def __init__(self) -> None:
        self.passed: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = report.nodeid.removeprefix("allennlp/tests/")
        self.passed[name] = self.passed.get(name, True) and report.outcome == "passed"


def expectations() -> dict[str, str | None]:
    """Each test, with None if it passes and the reason if it does not."""
    tests: dict[str, str | None] = {}
    for line in EXPECTED.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition("  fails: ")
            tests[name] = reason or None
    return tests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--theirs", action="store_true", help="test AllenNLP's own modules")
    arguments = parser.parse_args()

    import allennlp
    import pytest

    if not arguments.theirs:
        replace_modules()
    root = Path(allennlp.__file__).parent.parent
    os.chdir(root)  # its tests name their fixtures from there
    results, expected = Results(), expectations()
    tests = [f"allennlp/tests/{name}" for name in expected]
    pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore", "--tb=short", f"--rootdir={root}", *tests], [results])

    passed = sum(results.passed.values())
    print(f"{passed} of {len(expected)} tests pass; {sum(reason is None for reason in expected.values())} expected")
    wrong = [name for name, reason in expected.items() if results.passed.get(name, False) != (reason is None)]
    for name in wrong if not arguments.theirs else []:
        print(f"not as expected: {name}")
    raise SystemExit(bool(wrong) and not arguments.theirs)


if __name__ == "__main__":
    main()
