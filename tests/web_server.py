"""A real web server with files in memory, ranges and ETags; it can break connections and change its files."""

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class WebServer(ThreadingHTTPServer):
    """Serves `files` by path. `requests` lists (path, Range header or None)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.breaks: list[int] = []
        """Each of the next answers ends after so many bytes."""
        self.headers: dict[str, str] = {}
        self.in_chunks = False
        """Answers have no Content-Length; an empty chunk ends them."""
        self.chunk_bytes: int | None = None
        """Of each chunk but the last; None sends one."""
        self.has_validators = True
        self.delay = threading.Event()
        self.delay.set()
        """Cleared, answers wait before their last byte."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that go away are part of the tests


class _Handler(BaseHTTPRequestHandler):
    server: WebServer

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.requests.append((self.path, asked))
        content = self.server.files.get(self.path.partition("?")[0])
        if content is None:
            self.send_error(404)
            return
        etag = f'"{hashlib.sha1(content).hexdigest()}"'
        first = self._first_byte(asked, etag)
        if first is not None and first >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.end_headers()
            return
        self.send_response(200 if first is None else 206)
        if first is not None:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        body = content[first or 0 :]
        if self.server.in_chunks:
            self.send_header("Transfer-Encoding", "chunked")
            size = self.server.chunk_bytes or max(len(body), 1)
            chunks = [body[start : start + size] for start in range(0, len(body), size)]
            body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
        else:
            self.send_header("Content-Length", str(len(body)))
        if self.server.has_validators:
            self.send_header("ETag", etag)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.server.breaks:
            self.wfile.write(body[: self.server.breaks.pop(0)])
            return  # HTTP/1.0: the connection closes
        self.wfile.write(body[:-1])
        self.wfile.flush()
        self.server.delay.wait(60)
        self.wfile.write(body[-1:])

    def _first_byte(self, asked: str | None, etag: str) -> int | None:
        match = re.fullmatch(r"bytes=(\d+)-", asked or "")
        return int(match.group(1)) if match and self.headers.get("If-Range") in (None, etag) else None

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def serve() -> Iterator[WebServer]:
    server = WebServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.delay.set()
        server.shutdown()
        server.server_close()
        thread.join()
