"""Vectors learned from text, in the format that the tasks read."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from elmo.errors import InputError
from elmo.tasks import static_vectors
from elmo.tasks.layers.word_vectors import read_word_vectors
from elmo.tasks.static_vectors import VectorSettings, cached_vectors, train_vectors

pytest.importorskip("gensim")
SETTINGS = VectorSettings(dim=8, min_count=2, epochs=30, threads=1)


def test_words_of_like_company_are_alike(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    lines = [f"the {pet} sleeps in the house" for pet in ("cat", "dog")] + ["two and three are small numbers"]
    text.write_text("\n".join(lines * 60) + "\n", encoding="utf-8")
    output = tmp_path / "vectors.txt"
    assert train_vectors([str(text)], output, settings=SETTINGS) == 12
    found = read_word_vectors(output, ["cat", "dog", "three"])
    by_word = dict(zip(found.words, found.vectors, strict=True))
    assert found.dim == 8

    def alike(left: str, right: str) -> float:
        a, b = by_word[left], by_word[right]
        return float(a @ b / ((a @ a) * (b @ b)) ** 0.5)

    assert alike("cat", "dog") > alike("cat", "three")


def test_a_text_without_repeated_words_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("all words differ\n", encoding="utf-8")
    with pytest.raises(InputError, match="Found no word 2 times"):
        train_vectors([str(text)], tmp_path / "v.txt", settings=SETTINGS)
    assert not (tmp_path / "v.txt").exists()


def test_vectors_are_cached_by_texts_and_settings(tmp_path: Path) -> None:
    texts = [tmp_path / "one.txt", tmp_path / "two.txt"]
    for number, text in enumerate(texts):
        text.write_text(f"a b c {number}\n" * 9, encoding="utf-8")
    said: list[str] = []

    def kept(text: Path, epochs: int) -> Path:
        settings = VectorSettings(dim=4, min_count=2, epochs=epochs, threads=1)
        return cached_vectors([str(text)], tmp_path / "runs", settings=settings, say=said.append)

    paths = [kept(texts[0], 1), kept(texts[0], 2), kept(texts[1], 1)]
    assert len(set(paths)) == 3 and all(path.exists() for path in paths)
    said.clear()
    assert kept(texts[0], 1) == paths[0] and not said, "learned once"


def test_standard_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="several passes"):
        train_vectors(["-"], tmp_path / "v.txt", settings=SETTINGS)


def test_two_processes_that_need_the_same_vectors_learn_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a b c\n", encoding="utf-8")
    begun = threading.Barrier(2)
    learned: list[Path] = []

    def learn(inputs: object, output: Path, **_: object) -> int:
        learned.append(output)
        time.sleep(0.2)  # enough for the other thread to look for the file
        output.write_text("1 1\na 1\n", encoding="utf-8")
        return 1

    def ask() -> Path:
        begun.wait()
        return cached_vectors([str(text)], tmp_path / "runs", settings=SETTINGS)

    monkeypatch.setattr(static_vectors, "train_vectors", learn)
    with ThreadPoolExecutor(2) as pool:
        paths = [each.result() for each in [pool.submit(ask), pool.submit(ask)]]
    assert len(learned) == 1 and paths[0] == paths[1] and paths[0].exists()
