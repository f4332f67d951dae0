"""Task models behind the service: overfitted to a few examples, then served."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from elmo.tasks.layers.char_words import CharWordsSettings
from elmo.tasks.layers.elmo_input import TextSettings, WordSettings
from elmo.tasks.layers.tag_schemes import LabelledSpan
from elmo.tasks.layers.word_vectors import embedding_table, frequent_words
from elmo.tasks.named_entities.data import TaggedSentence
from elmo.tasks.named_entities.model import EntityModelSettings
from elmo.tasks.named_entities.task import NamedEntities, NamedEntitiesSettings
from elmo.tasks.question_answering.data import Question, TokenSpan
from elmo.tasks.question_answering.model import AnswerModelSettings
from elmo.tasks.question_answering.task import QuestionAnswering, QuestionAnsweringSettings
from elmo.tasks.reading import TokenizedText
from elmo.tasks.semantic_roles.data import Proposition
from elmo.tasks.semantic_roles.model import RoleModelSettings
from elmo.tasks.semantic_roles.task import SemanticRoles, SemanticRolesSettings
from elmo.tasks.sentiment.data import RatedText
from elmo.tasks.sentiment.model import SentimentModelSettings
from elmo.tasks.sentiment.task import Sentiment, SentimentSettings
from elmo.tasks.task import Task
from elmo.tasks.trained import TrainedTask
from elmo.tasks.training import Examples, train
from elmo.tasks.training_settings import TrainingSettings
from serve.conftest import CHROMIUM, FLAGS, Server

TEXT = TextSettings(
    words=WordSettings(dim=16, min_count=1), characters=CharWordsSettings(character_dim=4, widths=(3,), num_filters=8)
)
NAMES = [
    TaggedSentence(("Ann", "saw", "Rome"), (LabelledSpan("PER", 0, 1), LabelledSpan("LOC", 2, 3))),
    TaggedSentence(("Bob", "Lee", "left"), (LabelledSpan("PER", 0, 2),)),
    TaggedSentence(("Rome", "and", "Acme"), (LabelledSpan("LOC", 0, 1), LabelledSpan("ORG", 2, 3))),
    TaggedSentence(("the", "dog", "left", "Acme"), (LabelledSpan("ORG", 3, 4),)),
]
GAVE = (LabelledSpan("ARG0", 0, 1), LabelledSpan("V", 1, 2), LabelledSpan("ARG1", 2, 3))
DEEDS = [Proposition(("Ann", "gave", "books"), 1, GAVE), Proposition(("Bob", "took", "Rome"), 1, GAVE)]
PASSAGE = TokenizedText.of("🙂🙂 Ann saw Rome 🙂 today", "ptb-like")
QUESTIONS = [
    Question("1", ("Who", "?"), PASSAGE, ("Ann",), (TokenSpan(2, 3),)),
    Question("2", ("Where", "?"), PASSAGE, ("Rome 🙂",), (TokenSpan(4, 6),)),
]
RATINGS = [
    RatedText(("good", "film"), "very positive"),
    RatedText(("bad", "film"), "very negative"),
    RatedText(("a", "film"), "neutral"),
]


def learn(task: Task[Any, Any, Any], settings: Any, examples: Sequence[Any], *, epochs: int = 60) -> TrainedTask:
    """A model that knows a few examples by heart, after enough epochs."""
    torch.manual_seed(0)
    course = TrainingSettings(learning_rate=1e-2, batch_size=4, epochs=epochs, patience=60, clip_norm=5.0)
    settings = replace(settings, text=TEXT, training=course)
    words = frequent_words(sentence for example in examples for sentence in task.sentences(example))
    table = embedding_table(words, None, TEXT.words.dim, seed=0)
    trained = TrainedTask.new(task, settings, task.inventory(examples, settings), words, table)
    train(trained, Examples(examples, examples), trained.indexer(), seed=0)
    return trained


@pytest.fixture(scope="module")
def task_server(start_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("tasks")
    tagger = NamedEntitiesSettings(model=EntityModelSettings(hidden_dim=24, num_layers=1, dropout=0.1))
    learn(NamedEntities(), tagger, NAMES).save(folder / "names")
    rater = SentimentSettings(model=SentimentModelSettings(16, 16, 16, dropout=0.1))
    learn(Sentiment(), rater, RATINGS).save(folder / "ratings")
    roles = SemanticRolesSettings(model=RoleModelSettings(predicate_dim=8, hidden_dim=24, num_layers=2))
    learn(SemanticRoles(), roles, DEEDS).save(folder / "deeds")
    reader = QuestionAnsweringSettings(model=AnswerModelSettings(hidden_dim=16, dropout=0.0))
    learn(QuestionAnswering(), reader, QUESTIONS).save(folder / "questions")
    names = ("names", "ratings", "deeds", "questions")
    server = start_server(*(part for name in names for part in ("--task", str(folder / name))))
    yield server
    assert server.stop() == 0


def test_predictions(task_server: Server) -> None:
    served = httpx.get(task_server.url + "/tasks", timeout=60).json()
    assert (served[0]["name"], served[0]["input_format"]) == ("named_entities", "one sentence a line")
    assert served[0]["example"] == "Angela Merkel was born in Hamburg and worked in Berlin."
    assert served[0]["drawing"] == {"kind": "spans", "field": "entities", "text": ["tokens"], "focus": ""}
    names = ["named_entities", "question_answering", "semantic_roles", "sentiment"]
    assert [task["name"] for task in served] == names
    body = {"inputs": "Ann saw Rome\nBob Lee left"}
    answer = httpx.post(task_server.url + "/tasks/named-entities", json=body, timeout=60).json()
    assert [record["tokens"] for record in answer] == [["Ann", "saw", "Rome"], ["Bob", "Lee", "left"]]
    assert {entity["text"]: entity["label"] for record in answer for entity in record["entities"]} == {
        "Ann": "PER", "Rome": "LOC", "Bob Lee": "PER",
    }  # fmt: skip
    rated = httpx.post(task_server.url + "/tasks/sentiment", json={"inputs": "good film"}, timeout=60).json()
    assert sum(rated[0]["probabilities"].values()) == pytest.approx(1, abs=0.01)
    empty = httpx.post(task_server.url + "/tasks/sentiment", json={"inputs": " "}, timeout=60)
    assert empty.status_code == 400
    other = httpx.post(task_server.url + "/tasks/entailment", json={"inputs": "a\tb"}, timeout=60)
    assert other.status_code == 404 and f"Served: {', '.join(names)}" in other.json()["error"]
    asked = {"inputs": f"Who?\t{PASSAGE.text}\nWhere?\t{PASSAGE.text}"}
    answer = httpx.post(task_server.url + "/tasks/question-answering", json=asked, timeout=60).json()
    assert [(record["answer"], record["answer_start"]) for record in answer] == [("Ann", 3), ("Rome 🙂", 11)]


@pytest.mark.parametrize(
    ("task", "text", "message"),
    [
        ("named-entities", "Ann " * 4097, "has 4097 tokens in one sentence, pair or document; the most is 4096"),
        ("question-answering", "Who ?\t" + "Ann " * 4095, "has 4097 tokens in one sentence"),
        # Every word is a predicate, and the sentence is read once for each.
        ("semantic-roles", "gave " * 600, "The request holds 360000 tokens; the most is 262144"),
    ],
    ids=["sentence", "pair", "predicates"],
)
def test_limits_are_enforced(task_server: Server, task: str, text: str, message: str) -> None:
    answer = httpx.post(f"{task_server.url}/tasks/{task}", json={"inputs": text.strip()}, timeout=60)
    assert answer.status_code == 422 and message in answer.json()["error"]


@pytest.mark.slow
def test_panel(task_server: Server) -> None:
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1100, "height": 800})
        page.set_default_timeout(60_000)
        page.goto(task_server.url + "/#panel=tasks")
        panel = page.locator("#tasks")
        panel.locator(".result p.text").wait_for()
        panel.locator("textarea").fill("Ann saw Rome and left Acme")
        panel.get_by_role("button", name="Analyse").click()
        panel.locator(".span", has_text="Rome").wait_for()
        assert panel.locator(".span", has_text="Ann").locator("small").inner_text() == "PER"
        if folder := os.environ.get("ELMO_SCREENSHOTS"):
            page.screenshot(path=str(Path(folder) / "tasks.png"), full_page=True)
        panel.locator("select").select_option("semantic_roles")
        panel.locator("textarea").fill("Ann gave books")
        panel.get_by_role("button", name="Analyse").click()
        panel.locator(".span", has_text="gave").wait_for()
        assert panel.locator(".span small").all_inner_texts() == ["ARG0", "V", "ARG1"]
        panel.locator("select").select_option("sentiment")
        panel.get_by_role("button", name="Analyse").click()
        panel.locator("ol.bars").wait_for()
        assert panel.locator("ol.bars li").count() == 5
        panel.locator("select").select_option("question_answering")
        panel.locator("textarea").fill(f"Where?\t{PASSAGE.text}")
        panel.get_by_role("button", name="Analyse").click()
        panel.locator("mark").wait_for()
        assert panel.locator("mark").inner_text() == "Rome 🙂"
        assert panel.locator(".result p.text").inner_text() == PASSAGE.text
        browser.close()
