"""Connections that are idle, incomplete, never read, too many or from another origin, on real sockets."""

from __future__ import annotations

import json
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.testclient import TestClient

from elmo.serve.app import create_app
from elmo.serve.connections import RESERVED_FILES, connection_limit
from elmo.serve.settings import ServeSettings
from serve.conftest import MAIN, Server

Start = Callable[..., Server]
PATIENCE = 60  # seconds until a test fails; the server's own limits are much shorter


@pytest.fixture(scope="module")
def impatient(start_server: Start) -> Iterator[Server]:
    """A server that waits for headers a second and a half, with few connections and no room for more files."""
    limits = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({RESERVED_FILES + 32},) * 2); "
    server = start_server("--set", "header_seconds=1.5", "--set", "body_seconds=1.5", program=limits + MAIN)
    yield server
    assert server.stop() == 0


def connect(server: Server) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port), timeout=PATIENCE)


def head(path: str, length: int, *more: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {length}"]
    return "\r\n".join([*lines, *more, "", ""]).encode()


def read_all(sock: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    received = b""
    try:
        while data := sock.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize("sent", [b"", b"GET /he", b"POST /embed HTTP/1.1\r\nHost: localhost\r\nX-Slow: a"])
def test_a_connection_without_a_whole_head_is_closed(impatient: Server, sent: bytes) -> None:
    with connect(impatient) as sock:
        sock.sendall(sent)
        assert read_all(sock) == b""


def test_a_second_request_that_is_half_sent_is_closed(impatient: Server) -> None:
    with connect(impatient) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea")
        assert read_all(sock).startswith(b"HTTP/1.1 200")


def test_a_body_that_does_not_arrive_is_answered_408(impatient: Server) -> None:
    with connect(impatient) as sock:
        sock.sendall(head("/embed", 100) + b'{"inp')
        assert read_all(sock).startswith(b"HTTP/1.1 408")


def test_a_connection_that_does_not_read_its_answer_is_closed(impatient: Server) -> None:
    texts = [" ".join(["word"] * 4000)] * 12
    body = json.dumps({"inputs": texts, "layers": "all"}).encode()  # the answer is more than the kernel buffers
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(PATIENCE)
        address = urlsplit(impatient.url)
        sock.connect((address.hostname, address.port))
        sock.sendall(head("/embed_layers", len(body)) + body)
        impatient.wait_for("closed a connection whose client does not read")
        answer = read_all(sock)
    assert answer.startswith(b"HTTP/1.1 200") and not answer.endswith(b"0\r\n\r\n")


def test_idle_connections_beyond_the_file_limit_do_not_block_others(impatient: Server) -> None:
    before = len(impatient.lines)
    with ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(connect(impatient))
        for _ in range(5):
            assert httpx.post(impatient.url + "/embed", json={"inputs": "a"}, timeout=PATIENCE).status_code == 200
        assert httpx.get(impatient.url + "/health", timeout=PATIENCE).status_code == 200
    assert len(impatient.lines) - before < 50  # asyncio logs each file that it cannot open


def test_a_busy_connection_is_not_closed_for_a_new_one(impatient: Server) -> None:
    body = json.dumps({"inputs": [" ".join(["word"] * 4000)] * 8}).encode()
    with connect(impatient) as busy, ExitStack() as stack:
        busy.sendall(head("/embed", len(body), "Expect: 100-continue", "Connection: close"))
        assert busy.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"  # the server has read the headers
        busy.sendall(body)
        for _ in range(100):
            stack.enter_context(connect(impatient))
        assert read_all(busy).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("size", [20_000, 2_000_000])
@pytest.mark.parametrize("split", [False, True], ids=["at once", "in pieces"])
def test_headers_are_bounded_before_the_key_is_checked(server: Server, split: bool, size: int) -> None:
    """A client that sends everything before it reads gets the answer too: the server reads on after the refusal."""
    large = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * size
    with connect(server) as sock:
        if split:
            for start in range(0, len(large), 1000):
                sock.sendall(large[start : start + 1000])
        else:
            sock.sendall(large + b"\r\n\r\n")
        answer = read_all(sock)
    assert answer.startswith(b"HTTP/1.1 400") and b"larger than 16384 bytes" in answer
    assert httpx.get(server.url + "/health", timeout=60).status_code == 200


def test_a_refused_client_that_keeps_sending_is_closed(impatient: Server) -> None:
    with connect(impatient) as sock, pytest.raises((BrokenPipeError, ConnectionResetError)):
        for _ in range(PATIENCE * 100):
            sock.sendall(b"a" * 20_000)
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 200) for host in ("localhost", "127.0.0.1:9", "[::1]:80", "10.0.0.7", "")),
        *((host, 421) for host in ("evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example", "[bad")),
    ],
)
def test_foreign_host_headers_are_refused_on_loopback(server: Server, host: str, status: int) -> None:
    with connect(server) as sock:
        sock.sendall(f"GET /info HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        assert read_all(sock).startswith(f"HTTP/1.1 {status}".encode())


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        (ServeSettings(allowed_hosts=("elmo.example",)), 503),
        (ServeSettings(allowed_hosts=("*",)), 503),
        (ServeSettings(host="0.0.0.0"), 503),
        (ServeSettings(host="0.0.0.0", allowed_hosts=("other.example",)), 421),
    ],
)
def test_other_hosts_can_be_allowed(settings: ServeSettings, status: int) -> None:
    client = TestClient(create_app(settings), "http://elmo.example")  # no model is loaded
    assert client.get("/health").status_code == status


def test_the_connection_limit_leaves_room_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for files, limit in ((128, 32), (1024, 928), (10**6, 1024), (-1, 1024), (50, 8)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert connection_limit(ServeSettings()) == limit


def test_a_server_without_a_key_warns_beyond_loopback(start_server: Start, server: Server) -> None:
    public = start_server("--host", "0.0.0.0")
    assert public.url.startswith("http://127.0.0.1:")  # what a browser can open
    warning = public.wait_for("NO API KEY: everyone who can reach this address can use the service")
    assert warning["level"] == "warning" and "ELMO_API_KEY" in str(warning["advice"])
    assert public.stop() == 0
    assert not any("NO API KEY" in line for line in server.lines)
