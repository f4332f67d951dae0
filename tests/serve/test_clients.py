"""The real clients against the real server, beside the library's own numbers."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
from huggingface_hub import constants
from starlette.testclient import TestClient

from elmo.embedding.embedder import Embedder
from elmo.serve.app import create_app
from elmo.serve.engine import open_models
from elmo.serve.settings import ServeSettings
from elmo.text.tokenizer import words
from serve.conftest import Server

TEXTS = ["We sat on the bank of the river.", "The bank was closed.", "Größe 東京 🙂"]


@pytest.fixture(scope="module")
def expected(model_folder: Path) -> np.ndarray:
    vectors = np.stack(Embedder(model_folder, layers="average", pooling="mean").embed(TEXTS))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("encoding", [None, "float", "base64"])
def test_openai(server: Server, expected: np.ndarray, encoding: str | None) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
    options = {} if encoding is None else {"encoding_format": encoding}
    answer = client.embeddings.create(input=TEXTS, model="small", **options)
    rows = [item.embedding for item in answer.data]
    if encoding == "base64":
        import base64

        rows = [np.frombuffer(base64.b64decode(row), dtype="<f4") for row in rows]
    np.testing.assert_allclose(np.array(rows), expected, atol=1e-6)
    assert [item.index for item in answer.data] == [0, 1, 2]
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == sum(map(len, map(words, TEXTS)))


def test_openai_reports_our_message(server: Server) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    with pytest.raises(openai.NotFoundError, match="this server has 'small'"):
        client.embeddings.create(input="a", model="text-embedding-3-small")
    with pytest.raises(openai.BadRequestError, match="is empty"):
        client.embeddings.create(input="  ", model="small")
    with pytest.raises(openai.UnprocessableEntityError, match="token ids are not accepted"):
        client.embeddings.create(input=[1, 2, 3], model="small")
    with pytest.raises(openai.UnprocessableEntityError, match="check_embedding_ctx_length=False"):
        client.embeddings.create(input=[[1, 2, 3]], model="small")
    assert client.models.list().data[0].id == "small"
    assert client.models.retrieve("small").id == client.models.retrieve("elmo").id == "small"
    with pytest.raises(openai.NotFoundError, match="this server has 'small'") as caught:
        client.models.retrieve("somebody/else")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


def test_a_model_is_called_as_it_was_given(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As the Hub's client leaves a download behind.
    repository = tmp_path / "models--somebody--elmo-small"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text("0" * 40)
    shutil.copytree(model_folder, repository / "snapshots" / ("0" * 40))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    settings = ServeSettings(model="somebody/elmo-small")
    with TestClient(create_app(settings), "http://localhost") as client:
        while client.get("/health").status_code == 503:
            time.sleep(0.05)
        assert client.get("/info").json()["model_id"] == "somebody/elmo-small"
        for name, status in (
            ("somebody/elmo-small", 200),
            ("elmo-small", 200),
            ("elmo", 200),
            ("else/elmo-small", 404),
        ):
            answer = client.post("/v1/embeddings", json={"input": "a", "model": name})
            assert answer.status_code == status, name
    monkeypatch.chdir(model_folder)
    for path in (".", "../small", "../small/", str(model_folder)):
        assert open_models(ServeSettings(model=path)).name == "small"


def test_hugging_face(server: Server, expected: np.ndarray) -> None:
    from huggingface_hub import InferenceClient

    client = InferenceClient(model=server.url)
    np.testing.assert_allclose(client.feature_extraction(TEXTS[0]), expected[:1], atol=1e-6)
    np.testing.assert_allclose(client.feature_extraction(TEXTS[1], truncate=True), expected[1:2], atol=1e-6)
    similar = client.sentence_similarity(TEXTS[0], other_sentences=TEXTS[1:])
    np.testing.assert_allclose(similar, expected[1:] @ expected[0], atol=1e-5)


def test_tei_routes(server: Server, expected: np.ndarray, model_folder: Path) -> None:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        for route in ("/embed", "/"):
            np.testing.assert_allclose(client.post(route, json={"inputs": TEXTS}).json(), expected, atol=1e-6)
        raw = client.post("/embed", json={"inputs": TEXTS, "normalize": False}).json()
        assert abs(np.linalg.norm(raw[0]) - 1) > 1e-3
        short = np.array(client.post("/embed", json={"inputs": TEXTS, "dimensions": 4}).json())
        assert short.shape == (3, 4)
        np.testing.assert_allclose(np.linalg.norm(short, axis=1), 1, atol=1e-6)
        body = {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}}
        np.testing.assert_allclose(client.post("/similarity", json=body).json(), expected[1:] @ expected[0], atol=1e-5)
        tokens = client.post("/embed_all", json={"inputs": TEXTS}).json()
    library = Embedder(model_folder, layers="average").embed(TEXTS)
    for answer, vectors in zip(tokens, library, strict=True):
        np.testing.assert_allclose(answer, vectors, atol=1e-6)


@pytest.mark.parametrize("layers", ["all", 0, -1, "top", "average", "concat", [0.2, 0.3, 0.5], [1, 0, 0]])
def test_layers(server: Server, model_folder: Path, layers: object) -> None:
    answer = httpx.post(server.url + "/embed_layers", json={"inputs": TEXTS, "layers": layers}, timeout=60).json()
    library = Embedder(model_folder, layers=layers).embed(TEXTS)  # type: ignore[arg-type]
    for got, vectors in zip(answer, library, strict=True):
        np.testing.assert_allclose(got, vectors, atol=1e-6)


def test_large_answers_come_in_pieces(server: Server, model_folder: Path) -> None:
    text = " ".join(["word"] * 4000)
    body = {"inputs": [text, "short", text], "layers": "all"}
    response = httpx.post(server.url + "/embed_layers", json=body, timeout=60)
    assert "content-length" not in response.headers
    answer = response.json()
    library = Embedder(model_folder).embed([text, "short"])
    np.testing.assert_allclose(answer[1], library[1], atol=1e-6)
    np.testing.assert_allclose(answer[2], library[0], atol=1e-5)


def test_tokenize(server: Server) -> None:
    text = "Don’t stop."
    tokens = httpx.post(server.url + "/tokenize", json={"inputs": text}, timeout=60).json()[0]
    assert [token["text"] for token in tokens] == ["<S>", "Do", "n't", "stop", ".", "</S>"]
    assert [token["special"] for token in tokens] == [True, False, False, False, False, True]
    assert [text[token["start"] : token["stop"]] for token in tokens[1:-1]] == ["Do", "n’t", "stop", "."]
    plain = httpx.post(server.url + "/tokenize", json={"inputs": text, "add_special_tokens": False}, timeout=60).json()[
        0
    ]
    assert plain == tokens[1:-1]


def test_truncation(start_server: object, server: Server) -> None:
    long = " ".join(f"w{number}" for number in range(4100))
    refused = httpx.post(server.url + "/embed", json={"inputs": long}, timeout=60)
    assert refused.status_code == 422 and "4100 tokens; the most is 4096" in refused.json()["error"]
    right = httpx.post(server.url + "/embed", json={"inputs": long, "truncate": True}, timeout=60).json()
    same = httpx.post(server.url + "/embed", json={"inputs": " ".join(long.split()[:4096])}, timeout=60).json()
    np.testing.assert_allclose(right, same, atol=1e-6)
    left = {"inputs": long, "truncate": True, "truncation_direction": "Left"}
    last = httpx.post(server.url + "/embed", json={"inputs": " ".join(long.split()[-4096:])}, timeout=60).json()
    np.testing.assert_allclose(httpx.post(server.url + "/embed", json=left, timeout=60).json(), last, atol=1e-6)
