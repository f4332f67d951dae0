"""Questions about paragraphs, from SQuAD 1.1's JSON.

    {"data": [{"title": ..., "paragraphs": [{"context": ..., "qas": [
        {"id": ..., "question": ..., "answers": [{"text": ..., "answer_start": 157}]}]}]}]}

Tokens keep their places in the text, so that a predicted span of tokens can be cut out of the context as it was
written.
Left out: SQuAD 2's unanswerable questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from elmo.errors import InputError
from elmo.storage.json_file import parse_json
from elmo.tasks.reading import TokenizedText, require_examples, whole_text
from elmo.text.tokenizer import words


class TokenSpan(NamedTuple):
    """Tokens start ... end - 1."""

    start: int
    end: int


@dataclass(frozen=True)
class Passage(TokenizedText):
    """A paragraph, shared by its questions."""

    def cut(self, span: TokenSpan) -> str:
        """The text of a span of tokens."""
        return self.text[self.offsets[span.start][0] : self.offsets[span.end - 1][1]]

    def tokens_of(self, start: int, end: int) -> TokenSpan | None:
        """The fewest tokens that cover characters start ... end - 1; None if no token does."""
        inside = [index for index, (begin, stop) in enumerate(self.offsets) if begin < end and stop > start]
        return TokenSpan(inside[0], inside[-1] + 1) if inside else None


@dataclass(frozen=True)
class Question:
    """A question, its passage and the reference answers."""

    id: str
    tokens: tuple[str, ...]
    passage: Passage
    answers: tuple[str, ...] = ()
    spans: tuple[TokenSpan, ...] = ()
    """Where the passage holds each answer."""


def read_questions(path: Path | str, *, tokenizer: str = "ptb-like", need_answers: bool = True) -> list[Question]:
    """All questions of a file, in order."""
    questions: list[Question] = []
    for article in _list(path, _load(path), "data", "the file"):
        for number, paragraph in enumerate(_list(path, article, "paragraphs", "an article"), start=1):
            where = f"{article.get('title', 'untitled')}, paragraph {number}"
            passage = _passage(path, where, paragraph, tokenizer)
            for record in _list(path, paragraph, "qas", where):
                questions.append(_question(path, where, record, passage, tokenizer, need_answers))
    return require_examples(path, questions, "questions")


def _load(path: Path | str) -> dict[str, Any]:
    content = parse_json(whole_text(path), source=str(path), expected="SQuAD 1.1's format")
    if not isinstance(content, dict):
        raise InputError(
            f"{path}: found a JSON {type(content).__name__}; expected SQuAD 1.1's object with the key 'data'."
        )
    return content


def _list(path: Path | str, record: Any, key: str, where: str) -> list[dict[str, Any]]:
    value = record.get(key) if isinstance(record, dict) else None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InputError(
            f"{path}: {where} has no list {key!r}; expected SQuAD 1.1's data / paragraphs / qas / answers."
        )
    return value


def _passage(path: Path | str, where: str, paragraph: dict[str, Any], tokenizer: str) -> Passage:
    text = paragraph.get("context")
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{path}: {where} has no text under 'context'.")
    passage = Passage.of(text, tokenizer)
    if not passage.tokens:
        raise InputError(f"{path}: {where} has no words under 'context'.")
    return passage


def _question(
    path: Path | str,
    where: str,
    record: dict[str, Any],
    passage: Passage,
    tokenizer: str,
    need_answers: bool,
) -> Question:
    name, text = str(record.get("id", "")), record.get("question")
    where = f"{where}, question {name or '(no id)'}"
    if not name or not isinstance(text, str):
        raise InputError(f"{path}: {where}: expected an 'id' and a 'question'.")
    tokens = tuple(words(text, tokenizer))
    if not tokens:
        raise InputError(f"{path}: {where}: the question is empty.")
    if record.get("is_impossible"):
        raise InputError(
            f"{path}: {where} is marked unanswerable; only SQuAD 1.1 is read, where every question has an answer."
        )
    if not need_answers and not record.get("answers"):
        return Question(name, tokens, passage)
    answers, spans = [], []
    for answer in _list(path, record, "answers", where):
        answer_text, start = str(answer.get("text", "")), answer.get("answer_start")
        if not isinstance(start, int) or not answer_text:
            raise InputError(f"{path}: {where}: an answer needs a 'text' and a whole number 'answer_start'.")
        found = passage.text[max(start, 0) : start + len(answer_text)]
        if found != answer_text:
            elsewhere = passage.text.find(answer_text)
            hint = f"it stands at {elsewhere}" if elsewhere >= 0 else "the context does not hold it anywhere"
            raise InputError(
                f"{path}: {where}: the answer {answer_text!r} is not at character {start} of its context, "
                f"where {found!r} stands; {hint}."
            )
        span = passage.tokens_of(start, start + len(answer_text))
        if span is None:
            raise InputError(f"{path}: {where}: the answer {answer_text!r} holds no token.")
        answers.append(answer_text)
        spans.append(span)
    if not answers:
        raise InputError(f"{path}: {where} has no answers.")
    return Question(name, tokens, passage, tuple(answers), tuple(spans))
