"""The tree follows the data flow: a stage imports only the stages before it, and `import elmo` stays light."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "elmo"

# A stage may import itself, the foundation and every stage above it here.
STAGES = [
    "storage",
    "text",
    "bilm",
    "checkpoints",
    "mix",
    "embedding",
    "pretrain",
    "tasks",
    "explore",
    "paper",
    "scale",
    "integrations",
    "serve",
    "commands",
]
# These can be deleted without touching anything else, so nothing but the commands may import them.
LEAVES = {"paper", "scale", "integrations", "serve"}
FOUNDATION = {"errors", "settings", "provenance", "storage", "__init__"}


def imported_parts(path: Path) -> set[str]:
    """The parts of elmo that a file imports, at the top or inside a function."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path} uses a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            pieces = name.split(".")
            if pieces[0] == "elmo" and len(pieces) > 1:
                parts.add(pieces[1])
    return parts


def source_files() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent != PACKAGE]


@pytest.mark.parametrize("path", source_files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_stages_import_only_earlier_stages(path: Path) -> None:
    stage = path.relative_to(PACKAGE).parts[0]
    assert stage in STAGES, f"{stage} is not in the list of stages"
    allowed = set(STAGES[: STAGES.index(stage) + 1]) | FOUNDATION | {"__version__"}
    if stage != "commands":
        allowed -= LEAVES - {stage}
    assert imported_parts(path) <= allowed


def test_importing_elmo_stays_light() -> None:
    heavy = {"torch", "spacy", "transformers", "tensorflow", "pandas", "pyarrow", "matplotlib", "fastapi"}
    code = "import sys, elmo, elmo.commands; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not heavy & set(loaded)


def test_loading_a_model_needs_no_extra() -> None:
    extras = {"spacy", "transformers", "tensorflow", "pandas", "pyarrow", "matplotlib", "zstandard"}
    code = "import sys, elmo; elmo.load; elmo.Embedder; elmo.ElmoLayer; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not extras & set(loaded)


def test_the_tree_in_the_readme_is_the_real_one() -> None:
    """Every file or folder that the README's tree names exists, and every part of the package is in it."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    tree = re.search(r"```tree\n(.*?)```", readme, re.DOTALL)
    assert tree, "the README has no ```tree block"
    named, folders = set(), []
    for line in tree.group(1).splitlines():
        match = re.match(r"( *)(\S+)", line)
        if match is None:
            continue
        depth, name = len(match.group(1)) // 2, match.group(2)
        folders = [*folders[:depth], name.rstrip("/")]
        path = ROOT.joinpath(*folders)
        assert path.exists(), f"the README's tree names {path.relative_to(ROOT)}, which is not there"
        named.add(path)
    parts = {
        path
        for path in PACKAGE.iterdir()
        if path.name not in {"__pycache__", "py.typed"} and path.suffix != ".egg-info"
    }
    assert parts <= named, f"missing in the README's tree: {sorted(path.name for path in parts - named)}"
