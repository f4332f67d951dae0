"""A small WordNet and a small SemCor in the formats of the real ones; the sentences and glosses are ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest


@pytest.fixture
def wordnet_folder(tmp_path: Path) -> Path:
    """Three lemmas in the form of the WordNet 3.0 database; the glosses are ours."""
    folder = tmp_path / "dict"
    folder.mkdir()
    nouns = [
        '00000000 17 n 01 bank 0 000 | the ground beside a river; "they sat on the bank"  \n',
        "{:08d} 14 n 01 bank 1 000 | a house that keeps money  \n",
        "{:08d} 17 n 01 river_bed 0 000 | what a river flows over  \n",
    ]
    offsets, text = [], ""
    for line in nouns:
        offsets.append(len(text.encode()))
        text += line.format(offsets[-1])
    (folder / "data.noun").write_text(text, encoding="utf-8")
    (folder / "data.adj").write_text("00000000 00 s 01 steep 0 000 | rising sharply  \n", encoding="utf-8")
    senses = [
        f"bank%1:14:01:: {offsets[1]:08d} 2 20",
        f"bank%1:17:00:: {offsets[0]:08d} 1 25",
        f"river_bed%1:17:00:: {offsets[2]:08d} 1 0",
        "steep%5:00:00:sharp:00 00000000 1 3",
    ]
    (folder / "index.sense").write_text("\n".join(senses) + "\n", encoding="utf-8")
    return folder


RIVER, MONEY = "bank%1:17:00::", "bank%1:14:01::"

_TRAIN = [
    ("the river {bank} was muddy", RIVER),
    ("a muddy river {bank} with reeds", RIVER),
    ("the money {bank} paid interest", MONEY),
    ("a rich money {bank} paid well", MONEY),
    ("some money {bank} in town", MONEY),
]
_TEST = [
    ("one muddy river {bank} again", "bank", "NOUN", RIVER),
    ("that rich money {bank} paid interest", "bank", "NOUN", MONEY),
    ("the dry {river bed} lay below", "river_bed", "NOUN", "river_bed%1:17:00::"),
    ("a {steep} hill", "steep", "ADJ", "steep%5:00:00:sharp:00 steep%3:00:00::"),
]


def _xml(name: str, sentences: Sequence[tuple[str, str, str, str]]) -> tuple[str, str]:
    lines, keys = (
        ['<?xml version="1.0" encoding="UTF-8" ?>', f'<corpus lang="en" source="{name}">', '<text id="d0">'],
        [],
    )
    for number, (text, lemma, pos, key) in enumerate(sentences):
        lines.append(f'<sentence id="d0.s{number}">')
        before, rest = text.split("{")
        target, after = rest.split("}")
        lines += [f'<wf lemma="{word}" pos="X">{word}</wf>' for word in before.split()]
        lines.append(f'<instance id="d0.s{number}.t0" lemma="{lemma}" pos="{pos}">{target}</instance>')
        lines += [f'<wf lemma="{word}" pos="X">{word}</wf>' for word in after.split()]
        lines.append("</sentence>")
        keys.append(f"d0.s{number}.t0 {key}")
    return "\n".join([*lines, "</text>", "</corpus>"]) + "\n", "\n".join(keys) + "\n"


@pytest.fixture
def senses_folder(tmp_path: Path) -> Path:
    """A SemCor of five sentences and two evaluation sets, in the layout of the real ones."""
    folder = tmp_path / "wsd"
    places = {
        "semcor": (folder, [(text, "bank", "NOUN", key) for text, key in _TRAIN]),
        "senseval2": (folder / "Evaluation_Datasets" / "senseval2", _TEST[:2]),
        "semeval2007": (folder / "Evaluation_Datasets" / "semeval2007", _TEST[2:]),
        "ALL": (folder / "Evaluation_Datasets" / "ALL", _TEST),
    }
    for name, (place, sentences) in places.items():
        place.mkdir(parents=True, exist_ok=True)
        data, gold = _xml(name, sentences)
        (place / f"{name}.data.xml").write_text(data, encoding="utf-8")
        (place / f"{name}.gold.key.txt").write_text(gold, encoding="utf-8")
    return folder
