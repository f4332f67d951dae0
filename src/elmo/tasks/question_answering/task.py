"""Question answering as a task: settings, batches, scores, and the form of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from elmo.errors import InputError
from elmo.settings import setting
from elmo.tasks.layers.elmo_input import TextInput
from elmo.tasks.layers.text_batches import TextIndexer
from elmo.tasks.question_answering.data import Question, TokenSpan, read_questions
from elmo.tasks.question_answering.metrics import score_answers
from elmo.tasks.question_answering.model import AnswerFinder, AnswerModelSettings, QuestionBatch
from elmo.tasks.reading import tokenized_lines
from elmo.tasks.task import DataSettings, Drawing, Inventory, PaperRow, Purpose, Task, TaskSettings


@dataclass(frozen=True)
class AnswerDataSettings(DataSettings):
    """How files are read."""

    max_passage_tokens: int = setting(0, "Longer passages are left out of training; 0 keeps all.", at_least=0)


@dataclass(frozen=True)
class QuestionAnsweringSettings(TaskSettings):
    """All settings of the task."""

    data: AnswerDataSettings = setting(AnswerDataSettings())
    model: AnswerModelSettings = setting(AnswerModelSettings())


class QuestionAnswering(Task[Question, TokenSpan, QuestionAnsweringSettings]):
    """Which words of a text answer a question."""

    name = "question_answering"
    headline = "f1"
    settings_type = QuestionAnsweringSettings
    input_format = "a question, a tab and its passage on each line"
    example = "Who sat on the bank?\tAn old man sat on the bank of the river and watched the boats."
    drawing = Drawing("answer", "answer", text=())
    paper = PaperRow(
        *(1, 81.1, 85.8, 24.9),
        files="squad/split-{train,dev,dev}.json",  # there is no third part: dev is the test set, too
        quick=("training.fraction=0.5", "training.epochs=3"),
    )

    def read(self, path: Path | str, settings: QuestionAnsweringSettings, purpose: Purpose = "train") -> list[Question]:
        questions = read_questions(path, tokenizer=settings.data.tokenizer)
        most = settings.data.max_passage_tokens
        if purpose != "train" or not most:
            return questions
        kept = [question for question in questions if len(question.passage.tokens) <= most]
        if not kept:
            shortest = min(len(question.passage.tokens) for question in questions)
            raise InputError(
                f"{path}: found no passage of at most {most} tokens (the shortest has {shortest}); expected at least "
                "one for training. Raise data.max_passage_tokens; 0 keeps all."
            )
        return kept

    def parse(self, text: str, settings: QuestionAnsweringSettings, inventory: Inventory) -> list[Question]:
        rows = tokenized_lines(text, settings.data.tokenizer, cells=2, expected=self.input_format)
        return [Question(str(line), question.tokens, passage) for line, (question, passage) in rows]

    def sentences(self, example: Question) -> Sequence[Sequence[str]]:
        return (example.passage.tokens, example.tokens)

    def inventory(self, examples: Sequence[Question], settings: QuestionAnsweringSettings) -> Inventory:
        return {}

    def model(self, settings: QuestionAnsweringSettings, inventory: Inventory, text: TextInput) -> AnswerFinder:
        return AnswerFinder(settings.model, text)

    def collate(self, examples: Sequence[Question], indexer: TextIndexer, inventory: Inventory) -> QuestionBatch:
        passage = indexer.batch([example.passage.tokens for example in examples])
        question = indexer.batch([example.tokens for example in examples])
        is_start, is_end = torch.zeros_like(passage.mask), torch.zeros_like(passage.mask)
        for row, example in enumerate(examples):
            for span in example.spans:
                is_start[row, span.start] = True
                is_end[row, span.end - 1] = True
        return QuestionBatch(passage, question, is_start, is_end)

    def score(self, examples: Sequence[Question], predictions: Sequence[TokenSpan]) -> dict[str, float]:
        answers = [example.passage.cut(*span) for example, span in zip(examples, predictions, strict=True)]
        return score_answers([example.answers for example in examples], answers)

    def show(self, example: Question, prediction: TokenSpan) -> str:
        (start, _), (_, end) = example.passage.offsets[prediction.start], example.passage.offsets[prediction.end - 1]
        text = example.passage.text
        return f"{' '.join(example.tokens)}\t{text[:start]}[{text[start:end]}]{text[end:]}"

    def record(self, example: Question, prediction: TokenSpan) -> dict[str, Any]:
        start = example.passage.offsets[prediction.start][0]
        return {"id": example.id, "answer": example.passage.cut(*prediction), "answer_start": start}
