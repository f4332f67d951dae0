"""Every bad input is answered with a 4xx and one clear message, and the server keeps running."""

from __future__ import annotations

import json

import httpx
import pytest

from serve.conftest import Server, wait_until

BAD_TEXTS = [
    ("", 400, "is empty"),
    (" \n\t ", 400, "is empty"),
    ([], 400, "is empty"),
    (["fine", ""], 400, "is empty"),
    ("a" * 1_000_000, 422, "a word of 1000000 characters"),
    ("fine \0 text", 422, "NUL character at 5"),
    ("\ud800 half", 422, None),
    (5, 422, None),
    (None, 422, None),
    ({"text": "a"}, 422, None),
    ([1, 2], 422, "token ids are not accepted"),
    ([[1, 2]], 422, "token ids are not accepted"),
    (["a", None], 422, None),
    (["a"] * 2049, 422, "2049 texts; the most is 2048"),
]
ROUTES = ["/embed", "/embed_all", "/embed_layers", "/", "/tokenize", "/v1/embeddings", "/embeddings", "/senses"]


def post(server: Server, route: str, content: str | bytes) -> httpx.Response:
    return httpx.post(server.url + route, content=content, headers={"content-type": "application/json"}, timeout=30)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("text", "status", "message"), BAD_TEXTS, ids=lambda value: repr(value)[:24])
def test_texts(server: Server, route: str, text: object, status: int, message: str | None) -> None:
    field = "input" if "embeddings" in route else "inputs"
    response = post(server, route, json.dumps({field: text}))
    assert response.status_code == status, response.text
    body = response.json()
    if "embeddings" in route:
        assert body.keys() == {"error"} and body["error"].keys() == {"message", "type", "param", "code"}
        assert (body["error"]["type"], body["error"]["param"]) == ("invalid_request_error", "input")
        said = body["error"]["message"]
        assert "`inputs`" not in said
    else:
        assert body.keys() == {"error", "error_type"}
        said = body["error"]
    assert len(said) < 400
    if message is not None:
        assert message in said


