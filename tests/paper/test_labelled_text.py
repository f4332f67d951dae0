"""CoNLL-U and two columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from elmo.errors import InputError
from elmo.paper.labelled_text import LabelledSentence, read_labelled, three_files

CONLLU = """# text = I can't.
1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2-3\tcan't\t_\t_\t_\t_\t_\t_\t_\t_
2\tca\tcan\tAUX\tMD\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_

1\t#\t#\tSYM\t_\t_\t0\troot\t_\t_
"""


def test_conllu_ranges_and_empty_nodes_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU)
    assert read_labelled(path) == [
        LabelledSentence(("I", "ca", "n't"), ("PRON", "AUX", "PART")),
        LabelledSentence(("#",), ("SYM",)),
    ]


def test_a_missing_tag_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU)
    with pytest.raises(InputError, match="line 8: found no xpos tag"):
        read_labelled(path, tags="xpos")


def test_the_token_is_the_first_column_and_the_label_the_last(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\n\nPeter\tB-PER\n# O\n")
    assert read_labelled(path) == [
        LabelledSentence(("EU", "rejects"), ("B-ORG", "O")),
        LabelledSentence(("Peter", "#"), ("B-PER", "O")),
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "word\n", "line 1: found only 'word'"),
        ("a.txt", "\n\n", "contains no labelled token"),
        ("a.conllu", "1\tI\tPRON\n", "line 1: found 3 columns"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_labelled(tmp_path / name)


def test_ewt(shared: Path) -> None:
    sentences = read_labelled(shared / "data/ud/EWT/en_ewt-ud-test.conllu.zst", tags="xpos")
    assert len(sentences) == 2077
    assert sum(len(sentence.words) for sentence in sentences) == 25_094


def test_the_plain_text_of_a_treebank_is_ignored(tmp_path: Path) -> None:
    for part in ("train", "dev", "test"):
        for ending in ("conllu", "txt"):
            (tmp_path / f"en_ewt-ud-{part}.{ending}").write_text("", encoding="utf-8")
    assert [path.name for path in three_files([tmp_path])] == [
        f"en_ewt-ud-{part}.conllu" for part in ("train", "dev", "test")
    ]
