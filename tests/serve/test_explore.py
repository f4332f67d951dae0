"""The routes of the page, beside the library."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import httpx
import numpy as np
import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM, load
from elmo.embedding.embedder import EmbeddedSentence, Embedder
from elmo.errors import InputError
from elmo.explore.neighbour_index import build_index
from elmo.explore.occurrences import Occurrence
from elmo.explore.similarity import find_in_text, map_word
from elmo.pretrain.scoring import Scorer
from elmo.serve.app import Service
from elmo.serve.engine import Engine, open_models
from elmo.serve.errors import ServiceError
from elmo.serve.explorer import Explorer, typical_words
from elmo.serve.metrics import Metrics
from elmo.serve.settings import ServeSettings
from elmo.serve.small_index import SmallIndex
from elmo.tasks.named_entities.model import EntityModelSettings
from elmo.tasks.named_entities.task import NamedEntities, NamedEntitiesSettings
from elmo.text.tokenizer import words
from serve.conftest import Server, wait_until
from serve.test_tasks import NAMES, learn

TEXTS = ["We sat on the bank.", "The bank was closed."]


@pytest.fixture
def make_explorer(model_folder: Path) -> Iterator[Callable[..., Explorer]]:
    """Explorers in this process, for settings that are not worth a server each."""
    engines: list[Engine] = []

    def make(**others: object) -> Explorer:
        settings = ServeSettings(model=str(model_folder), **others)  # type: ignore[arg-type]
        engines.append(Engine(open_models(settings), settings, Metrics()))
        return Explorer(engines[-1])

    yield make
    assert all(engine.stop() for engine in engines)


def test_senses_give_the_cosine_of_any_mix(server: Server, model_folder: Path) -> None:
    answer = httpx.post(server.url + "/senses", json={"inputs": TEXTS}, timeout=30).json()
    num_tokens = sum(len(text) for text in answer["texts"])
    shape = (num_tokens, answer["layers"]) * 2
    products = np.frombuffer(base64.b64decode(answer["products"]), dtype="<f4").reshape(shape)
    weights = np.array([0.2, 0.5, 0.3], dtype=np.float32)
    mixed = np.einsum("aibj,i,j->ab", products, weights, weights)
    cosines = mixed / np.sqrt(np.outer(mixed.diagonal(), mixed.diagonal()))
    vectors = np.concatenate(Embedder(model_folder, layers=[0.2, 0.5, 0.3]).embed(TEXTS))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(cosines, unit @ unit.T, atol=1e-4)
    assert [token["text"] for token in answer["texts"][0]] == words(TEXTS[0])


def test_neighbours_of_a_sentence_in_the_corpus_begin_with_itself(server: Server) -> None:
    text = "Tall grass grew along the muddy bank of the stream ."
    body = {"inputs": text, "position": 6, "number": 5}
    answer = httpx.post(server.url + "/neighbours", json=body, timeout=120).json()
    assert len(answer["neighbours"]) == 5
    first = answer["neighbours"][0]
    assert first["word"] == "bank" and first["tokens"] == text.split() and first["similarity"] > 0.99
    assert len(answer["static"]) == 5 and all(each["word"] != "bank" for each in answer["static"])


@pytest.mark.parametrize("projection_dim", [8, 6], ids=["of the same width", "of another width"])
def test_an_index_of_another_model_is_refused_every_time(
    make_explorer: Callable[..., Explorer],
    make_bilm: Callable[..., PretrainedBiLM],
    tmp_path: Path,
    projection_dim: int,
) -> None:
    other = Embedder(make_bilm(seed=9, projection_dim=projection_dim))
    build_index(other, map(str.split, TEXTS), folder=tmp_path / "ix", model="other")
    explorer = make_explorer(index=tmp_path / "ix")
    for _ in range(2):
        with pytest.raises(InputError, match="made with another model"):
            explorer.neighbours("We sat on the bank", 4, number=3)


def test_a_corpus_without_a_frequent_word_suggests_none(
    make_explorer: Callable[..., Explorer], model_folder: Path, tmp_path: Path
) -> None:
    build_index(Embedder(model_folder), map(str.split, TEXTS), folder=tmp_path / "ix", model="small")
    with pytest.raises(ServiceError, match=r"holds that word 1 times; .* Try another index"):
        make_explorer(index=tmp_path / "ix").map("sat", None, clusters=1, limit=10)


def finish(index: SmallIndex) -> None:
    """Wait until the index is complete or has failed."""
    index.start()
    index._thread.join()


def unknown_user(number: int) -> NoReturn:
    raise KeyError(number)


@pytest.mark.parametrize("has_home", [True, False])
def test_the_small_index_needs_no_folder_that_lasts(
    make_explorer: Callable[..., Explorer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_home: bool
) -> None:
    if has_home:
        monkeypatch.setenv("ELMO_HOME", "/proc/nope")
    else:  # as in a container that runs under a number of its own
        for name in ("ELMO_HOME", "XDG_CACHE_HOME", "HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr("pwd.getpwuid", unknown_user)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    explorer = make_explorer()
    finish(explorer.small_index)
    for _ in range(2):  # built once
        assert len(explorer.map("bank", None, clusters=2, limit=20)["occurrences"]) >= 8
        assert len(list(tmp_path.glob("elmo-*/index/index.json"))) == 1
    explorer.stop()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def allowed_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[threading.Semaphore]:
    """How many more parts of the corpus the thread of the small index may embed."""
    monkeypatch.setenv("ELMO_HOME", str(tmp_path))
    parts, stream = threading.Semaphore(0), Embedder.stream

    def counted(self: Embedder, sentences: Iterable[list[str]], **options: Any) -> Iterator[EmbeddedSentence]:
        if threading.current_thread().name == "elmo-index":
            parts.acquire()
        yield from stream(self, sentences, **options)

    monkeypatch.setattr(Embedder, "stream", counted)
    yield parts
    parts.release(1000)


def test_requests_do_not_wait_for_the_small_index(
    make_explorer: Callable[..., Explorer], allowed_parts: threading.Semaphore
) -> None:
    explorer = make_explorer()
    explorer.start()
    wait_until(lambda: explorer.small_index.progress is not None)
    with pytest.raises(ServiceError, match=r"is being built: 0 of 320 sentences") as refused:
        explorer.neighbours("We sat on the bank", 4, number=3)
    assert refused.value.status == 503
    assert explorer.senses(TEXTS)["layers"] == 3
    assert len(explorer.map("bank", None, clusters=2, limit=20)["occurrences"]) >= 8  # needs no index
    allowed_parts.release(11)  # the first 320 sentences, and 32 of all
    wait_until(lambda: explorer.small_index.progress == "32 of 2,866 sentences")
    first = explorer.neighbours("We sat on the bank", 4, number=3)
    assert len(first["neighbours"]) == 3
    assert first["index"]["num_sentences"] == 320 and first["building"] == "32 of 2,866 sentences"
    allowed_parts.release(1000)
    finish(explorer.small_index)
    complete = explorer.neighbours("We sat on the bank", 4, number=3)
    assert complete["index"]["num_sentences"] == 2866 and complete["building"] is None
    explorer.stop()
    again = make_explorer()
    finish(again.small_index)
    assert again.small_index._done == 0  # cached, not built again
    assert again.index().facts == explorer.index().facts
    again.stop()


def test_the_small_index_is_built_while_the_service_is_idle_or_when_it_is_asked_for(
    make_explorer: Callable[..., Explorer], allowed_parts: threading.Semaphore
) -> None:
    explorer = make_explorer()
    index, batcher = explorer.small_index, explorer.engine.batcher
    may_end, running = threading.Event(), threading.Event()

    def occupy() -> None:
        running.set()
        may_end.wait(60)

    async def ask() -> None:
        working = asyncio.ensure_future(batcher.call(occupy))
        await asyncio.to_thread(running.wait, 60)
        index.start()
        allowed_parts.release(1)
        await asyncio.to_thread(wait_until, lambda: index.progress is not None)
        await asyncio.sleep(0.5)
        assert index.progress == "0 of 320 sentences"
        with pytest.raises(ServiceError, match="is being built"):
            index.folder()
        await asyncio.to_thread(wait_until, lambda: index.progress == "32 of 320 sentences")
        may_end.set()
        await working

    try:
        asyncio.run(ask())
    finally:
        may_end.set()
    allowed_parts.release(1000)
    explorer.stop()


def test_the_small_index_gives_way_to_the_requests_of_both_models(
    model_folder: Path, second_folder: Path, allowed_parts: threading.Semaphore
) -> None:
    service = Service(ServeSettings(model=str(model_folder), compare=str(second_folder)), Metrics())
    service.start()
    may_end, running = threading.Event(), threading.Event()

    def occupy() -> None:
        running.set()
        may_end.wait(60)

    async def ask(busy: Explorer) -> None:
        working = asyncio.ensure_future(busy.engine.batcher.call(occupy))
        assert await asyncio.to_thread(running.wait, 60)
        for explorer in service.explorers.values():
            assert explorer.small_index._gives_way()
        may_end.set()
        await working

    try:
        for busy in service.explorers.values():
            asyncio.run(ask(busy))
            may_end.clear()
            running.clear()
    finally:
        may_end.set()
        allowed_parts.release(1000)
        service.stop()
    assert service.is_idle


def test_a_stop_ends_the_building_and_leaves_nothing_half_written(
    make_explorer: Callable[..., Explorer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_HOME", str(tmp_path))
    explorer = make_explorer()
    reading = explorer.small_index.stream

    def stopped(sentences: Iterable[list[str]], /) -> Iterator[EmbeddedSentence]:
        yield from islice(reading(sentences), 10)
        explorer.small_index._stopping.set()
        yield from reading(sentences)

    monkeypatch.setattr(explorer.small_index, "stream", stopped)
    explorer.start()
    explorer.stop()
    assert not list(tmp_path.rglob("index.json")) and not list(tmp_path.rglob("*.npy"))


def test_map_has_a_point_for_each_occurrence(server: Server) -> None:
    answer = httpx.post(server.url + "/map", json={"word": "Bank", "clusters": 2}, timeout=120).json()
    count = len(answer["occurrences"])
    assert count >= 8 and {each["sense"] for each in answer["occurrences"]} == {"cluster 1", "cluster 2"}
    for layer in answer["layers"]:
        assert np.array(layer["points"]).shape == (count, 2)
    for each in answer["occurrences"]:
        assert each["tokens"][each["position"]].lower() == "bank"


def test_own_sentences_beside_the_corpus(server: Server) -> None:
    body = {"word": "bank", "own": ["My bank lost my money.", "No such word.", "A bank of the Nile"]}
    answer = httpx.post(server.url + "/map", json=body, timeout=60).json()
    shown = [answer["occurrences"][place]["tokens"][:2] for place in answer["own"]]
    assert shown == [["My", "bank"], ["A", "bank"]]
    assert sum(cluster["count"] for cluster in answer["clusters"]) == len(answer["occurrences"])
    without = httpx.post(server.url + "/map", json={"word": "bank"}, timeout=60).json()
    assert without["own"] == [] and len(without["occurrences"]) == len(answer["occurrences"]) - 2
    refused = httpx.post(server.url + "/map", json={**body, "own": ["No such word."]}, timeout=60)
    assert refused.status_code == 422 and "None of the sentences in `own` holds the word" in refused.json()["error"]
    for wrong, message in (([" "], "`own` is empty"), (["bank", "a\0"], "Text 1 of `own` holds a NUL character")):
        refused = httpx.post(server.url + "/map", json={**body, "own": wrong}, timeout=60)
        assert refused.json()["error"].startswith(message)
    many = {"word": "bank", "own": ["bank bank", "bank bank"], "limit": 3}
    refused = httpx.post(server.url + "/map", json=many, timeout=60)
    assert refused.status_code == 422 and "hold the word 4 times; the most is 3" in refused.json()["error"]


def test_a_rare_word_suggests_other_words(server: Server) -> None:
    answer = httpx.post(server.url + "/map", json={"word": "lights"}, timeout=60).json()
    suggested = re.findall(r"\w+", answer["error"].partition("Try ")[2])
    assert suggested[0] == "light" and len(suggested) == 5
    for word in suggested:
        assert httpx.post(server.url + "/map", json={"word": word}, timeout=60).status_code == 200


def test_clusters_are_named_by_their_distinctive_words() -> None:
    river, money = (
        [Occurrence("bank", name, tuple(text.split()), text.split().index("bank")) for text in texts]
        for name, texts in (
            ("one", ["the bank of the muddy river", "a bank near the river .", "the muddy bank today"]),
            ("two", ["her bank lends money today", "the money in his bank", "a bank with money ."]),
        )
    )
    assert typical_words("one", river + money)[:2] == ["muddy", "river"]
    assert typical_words("two", river + money)[0] == "money"


def test_map_of_own_texts_is_the_librarys(server: Server, model_folder: Path) -> None:
    texts = [*TEXTS, "From bank to bank, the Bank.", "A bank is near."]
    answer = httpx.post(server.url + "/map", json={"word": "bank", "inputs": texts}, timeout=60).json()
    found = find_in_text("bank", map(words, texts), limit=200)
    expected = map_word(Embedder(model_folder), found)
    assert answer["occurrences"] == json.loads(json.dumps([vars(each) for each in expected.occurrences]))
    assert [each["position"] for each in answer["occurrences"]] == [4, 1, 1, 3, 6, 1]
    for got, layer in zip(answer["layers"], expected.layers, strict=True):
        np.testing.assert_allclose(got["points"], layer.points, atol=1e-4)


def test_a_text_that_holds_the_word_often_is_embedded_once(
    make_explorer: Callable[..., Explorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[list[str]] = []
    stream = Embedder.stream

    def watched(self: Embedder, sentences: Iterable[list[str]], **options: Any) -> Iterator[EmbeddedSentence]:
        for sentence in stream(self, sentences, **options):
            embedded.append(sentence.tokens)
            yield sentence

    monkeypatch.setattr(Embedder, "stream", watched)
    answer = make_explorer().map("bank", ["bank " * 50, "a bank", "a bank a"], clusters=2, limit=500)
    assert len(answer["occurrences"]) == 52
    assert [len(tokens) for tokens in embedded] == [50, 2, 3]


def test_fill_is_the_models_own_expectation_and_does_not_see_the_word(server: Server, model_folder: Path) -> None:
    body = {"inputs": "we sat on the bank", "position": 4, "number": 3}
    answer = httpx.post(server.url + "/fill", json=body, timeout=60).json()
    other = httpx.post(server.url + "/fill", json={**body, "inputs": "we sat on the river"}, timeout=60).json()
    for name in ("forward", "backward", "joint"):
        assert len(answer[name]) == 3
        assert [each["percent"] for each in answer[name]] == pytest.approx([each["percent"] for each in other[name]])
    scorer = Scorer(load(model_folder))
    fill = scorer.fill(body["inputs"].split(), 4, count=3)
    for name, words_by_library in (("forward", fill.forward), ("backward", fill.backward), ("joint", fill.both)):
        assert [each["word"] for each in answer[name]] == [candidate.word for candidate in words_by_library]
    assert answer["forward"][0]["percent"] == pytest.approx(100 * fill.forward[0].forward)
    assert fill.actual is not None
    assert answer["actual"]["joint"] == pytest.approx(100 * fill.actual.probability)


def ask_and_disconnect(explorer: Explorer, ask: Callable[[], Any]) -> list[Any]:
    """The status or the answer for a client that disconnects while its call begins, and for the next one."""
    running, may_go_on, outcome = threading.Event(), threading.Event(), []

    def work() -> None:
        running.set()
        may_go_on.wait(30)
        try:
            outcome.append(ask())
        except ServiceError as error:
            outcome.append(error.status)

    async def ask_and_go() -> None:
        asking = asyncio.ensure_future(explorer.engine.batcher.call(work))
        assert await asyncio.to_thread(running.wait, 30)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        may_go_on.set()
        await explorer.engine.batcher.call(lambda: outcome.append(ask()))

    asyncio.run(ask_and_go())
    return outcome


def test_a_map_stops_when_its_client_disconnects(make_explorer: Callable[..., Explorer]) -> None:
    explorer = make_explorer()
    outcome = ask_and_disconnect(explorer, lambda: explorer.map("bank", TEXTS * 2, clusters=2, limit=10))
    assert outcome[0] == 499 and outcome[1]["word"] == "bank"


def test_a_prediction_stops_when_its_client_disconnects(make_explorer: Callable[..., Explorer], tmp_path: Path) -> None:
    tagger = NamedEntitiesSettings(model=EntityModelSettings(hidden_dim=8, num_layers=1, dropout=0.1))
    learn(NamedEntities(), tagger, NAMES, epochs=1).save(tmp_path / "names")
    explorer = make_explorer(tasks=(str(tmp_path / "names"),))
    outcome = ask_and_disconnect(explorer, lambda: explorer.predict("named-entities", "Ann saw Rome"))
    assert outcome[0] == 499 and outcome[1][0]["tokens"] == ["Ann", "saw", "Rome"]