@pytest.mark.parametrize(
    ("route", "body", "status", "message"),
    [
        ("/embed", "not json", 422, "The body is not JSON"),
        ("/embed", '{"inputs": ' + 500_000 * "[", 422, "The body cannot be read as JSON: it is nested too deeply"),
        ("/embed", b'{"inputs": "\xff"}', 422, "The body cannot be read as JSON: it is not UTF-8"),
        ("/embed", '{"inputs": "a", "dimensions": ' + 5000 * "1" + "}", 422, "a number in it is too long"),
        ("/embed", "", 422, None),
        ("/embed", "[]", 422, None),
        ("/embed", '{"inputs": "a", "normalize": "yes"}', 422, "`normalize`"),
        ("/embed", '{"inputs": "a", "truncation_direction": "up"}', 422, "`truncation_direction`"),
        ("/embed", '{"inputs": "a", "dimensions": 0}', 422, "`dimensions`"),
        ("/embed", '{"inputs": "a", "dimensions": 999}', 422, "the vectors have 16"),
        ("/embed_layers", '{"inputs": "a", "layers": 7}', 422, "the model has the layers 0 to 2"),
        ("/embed_layers", '{"inputs": "a", "layers": "best"}', 422, "Unknown layers 'best'"),
        ("/embed_layers", '{"inputs": "a", "layers": [1, 2]}', 422, "2 layer weights were given for 3 layers"),
        ("/embed_layers", '{"inputs": "a", "layers": [1, 2, NaN]}', 422, None),
        ("/embed_layers", '{"inputs": "a", "layers": true}', 422, "`layers`"),
        ("/embed_layers", '{"inputs": "a", "layers": "1e39,0,0"}', 422, "A layer's weight is beyond 1,000,000"),
        ("/embed_layers", '{"inputs": "a", "layers": "' + 5000 * "x" + '"}', 422, "at most 500 characters"),
        ("/v1/embeddings", '{"input": "a", "model": "other"}', 404, "this server has 'small'"),
        ("/v1/embeddings", '{"input": "a", "encoding_format": "hex"}', 422, "`encoding_format`"),
        ("/similarity", '{"inputs": {"source_sentence": "a", "sentences": []}}', 400, "is empty"),
        ("/similarity", '{"inputs": "a"}', 422, "`inputs`"),
        ("/neighbours", '{"inputs": "a b", "position": 2}', 422, "the text has the tokens 0 to 1"),
        ("/neighbours", '{"inputs": "a b", "position": -1}', 422, "`position`"),
        ("/map", '{"word": "zebra"}', 422, "holds that word 0 times"),
        ("/map", '{"word": " "}', 400, "is empty"),
        ("/map", '{"word": "' + 5000 * "x" + '", "inputs": ["a"]}', 422, "at most 500 characters"),
        ("/tokenize", '{"inputs": "' + 300_000 * "a " + '"}', 422, "300000 tokens; the most is 262144"),
        ("/fill", '{"inputs": "a b", "position": 9}', 422, "the text has the tokens 0 to 1"),
        ("/tasks/named_entities", '{"inputs": "a"}', 404, "There is no model for that task here"),
        ("/nowhere", "{}", 404, "There is no such route"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_bodies(server: Server, route: str, body: str | bytes, status: int, message: str | None) -> None:
    response = post(server, route, body)
    assert response.status_code == status, response.text
    said = response.json()["error"]
    said = said["message"] if route.startswith("/v1/") else said
    if message is not None:
        assert message in said
    if status == 422 and "error_type" in response.json():
        assert response.json()["error_type"] == "Validation"


@pytest.mark.parametrize(("route", "field"), [("/embed", "inputs"), ("/v1/embeddings", "input")])
def test_too_many_dimensions_are_refused_before_anything_is_embedded(server: Server, route: str, field: str) -> None:
    def embedded() -> list[str]:
        lines = httpx.get(server.url + "/metrics", timeout=30).text.splitlines()
        return [line for line in lines if line.startswith("te_embed_count")]

    before = embedded()
    assert post(server, route, json.dumps({field: "a", "dimensions": 17})).status_code == 422
    assert before and embedded() == before


@pytest.mark.parametrize(
    ("texts", "status", "message"),
    [
        ([], 400, "`inputs` is empty"),
        (["a bank"] * 2049, 422, "2049 texts; the most is 2048"),
        ([" ".join(["bank"] * 4097)], 422, "`inputs` has 4097 tokens; the most is 4096. Shorten it."),
        (["bank " * 500 + ("x" * 4999 + " ") * 395], 422, "characters; the most is 10000000. Send less text."),
    ],
    ids=["none", "many", "long", "a huge answer"],
)
def test_maps_stay_within_the_limits(server: Server, texts: list[str], status: int, message: str) -> None:
    response = post(server, "/map", json.dumps({"word": "bank", "inputs": texts}))
    said = response.json()["error"]
    assert response.status_code == status and message in said
    assert "truncate" not in said  # which this route does not have


def test_wrong_method_and_wrong_kind(server: Server) -> None:
    assert httpx.get(server.url + "/embed", timeout=60).status_code == 405
    # As `curl -d` sends it, and without a content type.
    for headers in ({"content-type": "application/x-www-form-urlencoded"}, {}):
        for route in ("/embed", "/", "/v1/embeddings"):
            answer = httpx.post(
                server.url + route, content=b'{"inputs": "a", "input": "a"}', headers=headers, timeout=60
            )
            said = str(answer.json()["error"])
            assert answer.status_code == 415 and "no header Content-Type: application/json" in said


def test_too_large(server: Server) -> None:
    big = b'{"inputs": "' + b"a " * 1_100_000 + b'"}'
    response = post(server, "/embed", big)
    assert response.status_code == 413 and "2000000 bytes" in response.json()["error"]

    def pieces() -> object:
        for _ in range(60):
            yield b"a " * 50_000

    # A chunked body has no Content-Length.
    headers = {"content-type": "application/json"}
    response = httpx.post(server.url + "/embed", content=pieces(), headers=headers, timeout=60)  # type: ignore[arg-type]
    assert response.status_code == 413 and "2000000 bytes" in response.json()["error"]
    assert httpx.get(server.url + "/health", timeout=60).status_code == 200


def test_an_answer_that_would_be_too_large(server: Server) -> None:
    body = {"inputs": [" ".join(["w"] * 4090)] * 32, "layers": "all"}
    small = httpx.post(server.url + "/embed_layers", json=body, timeout=60)
    assert small.status_code == 200 or "numbers; the most is" in small.json()["error"]


def test_nothing_of_the_text_is_logged(server: Server) -> None:
    secret = "xylophonist"
    httpx.post(server.url + "/embed", json={"inputs": f"the {secret} plays"}, timeout=60)
    httpx.post(server.url + "/embed", json={"inputs": {"bad": secret}}, timeout=60)
    httpx.post(server.url + "/embed_layers", json={"inputs": secret, "layers": secret}, timeout=60)
    wait_until(lambda: any(line["route"] == "/embed_layers" for line in server.events("request")))
    assert any(line["route"] == "/embed" and line.get("tokens") == 3 for line in server.events("request"))
    assert not any(secret in line for line in server.lines)


@pytest.mark.parametrize(
    ("route", "status", "kind"),
    [
        ("/decode", 422, "Tokenizer"),
        ("/embed_sparse", 424, "Backend"),
        ("/predict", 424, "Backend"),
        ("/rerank", 424, "Backend"),
    ],
)
def test_unsupported_tei_routes_get_teis_error(server: Server, route: str, status: int, kind: str) -> None:
    answer = post(server, route, '{"inputs": "a", "ids": [1]}')
    assert (answer.status_code, answer.json()["error_type"]) == (status, kind)
    assert "odel" in answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("POST", "/v1/embeddings", {"input": "a", "model": "other"}, (404, "model", "model_not_found")),
        ("GET", "/v1/models/other", None, (404, "model", "model_not_found")),
        ("POST", "/v1/embeddings", {"input": "a", "dimensions": 99}, (422, "dimensions", None)),
        ("POST", "/v1/embeddings", {"input": ["a", 5]}, (422, "input", None)),
        ("POST", "/v1/embeddings", {}, (422, "input", None)),
        ("POST", "/v1/chat/completions", {"messages": []}, (404, None, None)),
    ],
)
def test_openai_errors_name_openais_fields(
    server: Server, method: str, path: str, body: object, expected: tuple[int, str | None, str | None]
) -> None:
    answer = httpx.request(method, server.url + path, json=body, timeout=60)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == expected
    assert error["type"] == "invalid_request_error"
