"""Limits of a connection that uvicorn does not have: idle, half-sent and unread ones are closed, headers are bounded.

uvicorn closes a connection that stays idle after an answer (`timeout_keep_alive`), but not one that never sends a whole
request. Its `limit_concurrency` counts idle connections and refuses the requests of active ones; here the connection
that was idle longest makes room. Only its slower parser, h11, bounds headers. The checks of a request are in `guard`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from elmo.serve.settings import ServeSettings

log = logging.getLogger("elmo.serve")

ACCEPT_AT_ONCE = 8
"""Connections that asyncio accepts before the first of them can be closed; uvicorn calls this number the backlog."""
BACKLOG = 1024
"""Connections that the kernel queues."""
RESERVED_FILES = 64 + 4 * ACCEPT_AT_ONCE
"""File descriptors for everything else, and for connections that are accepted but not counted yet."""


def connection_limit(settings: ServeSettings) -> int:
    """How many connections the settings and the process's limit of open files allow."""
    if sys.platform == "win32":
        return settings.max_connections
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return settings.max_connections if files < 0 else max(8, min(settings.max_connections, files - RESERVED_FILES))


class Server(uvicorn.Server):
    """uvicorn's server with bounded connections."""

    def __init__(self, app: Any, settings: ServeSettings) -> None:
        limits = {"settings": settings, "limit": connection_limit(settings)}
        super().__init__(
            uvicorn.Config(
                app,
                http=type("BoundedConnection", (Connection,), limits),
                loop="asyncio",  # one behaviour, whether uvloop is installed or not
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=ACCEPT_AT_ONCE,
                timeout_graceful_shutdown=settings.graceful_seconds,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for sock in sockets or ():
            sock.listen(BACKLOG)


class Connection(HttpToolsProtocol):
    """One connection of a client."""

    settings: ClassVar[ServeSettings]
    limit: ClassVar[int]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._patient = _PatientTransport(transport, self)
        self.transport = self._patient  # type: ignore[assignment]
        self._head_bytes = 0
        self._refused = False
        self._deadline: asyncio.TimerHandle | None = None
        self._read_deadline: asyncio.TimerHandle | None = None
        self._idle_since: float | None = self.loop.time()
        self._expect_headers()
        if len(self.connections) > self.limit:
            self._close_longest_idle()

    def _close_longest_idle(self) -> None:
        idle = [each for each in self.connections if isinstance(each, Connection) and each._is_idle]
        oldest = min(idle, key=lambda each: each._idle_since or 0.0)
        self.connections.discard(oldest)
        oldest.transport.abort()

    @property
    def _is_idle(self) -> bool:
        """Whether no request is in work, and the client has received the last answer."""
        return self._idle_since is not None and not self.transport.get_write_buffer_size()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_arrived()
        self.resume_writing()
        super().connection_lost(exc)
        # Without this the two would hold each other, with the request's body, until the garbage collector finds them.
        self._patient.connection = None

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        super().data_received(data)
        if self._deadline is not None and not self._refused:
            self._head_bytes += len(data)
            if self._head_bytes > self.settings.max_header_bytes and not self.transport.is_closing():
                self.send_400_response(self._too_large)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_headers()

    def on_headers_complete(self) -> None:
        self._headers_arrived()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.settings.max_header_bytes:
            self._head_bytes = size
            raise ValueError(self._too_large)  # the parser stops; uvicorn answers 400
        self._idle_since = None
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reading()

    def _expect_reading(self) -> None:
        unread = self.transport.get_write_buffer_size()
        self._read_deadline = self.loop.call_later(self.settings.body_seconds, self._check_reading, unread)

    def _check_reading(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:  # slow, but it reads
            self._expect_reading()
        else:
            self._not_read()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._read_deadline is not None:
            self._read_deadline.cancel()
            self._read_deadline = None

    def _not_read(self) -> None:
        log.info("closed a connection whose client does not read")
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answer 400, then discard what the client still sends."""
        if self._head_bytes > self.settings.max_header_bytes:
            msg = self._too_large
        if self._idle_since is None:  # an earlier request of this connection is not answered yet
            super().send_400_response(msg)
            return
        head = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(msg)}\r\nconnection: close\r\n\r\n"
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + (head + msg).encode("ascii"))
        self.discard_rest()

    @property
    def expects_body(self) -> bool:
        """Whether the client may still be sending the body of a request."""
        return not self._refused and self.cycle is not None and self.cycle.more_body

    def discard_rest(self) -> None:
        """Send nothing more, and discard what still arrives for a while.

        Closing at once would reset the connection while the client sends, and the client could lose the answer.
        """
        self._headers_arrived()
        self._refused = True
        self.transport.write_eof()
        self.transport.resume_reading()
        self._deadline = self.loop.call_later(self.settings.header_seconds, self.transport.abort)

    @property
    def _too_large(self) -> str:
        return f"The headers are larger than {self.settings.max_header_bytes} bytes."

    def _expect_headers(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.settings.header_seconds, self._headers_late)

    def _headers_arrived(self) -> None:
        self._head_bytes = 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _headers_late(self) -> None:
        self._deadline = None
        if self._idle_since is None:  # a further request of a client whose first one is not answered yet
            self._expect_headers()
        else:
            self.transport.abort()


class _PatientTransport:
    """A transport that uvicorn can close while the client is still sending, and the client gets its answer."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport = transport
        self.connection: Connection | None = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        if self.connection is not None and self.connection.expects_body and not self._transport.is_closing():
            self.connection.discard_rest()
        else:
            self._transport.close()
