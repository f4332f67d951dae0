"""SQuAD's JSON: tokens keep their places, answers must be where they are said to be."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmo.errors import InputError
from elmo.tasks.question_answering.data import TokenSpan, read_questions
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
    assert question.passage.cut(span) == "Santa Clara"
    assert question.passage.cut(TokenSpan(0, 5)) == "“Super Bowl 50”", "the text as it was written, not its tokens"


def test_an_answer_inside_a_token_gets_the_token(tmp_path: Path) -> None:
    (question,) = read_questions(write(tmp_path, squad(answers=[{"text": "Clar", "answer_start": 55}])))
    assert question.passage.cut(question.spans[0]) == "Clara"


def test_questions_to_be_answered_need_no_answers(tmp_path: Path) -> None:
    path = write(tmp_path, squad(answers=[]))
    assert read_questions(path, need_answers=False)[0].answers == ()
    with pytest.raises(InputError, match="Bowl, paragraph 1, question q1 has no answers"):
        read_questions(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (squad(answers=[{"text": "Santa Clara", "answer_start": 3}]), "is not at character 3 .*it stands at 49"),
        (squad(answers=[{"text": "Paris", "answer_start": 3}]), "question q1: .*does not hold it anywhere"),
        (squad(answers=[{"text": "Paris"}]), "an answer needs a 'text' and a whole number 'answer_start'"),
        (squad(is_impossible=True), "question q1 is marked unanswerable"),
        (squad(id=None, question=None), "expected an 'id' and a 'question'"),
        ({"data": [{"title": "x"}]}, "an article has no list 'paragraphs'"),
        ({"data": []}, "holds no questions"),
        ([1], "found a JSON list"),
        ("{\n  oops}", "squad.json is not JSON that can be read .*line 2 column 3"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, "untitled, paragraph 1 has no text under 'context'"),
        ({"data": [{"paragraphs": [{"context": "\u200b", "qas": []}]}]}, "paragraph 1 has no words under 'context'"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_the_place(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_questions(write(tmp_path, content))


def test_the_real_files(shared: Path) -> None:
    train = read_questions(shared / "data/squad/split-train.json.zst")
    dev = read_questions(shared / "data/squad/split-dev.json.zst")
    assert (len(train), len(dev)) == (8583, 1987)


def test_passages_that_are_all_too_long(tmp_path: Path) -> None:
    path, task = write(tmp_path, squad()), QuestionAnswering()
    settings = QuestionAnsweringSettings(data=AnswerDataSettings(max_passage_tokens=10))
    with pytest.raises(InputError, match=r"no passage of at most 10 tokens \(the shortest has 16\)"):
        task.read(path, settings, "train")
    assert len(task.read(path, settings, "evaluate")) == 1


def test_a_side_without_words_is_refused() -> None:
    with pytest.raises(InputError, match=r"line 2: found .*; expected a question, a tab and its passage"):
        QuestionAnswering().parse("Who?\tAnn.\nWho?\t\u200b", QuestionAnsweringSettings(), {})
