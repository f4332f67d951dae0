"""Settings: files, presets, overrides, ranges, and what is refused."""

import dataclasses
import subprocess
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from elmo.errors import ConfigError
from elmo.pretrain.finetune import FinetuneSettings
from elmo.pretrain.settings import PretrainSettings, TrainingSettings
from elmo.serve.settings import ServeSettings
from elmo.settings import (
    Settings,
    assignment,
    describe,
    flatten,
    from_dict,
    preset_files,
    put,
    read_settings,
    required,
    setting,
    split_override,
    to_toml,
)
from elmo.tasks.catalog import find_task, task_names


@dataclass(frozen=True)
class Inner(Settings):
    rate: float = setting(0.5, "How fast.", at_least=0, below=8)
    kind: Literal["a", "b"] = "a"
    pairs: tuple[tuple[int, int], ...] = setting(((1, 2),), above=0)


@dataclass(frozen=True)
class Outer(Settings):
    name: str = required()
    count: int = 3
    on: bool = True
    limit: int | None = setting(5, at_least=1)
    inner: Inner = Inner()
    maybe: Inner | None = None
    parts: tuple[Inner, ...] = ()


def test_a_file_and_overrides(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('name = "x"\n[inner]\nrate = 1\npairs = [[3, 4]]\n[[parts]]\nkind = "b"\n', encoding="utf-8")
    settings = read_settings(Outer, path, overrides=["count=7", "inner.kind=b", "limit=2", "on=false", "maybe.rate=2"])
    assert settings == Outer("x", 7, False, 2, Inner(1.0, "b", ((3, 4),)), Inner(2.0), (Inner(kind="b"),))


def test_the_name_of_an_override_is_without_spaces() -> None:
    assert split_override(" inner . kind = b=c") == ("inner.kind", " b=c")
    assert read_settings(Outer, overrides=["name=x", " inner . kind = b"]).inner.kind == "b"


def test_an_override_that_is_not_toml_is_a_string() -> None:
    assert read_settings(Outer, overrides=["name=a b/c"]).name == "a b/c"


def test_none_unsets_optional_settings() -> None:
    base = Outer("x", maybe=Inner())
    assert read_settings(Outer, overrides=["limit=none", "maybe=none"], base=base) == Outer("x", limit=None)
    with pytest.raises(ConfigError, match="count is 'none'; expected a whole number"):
        read_settings(Outer, overrides=["count=none"], base=base)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["name=x", "inner.rat=1"], "unknown setting inner.rat. Did you mean inner.rate?"),
        (["name=x", "rate=1"], "unknown setting rate. Did you mean inner.rate?"),
        (["name=x", "zzz=1"], "unknown setting zzz. Known here: name"),
        (["name=x", "count=1.5"], "count is 1.5; expected a whole number"),
        (["name=x", "count=true"], "count is True; expected a whole number"),
        (["name=x", "limit=0"], "limit is 0; expected a whole number, at least 1"),
        (["name=x", "inner.rate=inf"], "inner.rate is inf; expected a finite number"),
        (["name=x", "inner.rate=nan"], "inner.rate is nan; expected a finite number"),
        (["name=x", "inner.rate=8"], "inner.rate is 8.0; expected a number, at least 0 and below 8"),
        (["name=x", "inner.kind=c"], "inner.kind is 'c'; expected one of 'a', 'b'"),
        (["name=x", "inner=3"], "inner is 3; expected a table"),
        (["name=x", "inner.pairs=[[1]]"], "inner.pairs[0] is [1]; expected 2 values"),
        (["name=x", "inner.pairs=[[1, 0]]"], "inner.pairs[0][1] is 0; expected a whole number, above 0"),
        (["name=x", "count"], "Cannot read the override 'count'"),
        (["name=x", "name.y=1"], "Cannot set name.y: name is a value"),
        (["count=1"], "does not give name"),
    ],
)
def test_what_is_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings(Outer, overrides=overrides)
    assert message in str(caught.value)


def test_values_out_of_range_are_refused_in_python_too() -> None:
    with pytest.raises(ConfigError, match=r"Inner: rate is -1.0; expected a number, at least 0 and below 8"):
        Inner(rate=-1)
    with pytest.raises(ConfigError, match=r"TrainingSettings: epochs is inf; expected a finite number, above 0"):
        TrainingSettings(epochs=float("inf"))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Cannot read"):
        read_settings(Outer, tmp_path / "nowhere.toml")
    (tmp_path / "bad.toml").write_text("name = = 3", encoding="utf-8")
    with pytest.raises(ConfigError, match="not a TOML file"):
        read_settings(Outer, tmp_path / "bad.toml")


@pytest.mark.parametrize("explain", [False, True])
def test_toml_round_trip(explain: bool) -> None:
    settings = Outer('q"uote ü', 1, False, None, Inner(2e-5, "b"), None, (Inner(), Inner(pairs=())))
    text = to_toml(settings, explain=explain)
    assert from_dict(Outer, tomllib.loads(text)) == settings
    assert ("# How fast." in text) == explain


