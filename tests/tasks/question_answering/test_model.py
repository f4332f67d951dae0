"""The reader learns, with and without ELMo; its spans obey the limit."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import InputError
from elmo.tasks.layers.elmo_input import TextSettings
from elmo.tasks.question_answering.data import Question, TokenSpan
from elmo.tasks.question_answering.model import AnswerModelSettings, best_spans
from elmo.tasks.question_answering.task import QuestionAnswering, QuestionAnsweringSettings
from elmo.tasks.reading import TokenizedText
from tasks.conftest import elmo_everywhere, fresh, overfit


def make_examples(count: int = 20) -> list[Question]:
    """Random passages; the question names the word before the answer."""
    chance = random.Random(0)
    examples = []
    for number in range(count):
        words = chance.sample([f"w{index}" for index in range(40)], 8)
        start = chance.randint(1, 5)
        end = start + chance.randint(1, 2)
        passage = TokenizedText.of(" ".join(words), "whitespace")
        answer = " ".join(words[start:end])
        examples.append(
            Question(str(number), ("after", words[start - 1], "?"), passage, (answer,), (TokenSpan(start, end),))
        )
    return examples


@pytest.fixture
def small(tiny_text: TextSettings) -> QuestionAnsweringSettings:
    return QuestionAnsweringSettings(text=tiny_text, model=AnswerModelSettings(hidden_dim=16, dropout=0.0))


def test_it_overfits_twenty_examples(small: QuestionAnsweringSettings) -> None:
    _, score = overfit(QuestionAnswering(), small, make_examples(), epochs=60, learning_rate=1e-2)
    assert score > 95


def test_it_overfits_with_elmo_at_both_places(
    small: QuestionAnsweringSettings, make_bilm: Callable[..., PretrainedBiLM]
) -> None:
    small = replace(small, elmo=elmo_everywhere())
    _, score = overfit(QuestionAnswering(), small, make_examples(), bilm=make_bilm(), epochs=60, learning_rate=1e-2)
    assert score > 95


def test_padding_changes_no_answer(small: QuestionAnsweringSettings) -> None:
    task = QuestionAnswering()
    short = make_examples(1)[0]
    long = replace(short, passage=TokenizedText.of(" ".join(["x"] * 30), "whitespace"), tokens=("a",) * 9)
    trained = fresh(task, small, [short, long])
    indexer = trained.indexer()
    trained.model.eval()
    together = trained.model.scores(task.collate([short, long], indexer, {}))[0][0, :8]  # type: ignore[operator]
    alone = trained.model.scores(task.collate([short], indexer, {}))[0][0]  # type: ignore[operator]
    torch.testing.assert_close(together, alone)


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 1000))
@settings(deadline=None)
def test_the_best_span_is_the_best_of_all_allowed_ones(length: int, max_tokens: int, seed: int) -> None:
    torch.manual_seed(seed)
    starts, ends = torch.randn(2, length), torch.randn(2, length)
    for row, span in enumerate(best_spans(starts, ends, max_tokens=max_tokens)):
        options = {
            TokenSpan(i, j + 1): float(starts[row, i] + ends[row, j])
            for i in range(length)
            for j in range(i, min(length, i + max_tokens))
        }
        assert options[span] == pytest.approx(max(options.values()))


def test_all_reference_answers_are_correct(small: QuestionAnsweringSettings) -> None:
    question = make_examples(1)[0]
    both = replace(question, spans=(TokenSpan(1, 2), TokenSpan(4, 6)))
    batch = QuestionAnswering().collate([both], fresh(QuestionAnswering(), small, [both]).indexer(), {})
    assert batch.is_start[0].nonzero().flatten().tolist() == [1, 4]
    assert batch.is_end[0].nonzero().flatten().tolist() == [1, 5]


def test_questions_with_the_same_id_are_scored_one_by_one() -> None:
    right, wrong = (replace(question, id="q") for question in make_examples(2))
    scores = QuestionAnswering().score([right, wrong], [right.spans[0], TokenSpan(7, 8)])
    assert scores == {"f1": 50, "exact_match": 50}


def test_predictions_are_readable() -> None:
    task = QuestionAnswering()
    (question,) = task.parse("Who?\tIt was “Ann”, not Bob.", QuestionAnsweringSettings(), {})
    assert task.show(question, TokenSpan(3, 4)) == "Who ?\tIt was “[Ann]”, not Bob."
    assert task.record(question, TokenSpan(2, 5)) == {"id": "1", "answer": "“Ann”", "answer_start": 7}
    with pytest.raises(InputError, match="line 1: found 'Who'; expected a question, a tab"):
        task.parse("Who", QuestionAnsweringSettings(), {})
