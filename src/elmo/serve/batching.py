"""Texts of many requests -> batches -> vectors, on threads beside the event loop.

Two lanes, a thread each: short texts never wait for a long one, and both work at the same time. A lane takes what has
waited longest and adds, up to the token budget, everything waiting that wants the same vectors. While a batch runs, the
next one gathers. No timer makes a lone client wait; but after a batch of several texts its clients tend to ask again
within moments, and the lane lets them arrive before it goes on with the first of them alone.

    batcher = Batcher(embed, settings, metrics)
    vectors = await batcher.embed([["A", "sentence", "."]], Wanted("average", "mean"))
    value = await batcher.call(function)                        # anything else that takes the processor's time
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from elmo.serve.errors import ServiceError
from elmo.serve.metrics import Metrics
from elmo.serve.settings import ServeSettings

SHORT_TEXT = 128
"""Tokens up to which a text takes the fast lane."""

GATHER_SHARE = 0.1
"""Of the time that a batch of several texts took, for which its lane waits at most for their clients to ask again."""

STOP_SECONDS = 2.0
"""How long a stop waits for work under way: its clients have been answered or have gone, so it is for nobody."""

T = TypeVar("T")


class Wanted(NamedTuple):
    """Which vectors a text asks for; texts that want the same run together."""

    layers: str | int | tuple[float, ...]
    pooling: str | None = None


Embed = Callable[[list[list[str]], Wanted], list[np.ndarray]]


@dataclass
class _Request:
    """The texts of one request, which are answered together."""

    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    results: list[np.ndarray | None]
    missing: int


@dataclass
class _Text:
    tokens: list[str]
    wanted: Wanted
    place: int
    request: _Request
    since: float = field(default_factory=time.perf_counter)


@dataclass
class _Call:
    function: Callable[[], Any]
    request: _Request
    since: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True)
class _LastBatch:
    """What a lane did before, by which it guesses how many will ask next."""

    num_texts: int = 0
    num_waiting: int = 0
    """Texts that came while it ran."""
    seconds: float = 0.0
    ended: float = 0.0


class Batcher:
    """The queue in front of a model."""

    def __init__(self, embed: Embed, settings: ServeSettings, metrics: Metrics) -> None:
        self._embed, self._settings, self._metrics = embed, settings, metrics
        self._waiting: dict[str, deque[_Text]] = {"short": deque(), "long": deque()}
        self._calls: deque[_Call] = deque()
        self._changed = threading.Condition()
        self._queue_tokens = 0
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._work, args=(lane,), name=lane, daemon=True) for lane in self._waiting
        ]
        for thread in self._threads:
            thread.start()

    async def embed(self, texts: Sequence[list[str]], wanted: Wanted) -> list[np.ndarray]:
        """The vectors of each text. Raises 429 at once when too much is waiting."""
        request = self._new_request(len(texts))
        num_tokens = sum(map(len, texts))
        with self._changed:
            if self._queue_tokens + num_tokens > self._settings.max_queue_tokens:
                raise ServiceError(429, "The queue is full; try again in a moment.")
            self._queue_tokens += num_tokens
            for place, tokens in enumerate(texts):
                lane = "short" if len(tokens) <= SHORT_TEXT else "long"
                self._waiting[lane].append(_Text(tokens, wanted, place, request))
            self._show_queue()
            self._changed.notify_all()
        await self._result(request)
        self._metrics.add("te_embed_success", len(texts))
        return [result for result in request.results if result is not None]

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function on the thread of the long texts."""
        request = self._new_request(0)
        with self._changed:
            self._calls.append(_Call(function, request))
            self._changed.notify_all()
        return await self._result(request)

    def stop(self) -> bool:
        """End the threads once nothing is waiting; False if one still works after `STOP_SECONDS`."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        end = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _new_request(self, num_texts: int) -> _Request:
        loop = asyncio.get_running_loop()
        return _Request(loop.create_future(), loop, [None] * num_texts, num_texts)

    async def _result(self, request: _Request) -> Any:
        try:
            return await request.future
        except asyncio.CancelledError:
            with self._changed:
                self._drop(request)
            raise

    def _drop(self, request: _Request) -> None:
        """Forget what still waits of a request whose client went away, or another of whose texts failed."""
        for waiting in self._waiting.values():
            kept = [text for text in waiting if text.request is not request]
            self._queue_tokens -= sum(len(text.tokens) for text in waiting if text.request is request)
            waiting.clear()
            waiting.extend(kept)
        self._calls = deque(call for call in self._calls if call.request is not request)
        self._show_queue()

    def _work(self, lane: str) -> None:
        last = _LastBatch()
        while True:
            with self._changed:
                while not self._has_work(lane):
                    if self._stopping:
                        return
                    self._changed.wait()
                call = self._next_call(lane)
                if call is None:
                    self._gather(lane, last)
                    batch = self._take(lane)
            if call is not None:
                _run_call(call)
            elif batch:
                last = self._run(lane, batch)

    def _has_work(self, lane: str) -> bool:
        return bool(self._waiting[lane]) or (lane == "long" and bool(self._calls))

    def _next_call(self, lane: str) -> _Call | None:
        """A call that has waited longer than the lane's first text."""
        if lane != "long" or not self._calls:
            return None
        texts = self._waiting[lane]
        return None if texts and texts[0].since < self._calls[0].since else self._calls.popleft()

    def _gather(self, lane: str, last: _LastBatch) -> None:
        """Let the clients of the last batch ask again, so that they go on together with those who wait."""
        left = last.ended + GATHER_SHARE * last.seconds - time.perf_counter()
        waiting, everybody = self._waiting[lane], last.num_waiting + last.num_texts

        def is_enough() -> bool:
            full = self._queue_tokens >= self._settings.max_batch_tokens
            return self._stopping or full or len(waiting) >= everybody

        if last.num_texts > 1 and left > 0:
            self._changed.wait_for(is_enough, timeout=left)

    def _take(self, lane: str) -> list[_Text]:
        """The next batch: the text that has waited longest, and others that fit to it."""
        waiting = self._waiting[lane]
        batch: list[_Text] = []
        others: list[_Text] = []
        budget = self._settings.max_batch_tokens
        while waiting and (not batch or budget > 0):
            text = waiting.popleft()
            if not batch or (text.wanted == batch[0].wanted and len(text.tokens) + 2 <= budget):
                batch.append(text)
                budget -= len(text.tokens) + 2
                self._queue_tokens -= len(text.tokens)
            else:
                others.append(text)
        waiting.extendleft(reversed(others))
        self._show_queue()
        return batch

    def _show_queue(self) -> None:
        self._metrics.set("te_queue_size", sum(map(len, self._waiting.values())))
        self._metrics.set("te_queue_tokens", self._queue_tokens)

    def _run(self, lane: str, batch: list[_Text]) -> _LastBatch:
        started = time.perf_counter()
        num_tokens = sum(len(text.tokens) for text in batch)
        try:
            vectors = self._embed([text.tokens for text in batch], batch[0].wanted)
        except Exception as error:
            for request in {id(text.request): text.request for text in batch}.values():
                with self._changed:
                    self._drop(request)
                _tell(request, request.future.set_exception, error)
            return _LastBatch()
        now = time.perf_counter()
        self._metrics.add("te_batch_count")
        self._metrics.add("te_embed_tokens", num_tokens)
        self._metrics.observe("te_batch_next_size", len(batch))
        self._metrics.observe("te_batch_next_tokens", num_tokens)
        self._metrics.observe("te_inference_duration", now - started)
        for text in batch:
            self._metrics.observe("te_queue_duration", started - text.since)
        with self._changed:  # the lanes may finish two texts of one request at the same time
            done = []
            num_waiting = len(self._waiting[lane])
            for text, result in zip(batch, vectors, strict=True):
                text.request.results[text.place] = result
                text.request.missing -= 1
                if text.request.missing == 0:
                    done.append(text.request)
        for request in done:
            _tell(request, request.future.set_result, None)
        return _LastBatch(len(batch), num_waiting, seconds=now - started, ended=now)


def _run_call(call: _Call) -> None:
    try:
        value = call.function()
    except Exception as error:
        _tell(call.request, call.request.future.set_exception, error)
    else:
        _tell(call.request, call.request.future.set_result, value)


def _tell(request: _Request, tell: Callable[[Any], None], value: Any) -> None:
    """Hand a result over to the event loop, unless nobody waits for it any more."""

    def hand_over() -> None:
        if not request.future.done():
            tell(value)

    with suppress(RuntimeError):  # the loop ended while the batch ran
        request.loop.call_soon_threadsafe(hand_over)
