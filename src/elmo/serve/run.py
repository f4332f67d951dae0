"""Starts the server: one process, or several that share a port, the weights and the counters.

With several workers the model is opened once and the workers are forked from that process, which itself never runs the
model: mapped weights stay one copy in memory. A worker that dies is started anew.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

import uvicorn

from elmo.checkpoints.pretrained import locate
from elmo.errors import ConfigError
from elmo.serve.app import Service, create_app
from elmo.serve.engine import Models, open_models
from elmo.serve.guard import set_up_logs
from elmo.serve.metrics import Metrics
from elmo.serve.settings import ServeSettings

log = logging.getLogger("elmo.serve")

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run(settings: ServeSettings, *, log_level: str = "info") -> None:
    """Serve until told to stop (SIGTERM, SIGINT); what is under way is finished."""
    set_up_logs(log_level)
    locate(settings.model)  # a wrong name is told before anything listens
    sock = _bind(settings)
    port = sock.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    facts = {"address": f"http://{host}:{port}", "workers": settings.workers, "pid": os.getpid()}
    log.info("listening", extra={"facts": facts})
    if settings.workers == 1:
        _serve(settings, sock, Metrics(), None)
    else:
        _Workers(settings, sock).run()


def _bind(settings: ServeSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host, settings.port))
        sock.listen()  # only now is a port that another server has, too, refused
    except OSError as error:
        raise ConfigError(
            f"Cannot listen on {settings.host} port {settings.port}: {error.strerror or error}. Choose another --port."
        ) from error
    sock.set_inheritable(True)
    return sock


def _serve(settings: ServeSettings, sock: socket.socket, metrics: Metrics, models: Models | None) -> None:
    app = create_app(settings, metrics, models)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=settings.graceful_seconds,
        ws="none",
    )
    server = uvicorn.Server(config)

    def stop(*_: Any) -> None:
        server.should_exit = True

    # For a signal before uvicorn listens to them, and after: it raises a signal again once it has stopped, but having
    # stopped as told is a success.
    for name in STOP_SIGNALS:
        signal.signal(name, stop)
    service: Service = app.state.service
    service.on_failure = stop
    server.run(sockets=[sock])
    if server.force_exit:
        service.stop()  # at a second Ctrl-C uvicorn leaves out the app's own end
    if service.failure is not None:
        raise ConfigError(service.failure)
    if not service.is_idle:
        # The interpreter's own way out waits for the thread's kernel, or crashes beside it.
        _leave(0)


class _Workers:
    """The parent of several workers."""

    def __init__(self, settings: ServeSettings, sock: socket.socket) -> None:
        self.settings, self.sock = settings, sock
        self.metrics = Metrics(settings.workers)
        self.models = open_models(settings)
        self.numbers: dict[int, int] = {}
        """Process id -> the worker's number."""
        self.stopping = False

    def run(self) -> None:
        for name in STOP_SIGNALS:
            signal.signal(name, self._stop)
        for number in range(self.settings.workers):
            self._fork(number)
        while self.numbers:
            try:
                pid, status = os.wait()
            except InterruptedError:
                continue
            if pid not in self.numbers:
                continue
            number = self.numbers.pop(pid)
            self.metrics.forget_gauges(number)
            if not self.stopping:
                log.error("worker died", extra={"facts": {"worker": number, "status": status}})
                time.sleep(0.5)  # one that dies at once must not take the machine
                self._fork(number)

    def _stop(self, *_: Any) -> None:
        self.stopping = True
        for pid in self.numbers:
            with suppress(ProcessLookupError):  # it died, and has just been waited for
                os.kill(pid, signal.SIGTERM)

    def _fork(self, number: int) -> None:
        if self.stopping:
            return
        # A worker is born with its parent's handlers, which would end its siblings instead of itself; until it has
        # put them off, signals wait.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        pid = os.fork()
        if not pid:
            for name in STOP_SIGNALS:
                signal.signal(name, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        if pid:
            self.numbers[pid] = number
            if self.stopping:  # told so while it was not among the numbers
                os.kill(pid, signal.SIGTERM)
            return
        self._work(number)

    def _work(self, number: int) -> NoReturn:
        """What a worker does from its birth to its end."""
        status = 1
        try:
            self.metrics.worker = number
            _serve(self.settings, self.sock, self.metrics, self.models)
            status = 0
        except Exception:
            log.exception("worker failed")
        finally:
            _leave(status)


def _leave(status: int) -> NoReturn:
    """End this process at once, whatever its threads do."""
    sys.stderr.flush()
    os._exit(status)
