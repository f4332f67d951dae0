"""Every example of an integration runs, as a user would run it, and prints what it promises."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "integrations"
SLOW = pytest.mark.slow
NEAREST = "by.': 'The fishermen pulled their boat up on the muddy bank.' (0."
# example -> the library it needs, what it prints
PROMISES = {
    "with_sklearn.py": ("sklearn", "best layers:"),
    "with_spacy.py": ("spacy", "bank (river) and bank (money):"),
    "with_gensim.py": ("gensim", "8 words read back"),
    "with_onnx.py": ("onnxruntime", "without torch: 7 tokens"),
    "with_arrow.py": ("pyarrow", "10 rows; ['id', 'text', 'tokens', 'starts', 'stops', 'vector']"),
    "with_duckdb.py": ("duckdb", "numpy and pandas: (10, 512) True\nDuckDB: nearest to 'We sat on the bank"),
    "with_faiss.py": ("faiss", NEAREST),
    "with_qdrant.py": ("qdrant_client", NEAREST),
    "with_lancedb.py": ("lancedb", NEAREST),
    "with_polars.py": ("polars", NEAREST),
    "with_transformers.py": ("transformers", "the same biLM: True"),
    "with_sentence_transformers.py": ("sentence_transformers", "saved and loaded: True"),
    "with_mteb.py": ("mteb", "Spearman:"),
    "with_flair.py": ("flair", "7 tokens, True"),
    "with_datasets.py": ("datasets", "['text', 'elmo'] True"),
    "old_simple_elmo_code.py": (None, "vectors: (2, 3)"),
    "old_many_langs_code.py": (None, "layers, tokens: (3, 3)"),
}
HEAVY = {
    "with_sentence_transformers.py", "with_mteb.py", "with_datasets.py", "with_flair.py",
    "with_lancedb.py", "with_polars.py",
}  # fmt: skip


def test_every_example_is_run() -> None:
    # test_hub.py runs the one that needs a Hub.
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*PROMISES, "with_hub.py"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW if name in HEAVY else ()) for name in PROMISES])
def test_runs(name: str, tmp_path: Path) -> None:
    library, promise = PROMISES[name]
    if library is not None:
        pytest.importorskip(library)
    done = subprocess.run([sys.executable, EXAMPLES / name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert promise in done.stdout
