"""SQuAD's JSON: tokens keep their offsets, answers must be at their positions."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmo.errors import InputError
from elmo.tasks.question_answering.data import read_questions
from elmo.tasks.question_answering.task import AnswerDataSettings, QuestionAnswering, QuestionAnsweringSettings

CONTEXT = "“Super Bowl 50” was an American football game in Santa Clara, California."


def squad(**changes: Any) -> dict[str, Any]:
    question = {"id": "q1", "question": "Where was it?", "answers": [{"text": "Santa Clara", "answer_start": 49}]}
    return {"data": [{"title": "Bowl", "paragraphs": [{"context": CONTEXT, "qas": [{**question, **changes}]}]}]}


def write(folder: Path, content: Any) -> Path:
    path = folder / "squad.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_a_question_with_its_answer(tmp_path: Path) -> None:
    (question,) = read_questions(write(tmp_path, squad()))
    assert question.tokens == ("Where", "was", "it", "?")
    (span,) = question.spans
    assert question.passage.tokens[span.start : span.end] == ("Santa", "Clara")
    assert question.passage.cut(*span) == "Santa Clara"
    assert question.passage.cut(0, 5) == "“Super Bowl 50”", "the text as it was written, not its tokens"


def test_an_answer_inside_a_token_gets_the_token(tmp_path: Path) -> None:
    (question,) = read_questions(write(tmp_path, squad(answers=[{"text": "Clar", "answer_start": 55}])))
    assert question.passage.cut(*question.spans[0]) == "Clara"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (squad(answers=[{"text": "Santa Clara", "answer_start": 3}]), "at character 3 .*expected .* is at 49"),
        (squad(answers=[{"text": "Paris", "answer_start": 3}]), "question q1: .*expected .* is at -1"),
        (squad(answers=[{"text": "Paris"}]), "question q1: found no 'answer_start'; expected a whole number"),
        (squad(is_impossible=True), "question q1: found no answer; expected SQuAD 1.1"),
        (squad(answers=[]), "Bowl, paragraph 1, question q1: found no answer"),
        (squad(id=None), "paragraph 1: a question: found no 'id'; expected a string"),
        (squad(question=None), "question q1: found no 'question'"),
        ({"data": [{"title": "x"}]}, "an article: found no 'paragraphs'; expected a list"),
        ({"data": []}, "contains no questions"),
        ([1], "squad.json: found no 'data'; expected a list, as in SQuAD 1.1"),
        ("{\n  oops}", "squad.json is not JSON that can be read .*line 2 column 3"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, "untitled, paragraph 1: found no 'context'"),
        ({"data": [{"paragraphs": [{"context": "\u200b", "qas": []}]}]}, "paragraph 1: found no words in 'context'"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_the_question(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_questions(write(tmp_path, content))


def test_the_real_files(shared: Path) -> None:
    train = read_questions(shared / "data/squad/split-train.json.zst")
    dev = read_questions(shared / "data/squad/split-dev.json.zst")
    assert (len(train), len(dev)) == (8583, 1987)


def test_an_error_if_all_passages_are_too_long(tmp_path: Path) -> None:
    path, task = write(tmp_path, squad()), QuestionAnswering()
    settings = QuestionAnsweringSettings(data=AnswerDataSettings(max_passage_tokens=10))
    with pytest.raises(InputError, match=r"no passage of at most 10 tokens \(the shortest has 16\)"):
        task.read(path, settings, "train")
    assert len(task.read(path, settings, "evaluate")) == 1


def test_a_side_without_words_is_refused() -> None:
    with pytest.raises(InputError, match=r"line 2: found .*; expected a question, a tab and its passage"):
        QuestionAnswering().parse("Who?\tAnn.\nWho?\t\u200b", QuestionAnsweringSettings(), {})
