"""Tables 4, 5 and 6: keys contain all dependencies, and missing data is named."""

import json
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from elmo.paper.plan import Plan
from elmo.paper.report import make_part, make_report
from elmo.paper.study import Study
from elmo.paper.table_4_neighbours import make

MakeStudy = Callable[..., Study]


def _run(study: Study) -> dict[str, object]:
    (run,) = study.train.store.folder.glob("neighbours-*.json")
    result: dict[str, object] = json.loads(run.read_text())["result"]
    return result


def test_table_4_depends_on_the_gold_senses(make_study: MakeStudy, data: Path) -> None:
    said: list[str] = []
    study = make_study(say=said.append)
    before = make(study)
    measured = said.count("neighbours: measuring")
    make(study)
    assert measured == said.count("neighbours: measuring") == 1
    gold = data / "wsd" / "semcor.gold.key.txt"
    gold.write_text(gold.read_text().replace("t1 bank%1:17:00::", "t1 bank%1:14:01::"))
    after = make(study)
    assert said.count("neighbours: measuring") == 2
    assert before.claims != after.claims


def test_empty_sentences_do_not_shift_table_4(make_study: MakeStudy, data: Path) -> None:
    corpus = data / "wsd" / "semcor.data.xml"
    empty = '<sentence id="e"></sentence>'
    corpus.write_text(
        corpus.read_text().replace("<sentence", f"{empty}<sentence", 1).replace("</text>", f"{empty}</text>")
    )
    study = make_study()
    assert not make(study).missing
    asked = _run(study)["asked"]
    assert [each["place"] for each in asked] == ["0:2", "2:2"]  # type: ignore[attr-defined]


def test_the_command_names_the_static_vectors(make_study: MakeStudy, tmp_path: Path) -> None:
    vectors = tmp_path / "my vectors.txt"
    vectors.write_text("bank 1 0\nriver 1 1\nmoney 0 1\n")
    command = shlex.split(make(replace(make_study(), given_vectors=str(vectors))).commands[0])
    assert command[command.index("--static") + 1] == str(vectors)


def test_the_text_says_whose_vector_has_the_nearest_words(
    make_study: MakeStudy, small_plan: Plan, tmp_path: Path
) -> None:
    without = make_study(plan=replace(small_plan, vector_sources=None))
    assert "biLM's layer-0 vector of “bank”" in make(without).text
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("bank 1 0\nriver 1 1\nmoney 0 1\n")
    assert "static vector of “bank”" in make(replace(make_study(), given_vectors=str(vectors))).text


def test_a_limit_counts_sentences_like_the_command(make_study: MakeStudy, data: Path, small_plan: Plan) -> None:
    corpus = data / "wsd" / "semcor.data.xml"
    corpus.write_text(corpus.read_text().replace("<sentence", '<sentence id="e"></sentence><sentence', 1))
    study = make_study(plan=replace(small_plan, neighbour_sentences=4))
    section = make(study)
    assert "--limit 4" in section.commands[0] and _run(study)["occurrences"] == 12


def test_senses_are_compared_within_a_part_of_speech(make_study: MakeStudy, data: Path) -> None:
    corpus, gold = data / "wsd" / "semcor.data.xml", data / "wsd" / "semcor.gold.key.txt"
    more = [("VERB", "bank%2:38:00::")] * 4 + [("NOUN", "bank%1:17:01::")] * 2
    sentences = "".join(
        f'<sentence id="m{number}"><instance id="m{number}" lemma="bank" pos="{pos}">bank</instance><wf>left</wf>'
        "</sentence>"
        for number, (pos, _) in enumerate(more)
    )
    corpus.write_text(corpus.read_text().replace("</text>", f"{sentences}</text>"))
    gold.write_text(gold.read_text() + "".join(f"m{number} {key}\n" for number, (_, key) in enumerate(more)))
    study = make_study()
    section = make(study)
    found = _run(study)
    senses = [each["sense"] for each in found["asked"]]  # type: ignore[attr-defined]
    assert senses == ["bank%1:17:00::", "bank%1:14:01::"], (
        "nouns, although the verb is more frequent, of different files"
    )
    assert found["chance"] == 100 * (2 + 4) / 9, "the most frequent noun and the most frequent verb"
    assert [row[1] for row in section.tables[0].rows if row[1]] == senses, "without glosses the keys are shown"
    gold.write_text(gold.read_text().replace("bank%1:14:01::", "bank%4:02:00::").replace("%1:17:01::", "%3:00:00::"))
    assert "at least two of one part of speech" in make_part("table-4", study).missing[0]


def test_a_part_without_its_data_is_left_out(make_study: MakeStudy, data: Path, tmp_path: Path) -> None:
    shutil.rmtree(data / "wsd" / "Evaluation_Datasets")
    (data / "ud" / "EWT" / "x-dev.conllu").write_text("# nothing but a comment\n")
    parts = ("table-4", "table-5", "table-6")
    table_4, table_5, table_6 = make_report(make_study(), tmp_path / "report", parts=parts).sections
    assert table_4.tables
    assert "neither a folder Evaluation_Datasets" in table_5.missing[0] and not table_5.tables
    assert "x-dev.conllu contains no labelled token" in table_6.missing[0] and not table_6.tables
    (data / "wsd" / "semcor.gold.key.txt").unlink()
    assert "is not a sense-tagged set" in make_part("table-4", make_study()).missing[0]
