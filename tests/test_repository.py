"""What people and programs expect beside the code: one version, valid workflows, a citation, a container's recipe."""

import re
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


def test_the_container_serves_as_an_ordinary_user() -> None:
    recipe = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert recipe.index("USER elmo") < recipe.index('CMD ["elmo", "serve"')
    assert "HEALTHCHECK" in recipe
