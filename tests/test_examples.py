"""Every example runs, as a user would run it, and prints what it promises."""

import subprocess
import sys
from pathlib import Path

import h5py
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
PROMISES = {
    "demo.py": "10 sentences, 117 tokens",
    "use_in_a_model.py": "layers mixed as",
    "cached_layers.py": "from layers.hdf5",
    "sentence_vectors.py": "The nearest two",
    "large_file.py": "117 tokens ->",
    "old_allennlp_code.py": "after reset_states: True",
}


def run(name: str, folder: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", EXAMPLES / name],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PROMISES)


@pytest.mark.parametrize("name", ["sentence_vectors.py", "old_allennlp_code.py"])
def test_runs(name: str, tmp_path: Path) -> None:
    assert PROMISES[name] in run(name, tmp_path)


def test_the_demo_compares_the_senses_and_writes_a_file(tmp_path: Path) -> None:
    shown = run("demo.py", tmp_path)
    assert PROMISES["demo.py"] in shown
    same, different = (
        float(line.split()[-1]) for line in shown.splitlines() if line.startswith(("  in the same", "  in the two"))
    )
    assert ("the vectors depend on the context" in shown) == (different < same)
    with h5py.File(tmp_path / "runs" / "demo" / "sentences.hdf5") as file:
        assert len(file) == 11 and file["0"].ndim == 3


def test_the_model_example_learns_and_is_short(tmp_path: Path) -> None:
    shown = run("use_in_a_model.py", tmp_path)
    assert PROMISES["use_in_a_model.py"] in shown
    losses = [float(line.split()[-1]) for line in shown.splitlines() if "loss" in line]
    assert losses[-1] < losses[0] / 2
    assert len((EXAMPLES / "use_in_a_model.py").read_text(encoding="utf-8").splitlines()) <= 40


def test_cached_layers_are_computed_once_and_learned_from(tmp_path: Path) -> None:
    shown = run("cached_layers.py", tmp_path)
    losses = [float(line.split()[-1]) for line in shown.splitlines() if "loss" in line]
    assert PROMISES["cached_layers.py"] in shown and losses[-1] < losses[0] / 2
    written = (tmp_path / "layers.hdf5").stat().st_mtime_ns
    assert run("cached_layers.py", tmp_path) == shown and (tmp_path / "layers.hdf5").stat().st_mtime_ns == written


def test_a_large_file_and_again_when_it_is_finished(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    assert PROMISES["large_file.py"] in run("large_file.py", tmp_path)
    assert "is complete" in run("large_file.py", tmp_path)
