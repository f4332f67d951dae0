"""How the service behaves: warm-up, load, keys, stopping, workers, counters."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.commands import app
from elmo.embedding.embedder import Embedder
from elmo.errors import ConfigError, ElmoError
from elmo.explore.neighbour_index import build_index
from elmo.serve.app import create_app
from elmo.serve.run import _bind
from elmo.serve.settings import ServeSettings, read_api_key
from serve.conftest import MAIN, SOURCE, Server, value, wait_until

Start = Callable[..., Server]


def test_it_listens_on_loopback_and_is_unhealthy_until_warm(
    start_server: Start, model_folder: Path, tmp_path: Path
) -> None:
    # The words come through a pipe: the model stays half read for as long as the test wants.
    slow = shutil.copytree(model_folder, tmp_path / "slow")
    words = (slow / "vocabulary.txt").read_text(encoding="utf-8")
    (slow / "vocabulary.txt").unlink()
    os.mkfifo(slow / "vocabulary.txt")
    server = start_server("--cors-origin", "https://elsewhere.example", ready=False, model=slow)
    assert server.url.startswith("http://127.0.0.1:")
    answer = httpx.get(server.url + "/health", timeout=60)
    assert (answer.status_code, answer.json()["error_type"]) == (503, "Unhealthy")
    assert httpx.post(server.url + "/embed", json={"inputs": "a"}, timeout=60).status_code == 503
    (slow / "vocabulary.txt").write_text(words, encoding="utf-8")
    server.wait_until_ready()
    # The same server lets one foreign origin in.
    origin = {"origin": "https://elsewhere.example"}
    answer = httpx.post(server.url + "/embed", json={"inputs": "a"}, headers=origin, timeout=60)
    assert answer.headers["access-control-allow-origin"] == "https://elsewhere.example"
    assert server.stop() == 0


def test_int8_answers_are_close_to_float32(start_server: Start, server: Server) -> None:
    small = start_server("--precision", "int8", "--device", "cpu")
    assert httpx.get(small.url + "/info", timeout=60).json()["model_dtype"] == "int8"
    exact, near = (
        np.array(httpx.post(each.url + "/embed", json={"inputs": "the bank of the river"}, timeout=60).json()[0])
        for each in (server, small)
    )
    assert exact @ near > 0.999  # both have length 1
    assert small.stop() == 0


def test_health_page_and_docs(server: Server) -> None:
    assert httpx.get(server.url + "/ping", timeout=60).status_code == 200
    machine = httpx.get(server.url + "/", timeout=60)
    assert machine.json() == {"status": "ok"}
    browser = httpx.get(server.url + "/", headers={"accept": "text/html,*/*"}, timeout=60)
    assert browser.headers["content-type"].startswith("text/html")
    for answer in (
        browser,
        *(httpx.get(f"{server.url}/page/{name}", timeout=60) for name in ("index.html", "main.js")),
    ):
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-cache"
    for path in ("/", "/health", "/info", "/page/main.js"):
        head = httpx.head(server.url + path, timeout=60)
        assert head.status_code == 200 and head.content == b""
    assert httpx.get(server.url + "/docs", timeout=60).status_code == 200
    paths = httpx.get(server.url + "/openapi.json", timeout=60).json()["paths"]
    assert {"/embed", "/embed_all", "/embed_layers", "/v1/embeddings", "/senses", "/tasks/{name}"} <= paths.keys()
    info = httpx.get(server.url + "/info", timeout=60).json()
    assert info["model_id"] == "small" and info["layers"] == 3 and info["max_client_batch_size"] == 2048


def test_no_foreign_page_may_read_answers(server: Server) -> None:
    origin = {"origin": "https://elsewhere.example"}
    answer = httpx.post(server.url + "/embed", json={"inputs": "a"}, headers=origin, timeout=60)
    assert answer.status_code == 200 and "access-control-allow-origin" not in answer.headers


def test_a_page_of_a_known_origin_may_send_the_key() -> None:
    settings = ServeSettings(api_key="secret-key", cors_origins=("https://page.example",), payload_limit=100)
    client = TestClient(create_app(settings), "http://localhost")  # no model is loaded
    origin = {"origin": "https://page.example"}
    # Browsers ask first, and without the key.
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    answer = client.options("/embed", headers=origin | asked)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == origin["origin"]
    assert "authorization" in answer.headers["access-control-allow-headers"]
    assert client.options("/embed", headers={"origin": "https://other.example"} | asked).status_code == 400
    # The page can read why it was refused.
    key = {"authorization": "Bearer secret-key"}
    for headers, text, status in ((origin, "a", 401), (origin | key, "a" * 200, 413), (origin | key, "a", 503)):
        answer = client.post("/embed", json={"inputs": text}, headers=headers)
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == origin["origin"]


def test_concurrent_requests_get_their_own_answers_in_few_batches(server: Server, model_folder: Path) -> None:
    texts = [f"word{number} " * (1 + number % 7) for number in range(64)]
    library = np.stack(Embedder(model_folder, layers="average", pooling="mean").embed(texts))
    library /= np.linalg.norm(library, axis=1, keepdims=True)
    before = value(server, "te_batch_count")

    async def ask() -> list[list[list[float]]]:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            answers = await asyncio.gather(*(client.post("/embed", json={"inputs": text}) for text in texts))
        return [answer.json() for answer in answers]

    np.testing.assert_allclose(np.array(asyncio.run(ask()))[:, 0], library, atol=1e-6)
    assert value(server, "te_batch_count") - before < 64
    assert value(server, "te_queue_size") == 0 and value(server, "te_queue_tokens") == 0


def test_a_full_server_answers_429_immediately(start_server: Start) -> None:
    server = start_server("--max-concurrent-requests", "2", model=None)
    body = {"inputs": [" ".join(["word"] * 4000)] * 4}

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=server.url, timeout=300) as client:
            return await asyncio.gather(*(client.post("/embed", json=body) for _ in range(8)))

    answers = asyncio.run(ask())
    refused = [answer for answer in answers if answer.status_code == 429]
    assert {answer.status_code for answer in answers} == {200, 429} and len(refused) >= 4
    assert refused[0].json()["error_type"] == "Overloaded" and refused[0].headers["retry-after"] == "1"
    assert value(server, "te_request_rejected") == len(refused)
    # The same server has the bundled model, which may have no softmax.
    info = httpx.get(server.url + "/info", timeout=60).json()
    answer = httpx.post(server.url + "/fill", json={"inputs": "a b", "position": 0}, timeout=60)
    assert info["can_fill"] == (answer.status_code == 200)
    if not info["can_fill"]:
        assert answer.status_code == 422 and "has no softmax" in answer.json()["error"]
    assert server.stop() == 0


def test_short_texts_do_not_wait_for_a_long_one(server: Server) -> None:
    long = {"inputs": [" ".join(f"word{number}" for number in range(4000))] * 30}
    finished: dict[str, float] = {}

    def ask_long() -> None:
        assert httpx.post(server.url + "/embed", json=long, timeout=120).status_code == 200
        finished["long"] = time.monotonic()

    # A busy machine may stop this process until the long request has been answered; it will not do so five times.
    for _ in range(5):
        thread = threading.Thread(target=ask_long)
        thread.start()
        while thread.is_alive() and not value(server, "te_requests_in_work"):
            time.sleep(0.02)
        for _ in range(3):
            assert httpx.post(server.url + "/embed", json={"inputs": "short"}, timeout=60).status_code == 200
        finished["short"] = time.monotonic()
        thread.join()
        if finished["short"] < finished["long"]:
            return
    raise AssertionError("the short texts were never answered before the long ones")


def test_work_of_disconnected_clients_is_dropped(server: Server) -> None:
    body = json.dumps({"inputs": [" ".join(["word"] * 4000)] * 16})  # the queue has room for four of these
    before = value(server, "te_request_cancelled")
    for _ in range(3):
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
        connection.request("POST", "/embed", body, {"content-type": "application/json"})
        connection.close()  # without waiting for the answer
    wait_until(lambda: value(server, "te_request_cancelled") == before + 3)
    wait_until(lambda: value(server, "te_requests_in_work") == 0)
    assert value(server, "te_queue_tokens") == 0
    assert httpx.post(server.url + "/embed", json={"inputs": "short"}, timeout=60).status_code == 200


def test_api_key_and_stopping_during_requests(start_server: Start, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret-key\n")
    server = start_server("--api-key-file", str(key))
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic secret-key"}):
        answer = httpx.post(server.url + "/embed", json={"inputs": "a"}, headers=headers, timeout=60)
        assert answer.status_code == 401 and "Authorization: Bearer" in answer.json()["error"]
    assert httpx.get(server.url + "/metrics", timeout=60).status_code == 401
    for path in ("/health", "/docs", "/openapi.json", "/page/docs.js"):
        assert httpx.get(server.url + path, timeout=60).status_code == 200
    good = {"authorization": "Bearer secret-key"}
    assert httpx.post(server.url + "/embed", json={"inputs": "a"}, headers=good, timeout=60).status_code == 200

    body = {"inputs": [" ".join(["word"] * 1000)] * 32}
    answers: list[httpx.Response] = []
    thread = threading.Thread(
        target=lambda: answers.append(httpx.post(server.url + "/embed", json=body, headers=good, timeout=120))
    )
    thread.start()
    end = time.monotonic() + 30
    while time.monotonic() < end and not value(server, "te_requests_in_work", good):
        time.sleep(0.01)
    assert server.stop() == 0
    thread.join()
    assert answers[0].status_code == 200 and len(answers[0].json()) == 32
    assert server.events("stopped")
    assert not any("secret-key" in line for line in server.lines)


def test_the_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ELMO_API_KEY", raising=False)
    assert read_api_key(None) is None
    monkeypatch.setenv("ELMO_API_KEY", "from-there")
    assert read_api_key(None) == "from-there"
    monkeypatch.setenv("ELMO_API_KEY", " ")
    with pytest.raises(ConfigError, match="is set but empty"):
        read_api_key(None)
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ConfigError, match="is empty; expected the API key"):
        read_api_key(tmp_path / "empty")
    monkeypatch.setenv("ELMO_API_KEY", "ключ")
    with pytest.raises(ConfigError, match="ELMO_API_KEY holds a character that is not printable ASCII"):
        read_api_key(None)
    (tmp_path / "two").write_text("first\nsecond\n")
    with pytest.raises(ConfigError, match="more than one line"):
        read_api_key(tmp_path / "two")


def test_workers_share_the_port_and_the_counters(start_server: Start) -> None:
    server = start_server("--workers", "2")
    wait_until(lambda: len(server.events("ready")) == 2)
    for _ in range(12):
        assert httpx.post(server.url + "/embed", json={"inputs": "a word"}, timeout=60).status_code == 200
    # One worker may have answered, but not counted yet, when the other one is asked.
    wait_until(lambda: value(server, "te_request_success") == 12)
    assert value(server, "te_embed_tokens") == 24
    # A worker that is killed comes back.
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    assert len(children) == 2
    os.kill(int(children[0]), signal.SIGKILL)
    wait_until(lambda: len(server.events("ready")) == 3)
    server.wait_until_ready()
    assert httpx.post(server.url + "/embed", json={"inputs": "a word"}, timeout=60).status_code == 200
    assert server.stop() == 0


def test_stopping_while_a_dead_worker_is_being_replaced(start_server: Start) -> None:
    server = start_server("--workers", "2")
    first = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()[0]
    os.kill(int(first), signal.SIGKILL)
    server.wait_for("worker died")  # the next one is born half a second later
    assert server.stop() == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url + "/health", timeout=60)


def test_workers_that_cannot_start_are_not_replaced_for_ever(
    make_bilm: Callable[..., PretrainedBiLM], model_folder: Path, tmp_path: Path
) -> None:
    build_index(Embedder(make_bilm(seed=9)), [["We", "sat"]], folder=tmp_path / "ix", model="other")
    options = ["--port", "0", "--workers", "2", "--model", str(model_folder), "--index", str(tmp_path / "ix")]
    done = subprocess.run([sys.executable, "-c", MAIN, "serve", *options], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "A worker could not start" in done.stderr.splitlines()[-1], done.stderr
    assert "The index was made with another model" in done.stderr


def test_stopping_drops_requests_that_take_too_long(
    start_server: Start, make_bilm: Callable[..., PretrainedBiLM], tmp_path: Path
) -> None:
    make_bilm(cell_dim=2048, projection_dim=256).save_pretrained(tmp_path / "slow")
    program = (
        "import sys; from elmo.serve.run import run; from elmo.serve.settings import ServeSettings; "
        "run(ServeSettings(model=sys.argv[-1], port=0, graceful_seconds=1))"
    )
    server = start_server(program=program, model=tmp_path / "slow")
    body = {"word": "bank", "inputs": ["bank " + "a " * 4000 + str(number) for number in range(32)]}
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(httpx.post, server.url + "/map", json=body, timeout=300)
        while not value(server, "te_requests_in_work"):
            time.sleep(0.01)
        time.sleep(1)  # by now the model is at work, which it would be for a minute
        assert server.stop() == 0
        assert asked.exception() is not None or asked.result().status_code == 500
    assert server.events("stopped")


def test_bad_settings_get_one_sentence_and_code_2(model_folder: Path, server: Server, tmp_path: Path) -> None:
    port = server.url.rpartition(":")[2]
    damaged = tmp_path / "damaged"
    shutil.copytree(model_folder, damaged)
    (damaged / "model.safetensors").write_bytes(b"not weights")
    for options, message in (
        (["--port", port], "Cannot listen on 127.0.0.1"),
        (["--workers", "0"], "workers is 0"),
        (["--model", "/no/such/model"], "No model called"),
        (["--index", "/nope"], "/nope"),
        (["--workers", "2", "--device", "meta"], "--workers 2 is for models on the CPU"),
        (["--log-level", "loud"], "log_level is 'loud'"),
        (["--set", "header_secnds=1"], "Did you mean header_seconds?"),
        (["--api-key-file", "/no/such/file"], "Cannot read the API key"),
    ):
        with pytest.raises(ElmoError, match=re.escape(message)):
            CliRunner().invoke(app, ["serve", "--port", "0", *options], catch_exceptions=False)
    for options, message in (
        (["--device", "nowhere"], "The device 'nowhere' cannot be used"),
        (["--model", str(damaged)], "The model could not be loaded"),
        (["--model", str(model_folder), "--precision", "int3"], "Unknown precision 'int3'"),
    ):
        command = [sys.executable, "-c", MAIN, "serve", "--port", "0", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2 and message in done.stderr.splitlines()[-1], done.stderr


def test_internal_errors_use_the_clients_error_format() -> None:
    app = create_app(ServeSettings())  # no model is loaded

    async def fail() -> None:
        raise RuntimeError("a secret text")

    for path in ("/fails", "/v1/fails"):
        app.add_api_route(path, fail, methods=["POST"])
    client = TestClient(app, "http://localhost", raise_server_exceptions=False)
    tei, openai = client.post("/fails"), client.post("/v1/fails")
    assert tei.status_code == openai.status_code == 424
    assert tei.json()["error_type"] == "Backend" and openai.json()["error"]["type"] == "server_error"
    assert "secret" not in tei.text + openai.text


def test_a_port_that_another_server_is_about_to_use_is_refused() -> None:
    first = _bind(ServeSettings(port=0))
    try:
        with pytest.raises(ConfigError, match=r"Cannot listen on 127\.0\.0\.1"):
            _bind(ServeSettings(port=first.getsockname()[1]))
    finally:
        first.close()


def test_connections_send_small_answers_at_once() -> None:
    """With Nagle's algorithm, the body of an answer waits for the client's delayed ACK of the headers: 40 ms."""

    async def accepted_option() -> int:
        accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def on_connection(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            accepted.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = _bind(ServeSettings(port=0))
        async with await asyncio.start_server(on_connection, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            option = await accepted
            writer.close()
        return option

    assert asyncio.run(accepted_option()) != 0


def test_a_body_that_does_not_end_is_refused() -> None:
    sent: list[dict[str, Any]] = []
    headers = [(b"content-type", b"application/json"), (b"content-length", b"10")]
    scope = {"type": "http", "method": "POST", "path": "/embed", "headers": headers, "query_string": b""}

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"", "more_body": True}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(dict(message))

    asyncio.run(asyncio.wait_for(create_app(ServeSettings(body_seconds=0.1))(scope, receive, send), 60))
    assert sent[0]["status"] == 408 and b"did not arrive" in sent[1]["body"]


def test_on_a_terminal_it_says_where_the_page_is(model_folder: Path) -> None:
    """Besides the JSON log, in which a person would have to look for the address."""
    ours, theirs = pty.openpty()
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE)}
    arguments = [sys.executable, "-c", MAIN, "serve", "--port", "0", "--model", str(model_folder)]
    process = subprocess.Popen(arguments, env=variables, stderr=theirs)
    os.close(theirs)
    try:
        with open(ours, encoding="utf-8", closefd=True) as terminal:
            line = next(line for line in terminal if line.startswith("Open "))
            assert re.fullmatch(r"Open http://127\.0\.0\.1:\d+ in a browser\. Ctrl-C stops the service\.\n", line)
            process.terminate()
            assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait(10)
