"""Files that people and programs expect beside the code: one version, valid workflows, a citation, a Dockerfile."""

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
import yaml

import elmo

ROOT = Path(__file__).parent.parent


def test_one_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == elmo.__version__
    assert elmo.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert not re.search(r'^version = "', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_workflows_run_what_exists(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = [step["run"] for job in workflow["jobs"].values() for step in job.get("steps", ()) if "run" in step]
    called = [job["uses"] for job in workflow["jobs"].values() if "uses" in job]
    assert commands or called
    for target in re.findall(r"make ([a-z-]+)", "\n".join(commands)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{path.name} runs make {target}"
    for folder in re.findall(r"tests/\w+", "\n".join(commands)):
        assert (ROOT / folder).is_dir()
    for local in called:
        assert (ROOT / local).is_file()


@pytest.mark.slow
def test_one_wheel_serves_every_python(tmp_path: Path) -> None:
    """The kernels do not depend on Python's ABI: neither the wheel's name nor the library's says a version."""
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("*.so", "*.egg-info", "models"))
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "dist", "."]
    subprocess.run(wheel, cwd=tmp_path, check=True, timeout=600)
    [built] = (tmp_path / "dist").iterdir()
    assert built.name.startswith(f"elmo_torch-{elmo.__version__}-py3-none-")
    with zipfile.ZipFile(built) as files:
        libraries = [name for name in files.namelist() if name.startswith("elmo/bilm/kernels/_native")]
    assert libraries == [f"elmo/bilm/kernels/_native{EXTENSION_SUFFIXES[-1]}"]


def test_the_container_serves_as_an_ordinary_user() -> None:
    recipe = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert recipe.index("USER elmo") < recipe.index('CMD ["elmo", "serve"')
    assert "HEALTHCHECK" in recipe
