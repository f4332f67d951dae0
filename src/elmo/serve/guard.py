"""The checks of every request: host, key, number of requests, size of the body; and its log line.

One ASGI layer. The log has a JSON line for each request: route, status, times and sizes, never a user's text.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import time
import uuid
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo.serve.errors import error_body
from elmo.serve.metrics import Metrics
from elmo.serve.settings import ServeSettings

log = logging.getLogger("elmo.serve")

OPEN_PATHS = ("/health", "/ping", "/page/", "/favicon.ico", "/docs", "/openapi.json")
"""These need no key: health checks, and the page, which holds no data."""
UNCOUNTED = ("/health", "/ping", "/metrics", "/page/", "/docs", "/openapi.json", "/info", "/favicon.ico")


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {"time": f"{stamp}.{record.msecs:03.0f}Z", "level": record.levelname.lower()}
        line["event"] = record.getMessage()
        line.update(getattr(record, "facts", {}))
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            # The place only: the message may quote a user's text.
            traceback = record.exc_info[2]
            while traceback is not None and traceback.tb_next is not None:
                traceback = traceback.tb_next
            if traceback is not None:
                line["at"] = f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
        return json.dumps(line)


def set_up_logs(level: str = "info") -> None:
    """Let all loggers of the server write JSON lines to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name in ("elmo.serve", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler] if name != "uvicorn.error" else [], name == "uvicorn.error"
        logger.setLevel(level.upper())


class Guard:
    """The outermost layer of the app, except for CORS."""

    def __init__(self, app: ASGIApp, *, settings: ServeSettings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self._key = None if settings.api_key is None else settings.api_key.encode()
        self._checks_host = (is_loopback(settings.host) or settings.allowed_hosts) and "*" not in settings.allowed_hosts
        # Host names have no case, and `_is_own_host` compares lower case.
        self._hosts = {"localhost", *(host.lower() for host in settings.allowed_hosts)}
        self._in_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        visit = _Visit(scope, send, counted=not scope["path"].startswith(UNCOUNTED) and scope["method"] == "POST")
        if visit.counted:
            self._in_work += 1
            self.metrics.set("te_requests_in_work", self._in_work)
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # uvicorn leaves the body out
        try:
            await self._answer(scope, receive, visit)
        finally:
            if visit.counted:
                self._in_work -= 1
                self.metrics.set("te_requests_in_work", self._in_work)
            self._record(visit)

    async def _answer(self, scope: Scope, receive: Receive, visit: _Visit) -> None:
        headers = dict(scope["headers"])
        if self._checks_host and not self._is_own_host(headers.get(b"host", b"").decode("latin-1")):
            message = "The Host header names another host; start the server with --allowed-host NAME to serve it."
            await visit.refuse(421, message)
            return
        if not self._has_key(scope, headers):
            await visit.refuse(401, "The API key is missing or wrong; send it as 'Authorization: Bearer KEY'.")
            return
        if visit.counted and self._in_work > self.settings.max_concurrent_requests:
            await visit.refuse(429, "Too many requests at once; try again in a moment.")
            return
        limit = self.settings.payload_limit
        too_large = f"The body is larger than the {limit} bytes allowed; send fewer texts at once."
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > limit:
            await visit.refuse(413, too_large)
            return
        received, whole = 0, False
        latest = asyncio.get_running_loop().time() + self.settings.body_seconds

        # FastAPI lets HTTPException through; any other becomes a 400 of its own.
        async def bounded() -> Message:
            nonlocal received, whole
            try:
                async with asyncio.timeout_at(None if whole else latest):
                    message = await receive()
            except TimeoutError:
                late = f"The body did not arrive within {self.settings.body_seconds:g} seconds."
                raise HTTPException(408, late, {"Connection": "close"}) from None
            if message["type"] == "http.request":
                received += len(message.get("body", b""))
                whole = not message.get("more_body", False)
                if received > limit:
                    raise HTTPException(413, too_large, {"Connection": "close"})
            elif not whole and visit.counted:  # FastAPI would call the rest of the body invalid
                raise HTTPException(499, "The client disconnected.")
            return message

        try:
            await self.app(scope, bounded, visit.send)
        except Exception:
            # The app has answered 424 already, unless it failed before; this is for the log.
            log.exception("failed", extra={"facts": {"request": visit.id, "route": visit.path}})
            if visit.status == 0:
                await visit.refuse(424, "The server failed at this request; its log says where.")

    def _is_own_host(self, host: str) -> bool:
        """Whether a browser sent the request to this server on purpose.

        A foreign page can let its own name resolve to this address (DNS rebinding); a name of ours or an IP address in
        the Host header shows that it did not.
        """
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return not host or is_ip_address(name) or name in self._hosts

    def _has_key(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        path = scope["path"]
        if self._key is None or path.startswith(OPEN_PATHS) or (path == "/" and scope["method"] in ("GET", "HEAD")):
            return True
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._key)

    def _record(self, visit: _Visit) -> None:
        seconds = time.perf_counter() - visit.started
        if visit.counted:
            self.metrics.add("te_request_count")
            self.metrics.add("te_request_success" if 200 <= visit.status < 300 else "te_request_failure")
            self.metrics.observe("te_request_duration", seconds)
            if visit.status == 429:
                self.metrics.add("te_request_rejected")
            if visit.status in (0, 499):
                self.metrics.add("te_request_cancelled")
        facts = {
            "request": visit.id,
            "method": visit.method,
            "route": visit.path,
            "status": visit.status or 499,
            "milliseconds": round(1000 * seconds, 1),
            "bytes_out": visit.bytes_out,
            **visit.facts,
        }
        log.log(logging.INFO if visit.counted else logging.DEBUG, "request", extra={"facts": facts})


def is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return host == "localhost" or (is_ip_address(host) and ipaddress.ip_address(host).is_loopback)


class _Visit:
    """What the log needs to know of one request."""

    def __init__(self, scope: Scope, send: Send, *, counted: bool) -> None:
        self.id = uuid.uuid4().hex[:16]
        # Clients choose the path; its beginning is enough for the log.
        self.path, self.method = scope["path"][:64], scope["method"]
        self.counted = counted
        self.started = time.perf_counter()
        self.status, self.bytes_out = 0, 0
        self.facts: dict[str, Any] = {}
        scope.setdefault("state", {})["facts"] = self.facts
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message.setdefault("headers", [])
            message["headers"] = [*message["headers"], (b"x-request-id", self.id.encode())]
        elif message["type"] == "http.response.body":
            self.bytes_out += len(message.get("body", b""))
        await self._send(message)

    async def refuse(self, status: int, message: str) -> None:
        body = json.dumps(error_body(self.path, status, message)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if status == 429:
            headers.append((b"retry-after", b"1"))
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if status == 413:
            headers.append((b"connection", b"close"))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})
