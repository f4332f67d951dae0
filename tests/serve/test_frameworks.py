"""Frameworks that call an OpenAI-compatible server, with their own defaults, at 100 and 1,000 documents."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo.embedding.embedder import Embedder
from serve.conftest import Server

os.environ |= {"ANONYMIZED_TELEMETRY": "False", "HAYSTACK_TELEMETRY_ENABLED": "False"}  # before their imports

WORDS = ["the", "bank", "of", "the", "river", "was", "near", "a", "bank", "in", "town", "we", "sat", "on", "it"]
DOCUMENTS = [" ".join(WORDS[(number + step) % len(WORDS)] for step in range(3 + number % 7)) for number in range(1000)]


@pytest.fixture(scope="module")
def expected(model_folder: Path) -> np.ndarray:
    vectors = np.stack(Embedder(model_folder, layers="average", pooling="mean").embed(DOCUMENTS))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(params=[100, 1000])
def number(request: pytest.FixtureRequest) -> int:
    return request.param


def check(vectors: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(np.array(vectors, dtype=np.float32), expected[: len(vectors)], atol=1e-5)


def test_openai(server: Server, expected: np.ndarray, number: int) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
    answer = client.embeddings.create(input=DOCUMENTS[:number], model="small")
    assert [item.index for item in answer.data] == list(range(number))
    check([item.embedding for item in answer.data], expected)


def test_langchain(server: Server, expected: np.ndarray, number: int) -> None:
    langchain = pytest.importorskip("langchain_openai")
    options = {"base_url": server.url + "/v1", "api_key": "none", "model": "small"}
    embeddings = langchain.OpenAIEmbeddings(check_embedding_ctx_length=False, **options)
    check(embeddings.embed_documents(DOCUMENTS[:number]), expected)
    check([embeddings.embed_query(DOCUMENTS[0])], expected)


def test_langchains_token_ids_are_answered_with_the_setting_to_change(server: Server) -> None:
    # Its default tokenizes texts with OpenAI's vocabulary, which it downloads; this is the request that it then sends.
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    with pytest.raises(openai.UnprocessableEntityError, match="check_embedding_ctx_length=False") as caught:
        client.embeddings.create(input=[[791, 6201, 13]], model="small")
    assert caught.value.param == "input"


def test_qdrant(server: Server, expected: np.ndarray, number: int) -> None:
    openai, qdrant = pytest.importorskip("openai"), pytest.importorskip("qdrant_client")
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
    answer = client.embeddings.create(input=DOCUMENTS[:number], model="small")
    store = qdrant.QdrantClient(":memory:")
    size = qdrant.models.VectorParams(size=expected.shape[1], distance=qdrant.models.Distance.COSINE)
    store.create_collection("documents", vectors_config=size)
    points = [qdrant.models.PointStruct(id=item.index, vector=item.embedding) for item in answer.data]
    store.upsert("documents", points)
    (best,) = store.query_points("documents", query=expected[7].tolist(), limit=1).points
    assert DOCUMENTS[int(best.id)] == DOCUMENTS[7] and best.score > 0.9999


@pytest.mark.slow
def test_chromadb(server: Server, expected: np.ndarray, number: int) -> None:
    chromadb = pytest.importorskip("chromadb")
    from chromadb.utils.embedding_functions import OpenAIEmbeddingFunction

    function = OpenAIEmbeddingFunction(api_base=server.url + "/v1", api_key="none", model_name="small")
    collection = chromadb.EphemeralClient().get_or_create_collection(f"documents-{number}", embedding_function=function)
    collection.add(ids=[str(each) for each in range(number)], documents=DOCUMENTS[:number])
    check(collection.get(include=["embeddings"])["embeddings"], expected)
    found = collection.query(query_texts=[DOCUMENTS[7]], n_results=1)
    assert found["documents"][0] == [DOCUMENTS[7]]


@pytest.mark.slow
def test_llama_index(server: Server, expected: np.ndarray, number: int) -> None:
    llama = pytest.importorskip("llama_index.embeddings.openai")
    embedding = llama.OpenAIEmbedding(
        api_base=server.url + "/v1", api_key="none", model_name="small", embed_batch_size=number
    )
    check(embedding.get_text_embedding_batch(DOCUMENTS[:number]), expected)


@pytest.mark.slow
def test_haystack(server: Server, expected: np.ndarray, number: int) -> None:
    haystack = pytest.importorskip("haystack")
    from haystack.components.embedders import OpenAIDocumentEmbedder
    from haystack.utils import Secret

    embedder = OpenAIDocumentEmbedder(
        api_key=Secret.from_token("none"),
        api_base_url=server.url + "/v1",
        model="small",
        batch_size=number,
        progress_bar=False,
    )
    documents = [haystack.Document(id=str(each), content=DOCUMENTS[each]) for each in range(number)]
    check([document.embedding for document in embedder.run(documents)["documents"]], expected)


@pytest.mark.slow
def test_litellm(server: Server, expected: np.ndarray, number: int) -> None:
    # Not among our extras: it wants older releases of huggingface_hub and openai than other libraries do.
    litellm = pytest.importorskip("litellm")
    answer = litellm.embedding(
        model="openai/small", input=DOCUMENTS[:number], api_base=server.url + "/v1", api_key="none"
    )
    check([item["embedding"] for item in answer.data], expected)


def test_teis_route(server: Server, expected: np.ndarray, number: int) -> None:
    import httpx

    check(httpx.post(server.url + "/embed", json={"inputs": DOCUMENTS[:number]}, timeout=120).json(), expected)
