"""Starts the server: one process, or several that share the port, the weights and the metrics.

With several workers the model is loaded once and the workers are forked from that process, which never runs the model
itself: memory-mapped weights stay one copy. A worker that dies is replaced.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from elmo.bilm.device import choose_device
from elmo.checkpoints.pretrained import locate
from elmo.errors import ConfigError
from elmo.explore.neighbours import NeighbourIndex
from elmo.serve.app import Service, create_app
from elmo.serve.connections import Server
from elmo.serve.engine import Models, open_models
from elmo.serve.guard import is_loopback, set_up_logs
from elmo.serve.metrics import Metrics
from elmo.serve.settings import API_KEY_VARIABLE, ServeSettings

log = logging.getLogger("elmo.serve")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
CANNOT_START = 3
"""The exit code of a worker whose settings do not fit: the next one would end in the same way."""


def run(settings: ServeSettings, *, announce: Callable[[str], None] = lambda address: None) -> None:
    """Serve until SIGTERM or SIGINT; requests under way are finished.

    `announce` is called with the address as soon as the service listens.
    """
    set_up_logs(settings.log_level)
    # What can be told before anything listens.
    device = choose_device(settings.device, precision=settings.precision)
    if settings.workers > 1 and device.type != "cpu":
        raise ConfigError(
            f"--workers {settings.workers} is for models on the CPU, but the model would run on {device}. Give "
            "--workers 1 or --device cpu."
        )
    locate(settings.model)
    if settings.compare is not None:
        locate(settings.compare)
    if settings.index is not None:
        NeighbourIndex(settings.index)
    sock = _bind(settings)
    port = sock.getsockname()[1]
    address = f"http://{_openable(settings.host)}:{port}"
    facts = {"address": address, "host": settings.host, "workers": settings.workers, "pid": os.getpid()}
    for name in STOP_SIGNALS:  # whoever reads the address may stop the service before its models are open
        signal.signal(name, lambda *_: _leave(0))
    log.info("listening", extra={"facts": facts})
    announce(address)
    if settings.api_key is None and not is_loopback(settings.host):
        advice = f"set {API_KEY_VARIABLE} or --api-key-file, or listen on 127.0.0.1"
        log.warning(
            "NO API KEY: everyone who can reach this address can use the service",
            extra={"facts": {"host": settings.host, "advice": advice}},
        )
    if settings.workers == 1:
        _serve(settings, sock, Metrics(), None)
    else:
        _Workers(settings, sock).run()


def _openable(host: str) -> str:
    """The host as a browser on this machine can open it."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


def _bind(settings: ServeSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is named; otherwise a body waits up to 40 ms for the client's ACK.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host, settings.port))
        sock.listen()  # a port that another server has bound is refused only here
    except OSError as error:
        raise ConfigError(
            f"Cannot listen on {settings.host} port {settings.port}: {error.strerror or error}. Choose another --port."
        ) from error
    sock.set_inheritable(True)
    return sock


def _serve(settings: ServeSettings, sock: socket.socket, metrics: Metrics, models: Models | None) -> None:
    app = create_app(settings, metrics, models)
    server = Server(app, settings)

    def stop(*_: Any) -> None:
        server.should_exit = True

    # These hold before and after uvicorn's own handlers: it raises the signal again when it has stopped, but to stop as
    # told is a success.
    for name in STOP_SIGNALS:
        signal.signal(name, stop)
    service: Service = app.state.service
    service.on_failure = stop
    server.run(sockets=[sock])
    if server.force_exit:
        service.stop()  # at a second Ctrl-C uvicorn skips the app's shutdown
    if service.failure is not None:
        raise ConfigError(service.failure)
    if not service.is_idle:
        # The interpreter's normal exit waits for the thread's kernel, or crashes beside it.
        _leave(0)


class _Workers:
    """The parent of several workers."""

    def __init__(self, settings: ServeSettings, sock: socket.socket) -> None:
        self.settings, self.sock = settings, sock
        self.metrics = Metrics(settings.workers)
        self.models = open_models(settings)
        self.numbers: dict[int, int] = {}
        """Process id -> the worker's number."""
        self.replaced: set[int] = set()
        """The numbers of workers that died and were started again."""
        self.stopping = False

    def run(self) -> None:
        for name in STOP_SIGNALS:
            signal.signal(name, self._stop)
        for number in range(self.settings.workers):
            self._fork(number)
        started = True
        while self.numbers:
            pid, status = os.wait()
            if pid not in self.numbers:
                continue
            number = self.numbers.pop(pid)
            self.metrics.forget_gauges(number)
            if self.stopping:
                continue
            if os.waitstatus_to_exitcode(status) == CANNOT_START and number not in self.replaced:
                started = False
                self._stop()
                continue
            log.error("worker died", extra={"facts": {"worker": number, "status": status}})
            time.sleep(0.5)  # a worker that always dies at once must not load the machine
            self.replaced.add(number)
            self._fork(number)
        if not started:
            raise ConfigError("A worker could not start; the log says why.")

    def _stop(self, *_: Any) -> None:
        self.stopping = True
        for pid in self.numbers:
            with suppress(ProcessLookupError):  # it died just now
                os.kill(pid, signal.SIGTERM)

    def _fork(self, number: int) -> None:
        if self.stopping:
            return
        # A worker inherits its parent's handlers, which would stop its siblings instead of itself; signals are blocked
        # until it has reset them.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        pid = os.fork()
        if not pid:
            for name in STOP_SIGNALS:
                signal.signal(name, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        if pid:
            self.numbers[pid] = number
            if self.stopping:  # the signal came before the worker was among the numbers
                os.kill(pid, signal.SIGTERM)
            return
        self._work(number)

    def _work(self, number: int) -> NoReturn:
        """The whole life of a worker process."""
        status = 1
        try:
            self.metrics.worker = number
            _serve(self.settings, self.sock, self.metrics, self.models)
            status = 0
        except ConfigError as error:
            log.error("worker could not start", extra={"facts": {"worker": number, "reason": str(error)}})
            status = CANNOT_START
        except Exception:
            log.exception("worker failed")
        finally:
            _leave(status)


def _leave(status: int) -> NoReturn:
    """End this process at once, whatever its threads do."""
    sys.stderr.flush()
    os._exit(status)
