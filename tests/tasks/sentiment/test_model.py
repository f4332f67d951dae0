"""The classifier learns, with and without ELMo, and its predictions can be read."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import ConfigError
from elmo.tasks.layers.elmo_input import TextSettings
from elmo.tasks.sentiment.data import LABELS, RatedText
from elmo.tasks.sentiment.model import SentimentModelSettings
from elmo.tasks.sentiment.task import Sentiment, SentimentDataSettings, SentimentSettings
from tasks.conftest import elmo_everywhere, overfit


def make_examples(count: int = 20) -> list[RatedText]:
    """Random words with random labels: they can only be memorized."""
    chance = random.Random(0)
    words = [f"w{number}" for number in range(30)]
    return [
        RatedText(tuple(chance.choice(words) for _ in range(chance.randint(1, 7))), chance.choice(LABELS[5]))
        for _ in range(count)
    ]


@pytest.fixture
def settings(tiny_text: TextSettings) -> SentimentSettings:
    return SentimentSettings(text=tiny_text, model=SentimentModelSettings(16, 16, 16, dropout=0.1))


def test_it_overfits_twenty_examples(settings: SentimentSettings) -> None:
    _, score = overfit(Sentiment(), settings, make_examples(), epochs=60, learning_rate=1e-2)
    assert score > 95


def test_it_overfits_with_elmo_at_both_places(
    settings: SentimentSettings, make_bilm: Callable[..., PretrainedBiLM]
) -> None:
    settings = replace(settings, elmo=elmo_everywhere())
    trained, score = overfit(Sentiment(), settings, make_examples(), bilm=make_bilm(), epochs=60, learning_rate=1e-2)
    assert score > 95
    assert trained.model.text.elmo is not None


def test_predictions_are_readable() -> None:
    task, example = Sentiment(), RatedText(("So", "good"), None)
    prediction = dict(zip(LABELS[5], [0.0, 0.1, 0.0, 0.2, 0.7], strict=True))
    assert task.show(example, prediction) == "very positive (0.70)\tSo good"
    assert task.record(example, {"negative": 0.25, "positive": 0.75})["label"] == "positive"


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="classes is 3; expected one of 5, 2"):
        SentimentDataSettings(classes=3)


def test_phrases_are_used_only_for_training(tmp_path: Path, settings: SentimentSettings) -> None:
    path = tmp_path / "trees.txt"
    path.write_text("(3 (2 It) (4 (2 's) (4 lovely)))\n" * 30, encoding="utf-8")
    task = Sentiment()
    assert len(task.read(path, settings, "train")) == 150
    assert len(task.read(path, settings, "evaluate")) == 30
    some = replace(settings, data=SentimentDataSettings(phrases=0.5, min_phrase_tokens=2))
    assert 30 < len(task.read(path, some, "train")) < 60
    once = replace(settings, data=SentimentDataSettings(distinct=True))
    assert len(task.read(path, once, "train")) == 34, "every sentence, and its four phrases once"
