"""The routes of the page, beside the library."""

from __future__ import annotations

import base64
from pathlib import Path

import httpx
import numpy as np
import pytest

from elmo.checkpoints.pretrained import load
from elmo.embedding.embedder import Embedder
from elmo.pretrain.scoring import Scorer
from elmo.serve.fill import expected_words
from elmo.text.tokenizer import words
from serve.conftest import Server

TEXTS = ["We sat on the bank.", "The bank was closed."]


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


def test_map_has_a_point_for_each_occurrence(server: Server) -> None:
    answer = httpx.post(server.url + "/map", json={"word": "Bank", "clusters": 2}, timeout=120).json()
    count = len(answer["occurrences"])
    assert count >= 8 and {each["sense"] for each in answer["occurrences"]} == {"cluster 1", "cluster 2"}
    for layer in answer["layers"]:
        assert np.array(layer["points"]).shape == (count, 2)
    for each in answer["occurrences"]:
        assert each["tokens"][each["position"]].lower() == "bank"
    own = {"word": "bank", "inputs": [*TEXTS, "A bank is near."]}
    assert len(httpx.post(server.url + "/map", json=own, timeout=60).json()["occurrences"]) == 3


def test_fill_is_the_models_own_expectation_and_does_not_see_the_word(server: Server, model_folder: Path) -> None:
    body = {"inputs": "we sat on the bank", "position": 4, "number": 3}
    answer = httpx.post(server.url + "/fill", json=body, timeout=60).json()
    other = httpx.post(server.url + "/fill", json={**body, "inputs": "we sat on the river"}, timeout=60).json()
    for name in ("forward", "backward", "joint"):
        assert len(answer[name]) == 3
        assert [each["percent"] for each in answer[name]] == pytest.approx([each["percent"] for each in other[name]])
    scorer = Scorer(load(model_folder))
    fill = expected_words(scorer, body["inputs"].split(), 4, number=len(scorer.vocabulary.words))
    for expected in (fill.forward, fill.backward, fill.joint):
        assert sum(each.percent for each in expected) == pytest.approx(100, abs=0.01)
    assert fill.actual["joint"] == pytest.approx(answer["actual"]["joint"])
