"""Documents and chains from CoNLL-2012 columns."""

from pathlib import Path

import pytest

from elmo.errors import InputError
from elmo.tasks.coreference.data import Mention, read_documents
from elmo.tasks.coreference.task import Coreference, CoreferenceSettings


def conll(cells: list[str], *, name: str = "bc/cnn/00/cnn_0001", break_after: int = 2) -> str:
    lines = [f"#begin document ({name}); part 001"]
    for index, cell in enumerate(cells):
        lines.append(f"{name} 1 {index} w{index} NN * - - - Ann * {cell}")
        if index + 1 == break_after:
            lines.append("")
    return "\n".join([*lines, "", "#end document"]) + "\n"


def write(folder: Path, text: str, name: str = "a.gold_conll") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_document_with_nested_and_touching_mentions(tmp_path: Path) -> None:
    (document,) = read_documents(write(tmp_path, conll(["(1|(2)", "1)", "(2)|(1", "(1)|1)"])))
    assert document.chains == ((Mention(0, 1), Mention(2, 3)), (Mention(0, 2), Mention(2, 4), Mention(3, 4)))
    assert document.sentences == (("w0", "w1"), ("w2", "w3"))
    assert document.speakers == (("Ann", "Ann"), ("Ann", "Ann"))
    assert (document.name, document.part, document.genre) == ("bc/cnn/00/cnn_0001", 1, "bc")


def test_singletons_are_left_out_by_default(tmp_path: Path) -> None:
    path = write(tmp_path, conll(["(1)", "-", "(2)", "(2)"]))
    assert len(read_documents(path)[0].chains) == 1
    assert len(read_documents(path, singletons=True)[0].chains) == 2


def test_litbanks_empty_last_column(tmp_path: Path) -> None:
    rows = [f"x\t0\t{index}\tw\t" + "_\t" * 8 + cell for index, cell in enumerate(["(0)", "", "(0)"])]
    path = write(tmp_path, "\n".join(["#begin document (x); part 0", *rows, "", "#end document", ""]), "x.conll")
    (document,) = read_documents(path)
    assert document.chains == ((Mention(0, 1), Mention(2, 3)),)
    assert document.speakers == (("", "", ""),)
    assert read_documents(tmp_path) == [document], "a folder is the documents of its files"


def test_a_folder_of_ontonotes_has_each_document_once(tmp_path: Path) -> None:
    write(tmp_path, conll(["(1)", "(1)"]), "cnn_0001.v4_gold_conll")
    write(tmp_path, conll(["-", "-"]), "cnn_0001.v4_auto_conll")
    (document,) = read_documents(tmp_path)
    assert document.chains == ((Mention(0, 1), Mention(1, 2)),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (conll(["(1", "-", "(1)", "-"]), r"line 2: found \(1, which is never closed; expected 1\) before"),
        (conll(["1)", "-"]), r"line 2: found '1\)' in the last column; expected mentions such as"),
        (conll(["(1)", "1"]), "line 3: found '1' in the last column; expected mentions such as"),
        (conll(["(1)", "(1)|"]), "line 3: found"),
        (conll(["-"]).replace(" Ann *", ""), "line 2: found 10 columns; expected at least 12"),
        (conll(["-"]).replace("#end document", ""), "the end of the file inside the document"),
        (conll(["-"]).replace("#begin document", "#start"), "line 1: found a line outside any document"),
        (
            conll(["-"]).replace("#end document", "#begin document (x); part 000"),
            "expected #begin document .*, after #end document",
        ),
        (conll(["-"]).replace("; part 001", ""), "line 1: found '#begin document .*expected #begin document"),
        ("#end document\n", "line 1: found a line outside any document"),
        ("", "contains no documents"),
    ],
)
def test_bad_files_are_refused_with_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_documents(write(tmp_path, text))


def test_the_real_files(shared: Path) -> None:
    for split, documents, mentions in (("train", 117, 14560), ("dev", 18, 1962), ("test", 18, 1974)):
        found = read_documents(shared / f"data/coref/ontogum/{split}.free.gold_conll.zst", singletons=True)
        assert len(found) == documents
        assert sum(len(chain) for document in found for chain in document.chains) == mentions


def test_a_document_without_text_is_skipped(tmp_path: Path) -> None:
    empty = "#begin document (x); part 000\n\n#end document\n"
    assert len(read_documents(write(tmp_path, empty + conll(["(1)", "(1)"]) + empty))) == 1


def test_offsets_count_from_the_line_of_the_document_however_many_empty_lines_separate_documents() -> None:
    text = "\n\nAnna left.\nShe ran.\n\n\n\n\nBob\n stayed.\n"
    lines = text.split("\n")
    first, second = Coreference().parse(text, CoreferenceSettings(), {})
    assert (first.line, first.name, second.line, second.name) == (3, "document 1", 9, "document 2")
    for document in (first, second):
        whole = "\n".join(lines[document.line - 1 :])
        for sentence, offsets in zip(document.sentences, document.offsets, strict=True):
            assert tuple(whole[start:stop] for start, stop in offsets) == sentence


def test_lines_of_white_space_separate_documents() -> None:
    for gap in ("\r\n\r\n", "\n \t\n"):
        first, second = Coreference().parse(f"Anna left.{gap}Bob stayed.\r\n", CoreferenceSettings(), {})
        assert second.sentences == (("Bob", "stayed", "."),) and second.line == 3
        assert second.offsets == [[(0, 3), (4, 10), (10, 11)]] and first.line == 1