def test_a_table_changes_the_default_of_its_field() -> None:
    @dataclass(frozen=True)
    class Around(Settings):
        inner: Inner = Inner(rate=7.0)

    # A class inside a function: its annotations cannot be found by name.
    Around.__annotations__["inner"] = Inner
    assert read_settings(Around, overrides=["inner.kind=b"]).inner == Inner(7.0, "b")
    assert read_settings(Outer, overrides=["inner.kind=b"], base=Outer("x", 9, inner=Inner(rate=7.0))) == Outer(
        "x", 9, inner=Inner(7.0, "b")
    )


def test_an_assignment_holds_any_characters() -> None:
    plain: dict[str, Any] = {}
    put(plain, assignment("text.words.vectors", 'a "𠮷" é\\ file.txt'))
    assert plain == {"text": {"words": {"vectors": 'a "𠮷" é\\ file.txt'}}}


KINDS: list[type[Settings]] = [
    PretrainSettings,
    FinetuneSettings,
    *(find_task(name).settings_type for name in task_names()),
]
PRESETS = [(kind, path) for kind in KINDS for path in preset_files(kind)]


@pytest.mark.parametrize(("kind", "path"), PRESETS, ids=lambda value: getattr(value, "stem", value.__class__.__name__))
def test_presets_are_read_described_and_written_back(kind: type[Settings], path: Path, tmp_path: Path) -> None:
    settings = read_settings(kind, path.stem)
    assert describe(kind, path.stem).endswith(".")
    (tmp_path / "own.toml").write_text(to_toml(settings, explain=True), encoding="utf-8")
    assert read_settings(kind, tmp_path / "own.toml") == settings


def test_a_file_starts_from_a_preset(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('base = "tiny"\n[training]\nepochs = 7\n', encoding="utf-8")
    own = read_settings(PretrainSettings, path)
    assert dataclasses.replace(own, training=read_settings(PretrainSettings, "tiny").training) == read_settings(
        PretrainSettings, "tiny"
    )
    assert own.training.epochs == 7
    path.write_text("base = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="base is 3; expected the name of another preset"):
        read_settings(PretrainSettings, path)
    other = tmp_path / "other.toml"
    for first, second in ((path, path), (path, other)):
        first.write_text(f'base = "{second}"\n', encoding="utf-8")
        other.write_text(f'base = "{first}"\n', encoding="utf-8")
        with pytest.raises(ConfigError, match="which has this file as its own base"):
            read_settings(PretrainSettings, path)
    with pytest.raises(ConfigError, match=r"There is no preset 'smal'\. Did you mean small\?"):
        read_settings(PretrainSettings, "smal")
    with pytest.raises(ConfigError, match=r"There is no preset 'n+'\. There"):
        read_settings(PretrainSettings, "n" * 300)
    with pytest.raises(ConfigError, match=r"There is no preset 'x'\. There are medium, .*or give a TOML file"):
        read_settings(PretrainSettings, "x")


def test_a_file_does_not_take_the_place_of_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("small", "mine"):
        (tmp_path / name).write_text("[training]\nepochs = 7\n", encoding="utf-8")
    (tmp_path / "own.toml").write_text('base = "small"\n', encoding="utf-8")
    preset = PretrainSettings.presets
    assert preset is not None
    for source in ("small", "own.toml"):
        assert read_settings(PretrainSettings, source) == read_settings(PretrainSettings, preset / "small.toml")
    for file in ("./small", tmp_path / "small", Path("small"), "mine"):
        assert read_settings(PretrainSettings, file).training.epochs == 7
    assert describe(PretrainSettings, "small").endswith(".")


def test_the_paper_preset_matches_the_paper() -> None:
    paper = read_settings(PretrainSettings, "paper")
    model, optimizer = paper.model, paper.optimizer
    assert model.char_cnn is not None
    assert (model.lstm.cell_dim, model.lstm.projection_dim, model.char_cnn.num_highway) == (4096, 512, 2)
    assert (paper.data.unroll_steps, paper.data.vocabulary_size, paper.softmax.negatives) == (20, 793_471, 8192)
    assert (optimizer.name, optimizer.learning_rate, optimizer.clip_norm) == ("adagrad", 0.2, 10.0)
    assert (optimizer.loss_scale, paper.training.dropout, paper.training.epochs) == (20.0, 0.1, 10.0)


def test_the_defaults_equal_the_preset_small() -> None:
    default = PretrainSettings()
    # Without a preset, a run gives the same numbers on every processor.
    expected = replace(default, training=replace(default.training, precision="auto"))
    assert read_settings(PretrainSettings, "small") == expected
    assert read_settings(FinetuneSettings, "domain") == FinetuneSettings()


@pytest.mark.parametrize("kind", [*KINDS, ServeSettings], ids=lambda kind: kind.__name__)
def test_every_setting_has_a_meaning(kind: type[Settings]) -> None:
    def check(settings: Any) -> None:
        for field in dataclasses.fields(settings):
            value = getattr(settings, field.name)
            if dataclasses.is_dataclass(value):
                check(value)
            else:
                assert field.metadata.get("help", "").endswith("."), f"{type(settings).__name__}.{field.name}"

    check(kind())


def test_settings_do_not_need_torch() -> None:
    code = "import sys, elmo.settings, elmo.pretrain.settings; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_flat_names() -> None:
    assert flatten(Inner())["pairs"] == [[1, 2]]
    assert flatten(PretrainSettings())["model.lstm.cell_dim"] == 1024
