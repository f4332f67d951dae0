"""Digests depend on the content alone."""

from pathlib import Path

import pytest
import torch

from elmo.errors import InputError
from elmo.storage.digest import content_digest, digest, file_digest, json_digest, tensor_digest, text_digest


def test_digests_depend_on_the_content_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    assert digest("text") == digest(b"text") == file_digest(tmp_path / "a")
    assert json_digest({"a": 1, "b": 2}) == json_digest({"b": 2, "a": 1}) != json_digest({"a": 2, "b": 1})
    assert text_digest(["ab", "c"]) != text_digest(["a", "bc"])
    assert len(json_digest(1)) == len(text_digest([])) == len(tensor_digest({})) == 16


def test_weights(tmp_path: Path) -> None:
    one = {"a": torch.ones(2, 3), "b": torch.zeros(1)}
    assert tensor_digest(one) == tensor_digest(dict(reversed(one.items())))
    assert len({tensor_digest(one), tensor_digest(one, beside="x"), tensor_digest({**one, "b": torch.ones(1)})}) == 3


def test_folders_and_parts_of_files(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("x")
    folder = content_digest(tmp_path)
    (tmp_path / "one").rename(tmp_path / "two")
    assert content_digest(tmp_path) != folder
    assert content_digest(f"{tmp_path / 'two'}:TRAIN") == content_digest(tmp_path / "two") + ":TRAIN"


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no file"):
        content_digest(tmp_path / "none:TRAIN")
    with pytest.raises(InputError, match="There is no file"):
        content_digest(tmp_path / ("n" * 300))
    with pytest.raises(InputError, match=r"Cannot read .*No such file"):
        file_digest(tmp_path / "none")
