"""Settings: files, overrides, and what is refused."""

import dataclasses
import tomllib
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest

from elmo import config
from elmo.errors import ConfigError
from elmo.pretrain.finetune import FinetuneSettings
from elmo.pretrain.settings import PretrainSettings, TrainingSettings

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Inner:
    rate: float = 0.5
    kind: Literal["a", "b"] = "a"
    pairs: tuple[tuple[int, int], ...] = ((1, 2),)


@dataclass(frozen=True)
class Outer:
    name: str
    count: int = 3
    on: bool = True
    limit: int | None = None
    inner: Inner = field(default_factory=Inner)
    parts: tuple[Inner, ...] = ()


def test_a_file_and_overrides(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('name = "x"\n[inner]\nrate = 1\npairs = [[3, 4]]\n[[parts]]\nkind = "b"\n', encoding="utf-8")
    settings = config.read(Outer, path, overrides=["count=7", "inner.kind=b", "limit=2", "on=false"])
    assert settings == Outer("x", 7, False, 2, Inner(1.0, "b", ((3, 4),)), (Inner(kind="b"),))


def test_an_override_that_is_no_toml_is_a_string() -> None:
    assert config.read(Outer, None, overrides=["name=a b/c"]).name == "a b/c"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["name=x", "inner.rat=1"], "unknown setting inner.rat. Did you mean inner.rate?"),
        (["name=x", "zzz=1"], "unknown setting zzz. Known here: name"),
        (["name=x", "count=1.5"], "count is 1.5; expected a whole number"),
        (["name=x", "count=true"], "count is True; expected a whole number"),
        (["name=x", "inner.rate=inf"], "inner.rate is inf; expected a finite number"),
        (["name=x", "inner.rate=nan"], "inner.rate is nan; expected a finite number"),
        (["name=x", "inner.kind=c"], "inner.kind is 'c'; expected one of 'a', 'b'"),
        (["name=x", "inner=3"], "inner is 3; expected a table"),
        (["name=x", "inner.pairs=[[1]]"], "inner.pairs[0] has 1 values; expected 2"),
        (["name=x", "count"], "Cannot read the override 'count'"),
        (["name=x", "name.y=1"], "Cannot set name.y: name is a value"),
        (["count=1"], "does not give name"),
    ],
)
def test_what_is_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.read(Outer, None, overrides=overrides)
    assert message in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Cannot read the settings"):
        config.read(Outer, tmp_path / "nowhere.toml")
    (tmp_path / "bad.toml").write_text("name = = 3", encoding="utf-8")
    with pytest.raises(ConfigError, match="not a TOML file"):
        config.read(Outer, tmp_path / "bad.toml")


def test_toml_round_trip() -> None:
    settings = Outer('q"uote ü', 1, False, None, Inner(2e-5, "b"), (Inner(), Inner(pairs=())))
    assert config.from_dict(Outer, tomllib.loads(config.to_toml(settings))) == settings


def test_a_base_lies_under_the_file() -> None:
    base = Outer("x", 9, inner=Inner(rate=7.0))
    settings = config.read(Outer, None, overrides=["inner.kind=b"], base=base)
    assert settings == Outer("x", 9, inner=Inner(7.0, "b"))


def shipped() -> list[tuple[Path, Any]]:
    pretrain = [(path, PretrainSettings) for path in sorted((ROOT / "configs/pretrain").glob("*.toml"))]
    return pretrain + [(path, FinetuneSettings) for path in sorted((ROOT / "configs/finetune").glob("*.toml"))]


@pytest.mark.parametrize(("path", "kind"), shipped(), ids=lambda value: getattr(value, "stem", ""))
def test_shipped_configs_parse_and_explain_every_key(path: Path, kind: Any) -> None:
    settings = config.read(kind, path)
    optional = {"updates", "minutes", "train", "heldout", "only_softmax"}
    given = tomllib.loads(path.read_text(encoding="utf-8"))
    for section in dataclasses.fields(settings):
        value = getattr(settings, section.name)
        if dataclasses.is_dataclass(value) and not (section.name == "model" and kind is FinetuneSettings):
            names = {field.name for field in dataclasses.fields(value)} - optional
            assert names <= given[section.name].keys(), f"{path.name} leaves out {names - given[section.name].keys()}"
    lines = path.read_text(encoding="utf-8").splitlines()
    for before, line in pairwise(lines):
        if " = " in line and not line.startswith("#"):
            assert " # " in line or before.startswith("# "), f"{path.name}: nothing explains {line}"


def test_the_papers_recipe_is_the_papers() -> None:
    paper = config.read(PretrainSettings, ROOT / "configs/pretrain/paper.toml")
    assert (paper.model.cell_dim, paper.model.projection_dim, paper.model.num_highway) == (4096, 512, 2)
    assert (paper.data.unroll_steps, paper.data.vocabulary_size, paper.softmax.negatives) == (20, 793_471, 8192)
    assert (paper.optimiser.name, paper.optimiser.learning_rate, paper.optimiser.clip_norm) == ("adagrad", 0.2, 10.0)
    assert (paper.optimiser.loss_scale, paper.training.dropout, paper.training.epochs) == (20.0, 0.1, 10.0)


def test_an_assignment_holds_any_letters() -> None:
    plain: dict[str, Any] = {}
    config.put(plain, config.assignment("text.words.vectors", 'a "𠮷" é\\ file.txt'))
    assert plain == {"text": {"words": {"vectors": 'a "𠮷" é\\ file.txt'}}}


def test_a_run_without_an_end_is_refused_in_python_too() -> None:
    with pytest.raises(ConfigError, match=r"training.epochs is inf; expected a finite number above 0"):
        TrainingSettings(epochs=float("inf"))
