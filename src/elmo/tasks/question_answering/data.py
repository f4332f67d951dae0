"""Questions about paragraphs, from SQuAD 1.1's JSON.

    {"data": [{"title": ..., "paragraphs": [{"context": ..., "qas": [
        {"id": ..., "question": ..., "answers": [{"text": ..., "answer_start": 157}]}]}]}]}

Tokens keep their offsets, so that a predicted span of tokens can be cut out of the context as it was written.
Left out: SQuAD 2's unanswerable questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from elmo.errors import InputError
from elmo.storage.json_file import parse_json
from elmo.tasks.reading import TokenizedText, require_examples, whole_text

T = TypeVar("T")
_NAMES: dict[type, str] = {list: "a list", str: "a string", int: "a whole number"}


class TokenSpan(NamedTuple):
    """Tokens start ... end - 1."""

    start: int
    end: int


@dataclass(frozen=True)
class Question:
    """A question, its passage and the reference answers."""

    id: str
    tokens: tuple[str, ...]
    passage: TokenizedText
    answers: tuple[str, ...] = ()
    spans: tuple[TokenSpan, ...] = ()
    """The tokens of each answer in the passage."""


def read_questions(path: Path | str, *, tokenizer: str = "ptb-like") -> list[Question]:
    """All questions of a file, in order."""
    questions: list[Question] = []
    content = parse_json(whole_text(path), source=str(path), expected="SQuAD 1.1's format")
    for article in _get(content, "data", list, str(path)):
        for number, paragraph in enumerate(_get(article, "paragraphs", list, f"{path}: an article"), start=1):
            where = f"{path}: {article.get('title', 'untitled')}, paragraph {number}"
            passage = _text(paragraph, "context", where, tokenizer)
            for record in _get(paragraph, "qas", list, where):
                name = _get(record, "id", str, f"{where}: a question")
                tokens = _text(record, "question", f"{where}, question {name}", tokenizer).tokens
                questions.append(_question(name, tokens, passage, record, where=f"{where}, question {name}"))
    return require_examples(path, questions, "questions")


def _get(record: Any, key: str, kind: type[T], where: str) -> T:
    value = record.get(key) if isinstance(record, dict) else None
    if not isinstance(value, kind):
        found = f"no {key!r}" if value is None else f"{str(value)[:40]!r} as {key!r}"
        raise InputError(f"{where}: found {found}; expected {_NAMES[kind]}, as in SQuAD 1.1.")
    return value


def _text(record: Any, key: str, where: str, tokenizer: str) -> TokenizedText:
    text = TokenizedText.of(_get(record, key, str, where), tokenizer)
    if not text.tokens:
        raise InputError(f"{where}: found no words in {key!r}; expected a text.")
    return text


def _question(
    name: str, tokens: tuple[str, ...], passage: TokenizedText, record: dict[str, Any], *, where: str
) -> Question:
    answers, spans = [], []
    for answer in _get(record, "answers", list, where):
        text, start = _get(answer, "text", str, where), _get(answer, "answer_start", int, where)
        end = start + len(text)
        inside = [index for index, (a, b) in enumerate(passage.offsets) if a < end and b > start]
        if passage.text[max(start, 0) : end] != text or not inside:
            raise InputError(
                f"{where}: found {passage.text[max(start, 0) : end]!r} at character {start} of its context; "
                f"expected the answer {text!r}, which is at {passage.text.find(text)} (-1: nowhere)."
            )
        answers.append(text)
        spans.append(TokenSpan(inside[0], inside[-1] + 1))
    if not answers or record.get("is_impossible"):
        raise InputError(f"{where}: found no answer; expected SQuAD 1.1, in which every question has one.")
    return Question(name, tokens, passage, tuple(answers), tuple(spans))
