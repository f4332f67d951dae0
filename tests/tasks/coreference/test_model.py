"""The ranker learns, with and without ELMo; links become chains; documents are split between sentences."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import ConfigError
from elmo.tasks.coreference.data import Document, Mention
from elmo.tasks.coreference.model import CoreferenceModelSettings, chains_of_links
from elmo.tasks.coreference.task import Coreference, CoreferenceSettings, cut
from elmo.tasks.layers.elmo_input import TextSettings
from elmo.tasks.training_settings import TrainingSettings
from tasks.conftest import elmo_everywhere, fresh, overfit

PEOPLE = {"Ann": "she", "Bob": "he"}


def make_examples(count: int = 20) -> list[Document]:
    chance = random.Random(0)
    documents = []
    for number in range(count):
        name, other = chance.sample(list(PEOPLE), 2)
        first = (name, "met", "the", chance.choice(["tall", "small"]), other, ".")
        second = (PEOPLE[name].capitalize(), "saw", "him" if other == "Bob" else "her", "again", ".")
        chains = ((Mention(0, 1), Mention(6, 7)), (Mention(2, 5), Mention(8, 9)))
        speakers = (("Eve",) * 6, ("Dan",) * 5)
        documents.append(Document(f"GUM_news_{number}", 0, (first, second), speakers, chains, "news"))
    return documents


@pytest.fixture
def settings(tiny_text: TextSettings) -> CoreferenceSettings:
    model = CoreferenceModelSettings(
        hidden_dim=16,
        max_span_width=4,
        spans_per_token=1.0,
        mention_weight=0.5,
        scorer_dim=24,
        feature_dim=4,
        pair_dim=16,
        lexical_dropout=0.1,
        dropout=0.0,
    )
    return CoreferenceSettings(text=tiny_text, model=model)


def test_it_overfits_twenty_documents(settings: CoreferenceSettings) -> None:
    _, score = overfit(Coreference(), settings, make_examples(), epochs=8, learning_rate=5e-3, batch_size=1)
    assert score > 95


def test_it_overfits_with_elmo_at_both_places(
    settings: CoreferenceSettings, make_bilm: Callable[..., PretrainedBiLM]
) -> None:
    settings = replace(settings, elmo=elmo_everywhere(), model=replace(settings.model, pair_dim=0))
    bilm = make_bilm()
    _, score = overfit(Coreference(), settings, make_examples(), bilm=bilm, epochs=8, learning_rate=5e-3, batch_size=1)
    assert score > 95


def test_a_document_of_one_token(settings: CoreferenceSettings) -> None:
    documents = [Document("x", 0, (("Hi",),)), *make_examples(1)]
    assert fresh(Coreference(), settings, documents).predict(documents[:1]) == [()]


def test_links_become_chains() -> None:
    mentions = [Mention(index, index + 1) for index in range(6)]
    chains = chains_of_links(mentions, [None, 0, None, 1, 2, None])
    assert chains == ((mentions[0], mentions[1], mentions[3]), (mentions[2], mentions[4]))


def test_a_long_document_is_split_between_sentences() -> None:
    document = Document(
        "x", 0, (("a",), ("b", "c"), ("d",)), (("",), ("", ""), ("",)), ((Mention(0, 1), Mention(1, 2), Mention(3, 4)),)
    )
    first, second = cut(document, 2)
    assert first.sentences == (("a",), ("b", "c")) and second.sentences == (("d",),)
    assert first.chains == ((Mention(0, 1), Mention(1, 2)),) and second.chains == ()


def test_predictions_are_readable() -> None:
    task = Coreference()
    (document,) = task.parse("Ann met Bob.\nShe left.\n", CoreferenceSettings(), {})
    chains = ((Mention(0, 1), Mention(4, 5)), (Mention(0, 3), Mention(2, 3)))
    assert task.show(document, chains) == "[2 [1 Ann] met [2 Bob]] .\n[1 She] left .\n"
    assert task.record(document, chains)["chains"][0][1] == {"start": 4, "end": 5, "text": "She"}


def test_batches_of_several_documents_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected 1"):
        CoreferenceSettings(training=TrainingSettings(batch_size=2))
