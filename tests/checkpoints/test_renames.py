"""The tables of names and layouts: what they say about shapes, and what opening a model must not cost."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from elmo.checkpoints import many_langs
from elmo.checkpoints.bilm_tf import names
from elmo.checkpoints.detect import open_checkpoint


@pytest.mark.parametrize(
    ("model", "table"),
    [("allennlp/relu2", names), ("bilm/word", names), ("efml/word_char", many_langs)],
)
def test_the_shape_is_that_of_what_is_written(model: str, table, golden: Path) -> None:
    checkpoint = open_checkpoint(golden / model)
    for rename in table.renames(checkpoint.config):
        written = rename.write(checkpoint.tensors)
        assert rename.stored_shape(checkpoint.tensors) == tuple(written.shape), rename.theirs


@pytest.mark.skipif(
    torch.__version__ < "2.8", reason="BiLM.forward is excluded from this torch's compiler, by importing it"
)
def test_opening_a_model_does_not_import_torchs_compiler(golden: Path) -> None:
    models = [str(golden / name) for name in ("allennlp/relu1", "bilm/word", "efml/word_char")]
    code = """
import sys, elmo
for name in sys.argv[1:]:
    elmo.load(name)
print({"torch._dynamo", "sympy"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code, *models], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
