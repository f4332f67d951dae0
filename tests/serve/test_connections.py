"""Connections that are idle, incomplete, never read, too many or from another origin, on real sockets."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.testclient import TestClient

from elmo.serve.app import create_app
from elmo.serve.connections import RESERVED_FILES, connection_limit
from elmo.serve.connections import Server as BoundedServer
from elmo.serve.settings import ServeSettings
from serve.conftest import MAIN, Server, value, wait_until

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


LARGE = bytes(4_000_000)
"""An answer larger than what the kernel buffers for the sockets below."""
BUFFER = 32_768


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be put forward."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead

    async def skip(self, seconds: float) -> None:
        """Let so much time pass; what is due then is done."""
        self.ahead += seconds
        for _ in range(3):
            await asyncio.sleep(0)


async def large_or_small(scope: Any, receive: Any, send: Any) -> None:
    """An app that sends a large answer at once or in two pieces, or a small one."""
    body, is_whole = b"small" if scope["path"] == "/small" else LARGE, scope["path"] != "/pieces"
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": not is_whole})
    if not is_whole:
        await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def listening(**limits: Any) -> AsyncIterator[tuple[str, int]]:
    """The address of a server in this event loop, whose sockets buffer little."""
    server = BoundedServer(large_or_small, ServeSettings(**limits))
    server.config.load()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)

    def connection() -> Any:
        return server.config.http_protocol_class(server.config, server.server_state, {})

    async with await asyncio.get_running_loop().create_server(connection, sock=listener):
        yield listener.getsockname()


@asynccontextmanager
async def client(address: tuple[str, int], path: str = "") -> AsyncIterator[asyncio.StreamReader]:
    """What arrives on a new connection, which buffers little; it asks for a path, if one is given."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, address)
    reader, writer = await asyncio.open_connection(sock=sock, limit=BUFFER)
    if path:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    yield reader
    writer.transport.abort()


@pytest.mark.parametrize("path", ["/whole", "/pieces"])
def test_a_client_that_reads_slowly_gets_its_answer(path: str) -> None:
    async def read(loop: SkippingLoop) -> bytes:
        async with listening(body_seconds=PATIENCE) as address, client(address, path) as reader:
            await reader.readuntil(b"\r\n\r\n")
            received = b""
            while len(received) < len(LARGE):
                received += await reader.readexactly(len(LARGE) // 8)
                await loop.skip(2 * PATIENCE)
            return received

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        assert runner.run(read(runner.get_loop())) == LARGE


@pytest.mark.parametrize("path", ["/whole", "/pieces"])
def test_a_client_that_stops_reading_is_closed(path: str) -> None:
    async def read_a_part(loop: SkippingLoop) -> int:
        async with listening(body_seconds=PATIENCE) as address, client(address, path) as reader:
            await reader.readuntil(b"\r\n\r\n")
            received = len(await reader.readexactly(len(LARGE) // 8))
            for _ in range(20):  # some more arrives until the client's buffers are full
                await loop.skip(2 * PATIENCE)
            with suppress(ConnectionResetError):
                while data := await reader.read(BUFFER):
                    received += len(data)
            return received

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        assert runner.run(read_a_part(runner.get_loop())) < len(LARGE)


def test_a_connection_with_an_answer_on_its_way_is_not_closed_for_a_new_one() -> None:
    async def read_late() -> None:
        async with AsyncExitStack() as stack:
            address = await stack.enter_async_context(listening(max_connections=8, body_seconds=PATIENCE))
            late = await stack.enter_async_context(client(address, "/whole"))
            await late.readuntil(b"\r\n\r\n")  # the app has sent its answer
            others = [await stack.enter_async_context(client(address)) for _ in range(20)]
            last = await stack.enter_async_context(client(address, "/small"))
            await last.readuntil(b"small")  # all connections before it are accepted
            assert await others[0].read() == b"", "it was idle, and was closed"
            assert await late.readexactly(len(LARGE)) == LARGE

    asyncio.run(read_late())


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
        (ServeSettings(allowed_hosts=("Elmo.EXAMPLE",)), 503),
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


def test_a_client_that_leaves_before_its_body_is_whole_counts_as_cancelled(server: Server) -> None:
    before = value(server, "te_request_cancelled")
    with connect(server) as sock:
        sock.sendall(head("/embed", 100) + b'{"inputs"')
    wait_until(lambda: value(server, "te_request_cancelled") == before + 1)
