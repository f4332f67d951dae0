"""The layout of the data folder: files plain or compressed, and errors that name missing files."""

from pathlib import Path

import pytest

from elmo.paper.data import DataFolder, MissingDataError


def test_compressed_files_are_found(data: Path) -> None:
    folder = DataFolder(data)
    assert folder.task("entailment").train.endswith("nli-sick/SICK.txt:TRAIN")
    pairs = data / "nli-sick/SICK.txt"
    pairs.rename(pairs.with_name("SICK.txt.zst"))
    assert folder.task("entailment").test.endswith("SICK.txt.zst:TEST")
    assert [path.name for path in folder.treebank()] == ["x-train.conllu", "x-dev.conllu", "x-test.conllu"]
    assert folder.senses().name == "wsd" and folder.wordnet().name == "dict"


def test_texts_of_some_sources_or_of_all(data: Path) -> None:
    (data / "lm" / "other").mkdir()
    (data / "lm" / "other" / "train.01.txt.zst").write_bytes(b"")
    folder = DataFolder(data)
    assert len(folder.texts()) == 2 and len(folder.texts(("small",))) == 1
    assert len(folder.texts(("unknown",))) == 2


def test_missing_files_are_named(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    with pytest.raises(MissingDataError, match=r"There is no squad/split-train\.json in .*; expected a file"):
        folder.task("question_answering")
    for look, name in ((folder.treebank, "ud/EWT/"), (folder.wordnet, "wordnet-3.0/dict"), (folder.texts, "lm/")):
        with pytest.raises(MissingDataError, match=name):
            look()


def test_texts_in_folders_of_folders_are_found(tmp_path: Path) -> None:
    nested = tmp_path / "lm" / "modern" / "press"
    nested.mkdir(parents=True)
    (nested / "train.txt").write_text("a b\n")
    assert DataFolder(tmp_path).texts() == [nested / "train.txt"]
