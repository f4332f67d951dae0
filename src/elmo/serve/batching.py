"""Texts of many requests -> batches -> vectors, on threads beside the event loop.

Two lanes, each with a thread: short texts never wait for a long one, and both run at the same time. A lane takes the
first text in its queue and adds, up to the token budget, the next ones that want the same vectors. The next batch
gathers while one runs; `gathering` says when to wait for more. Requests take turns (fair queueing): those with many
texts do not delay those with few, and those with few, however many they are, do not stop one with many.

    batcher = Batcher(embed, settings, metrics)
    vectors = await batcher.embed([["A", "sentence", "."]], Wanted("average", "mean"))
    value = await batcher.call(function)                        # other work for the CPU
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from elmo.serve.errors import ServiceError
from elmo.serve.gathering import Gathering
from elmo.serve.metrics import Metrics
from elmo.serve.settings import ServeSettings

SHORT_TEXT = 128
"""The most tokens of a text in the lane of short texts."""

STOP_SECONDS = 2.0
"""How long a stop waits for running work: its clients have been answered or have disconnected."""

T = TypeVar("T")


class Wanted(NamedTuple):
    """The vectors that a text needs; texts that need the same run together."""

    layers: str | int | tuple[float, ...]
    pooling: str | None = None


Embed = Callable[[list[list[str]], Wanted], list[np.ndarray]]


@dataclass(eq=False)
class _Request:
    """The texts of one request, which are answered together."""

    future: asyncio.Future[Any]
    results: list[np.ndarray | None]
    missing: int
    wanted: Wanted | None
    """None for a call."""


@dataclass(order=True)
class _Text:
    due: tuple[float, int]
    """The lane's clock when it is this text's turn, and a number that grows."""
    tokens: list[str] = field(compare=False)
    place: int = field(compare=False)
    request: _Request = field(compare=False)
    since: float = field(compare=False, default_factory=time.perf_counter)


@dataclass
class _Call:
    due: tuple[float, int]
    function: Callable[[], Any]
    request: _Request


class _Lane:
    """A queue of texts and calls, and the thread that works on it. Everything here is under the batcher's lock."""

    def __init__(self, lock: threading.Lock) -> None:
        self.texts: dict[Wanted | None, list[_Text]] = {}
        """A heap of the texts that want the same; none is empty."""
        self.calls: deque[_Call] = deque()
        self.clients: Counter[_Request] = Counter()
        """The requests with texts in the queue."""
        self.num_tokens = 0
        self.clock = 0.0
        """The tokens of each request that have run, if all that wait share the lane equally."""
        self.gathering = Gathering()
        self.is_gathering = False
        """The thread has texts and waits for more."""
        self.is_waking = False
        """The thread is about to be notified."""
        self.changed = threading.Condition(lock)

    def add(self, texts: Sequence[_Text], request: _Request) -> None:
        heap = self.texts.setdefault(request.wanted, [])
        for text in texts:
            heapq.heappush(heap, text)
            self.num_tokens += len(text.tokens)
        self.clients[request] += len(texts)
        self.gathering.arrived(time.perf_counter())

    def drop(self, request: _Request) -> None:
        """Forget a request whose client disconnected, or one of whose texts failed."""
        if request in self.clients:
            heap = self.texts.pop(request.wanted)
            self.num_tokens -= sum(len(text.tokens) for text in heap if text.request is request)
            if others := [text for text in heap if text.request is not request]:
                heapq.heapify(others)
                self.texts[request.wanted] = others
            del self.clients[request]
        self.calls = deque(call for call in self.calls if call.request is not request)

    def next_call(self, cost: int) -> _Call | None:
        """A call whose turn comes before the first text's. It counts as so many tokens."""
        if not self.calls or any(heap[0].due < self.calls[0].due for heap in self.texts.values()):
            return None
        self._advance(cost)
        return self.calls.popleft()

    def take(self, budget: int) -> list[_Text]:
        """The next batch: the first text, and as many of the next ones that want the same as fit."""
        batch: list[_Text] = []
        heap = min(self.texts.values(), key=lambda heap: heap[0], default=[])
        while heap and (not batch or len(heap[0].tokens) + 2 <= budget):
            batch.append(heapq.heappop(heap))
            budget -= len(batch[-1].tokens) + 2
        if batch and not heap:
            del self.texts[batch[0].request.wanted]
        num_tokens = sum(len(text.tokens) for text in batch)
        self.num_tokens -= num_tokens
        self._advance(num_tokens)
        self.clients -= Counter(text.request for text in batch)
        return batch

    def _advance(self, num_tokens: int) -> None:
        self.clock += num_tokens / max(len(self.clients) + len(self.calls), 1)


class Batcher:
    """The queue in front of a model."""

    def __init__(self, embed: Embed, settings: ServeSettings, metrics: Metrics) -> None:
        self._embed, self._settings, self._metrics = embed, settings, metrics
        self._lock = threading.Lock()
        self._short, self._long = _Lane(self._lock), _Lane(self._lock)
        self._numbers = itertools.count()
        self._stopping = False
        self._running = 0
        self._last_end = 0.0
        """When the last batch or call ended."""
        self._call: _Call | None = None
        """The call that runs."""
        self._threads = [
            threading.Thread(target=self._work, args=(lane,), name=name, daemon=True)
            for name, lane in (("short", self._short), ("long", self._long))
        ]
        for thread in self._threads:
            thread.start()

    async def embed(self, texts: Sequence[list[str]], wanted: Wanted) -> list[np.ndarray]:
        """The vectors of each text. Raises 429 at once when the queue is full."""
        request = _Request(asyncio.get_running_loop().create_future(), [None] * len(texts), len(texts), wanted)
        with self._lock:
            if self._num_tokens + sum(map(len, texts)) > self._settings.max_queue_tokens:
                raise ServiceError(429, "The queue is full; try again in a moment.")
            for lane in (self._short, self._long):
                turn, own = lane.clock, []
                for place, tokens in enumerate(texts):
                    if (len(tokens) <= SHORT_TEXT) == (lane is self._short):
                        own.append(_Text((turn, next(self._numbers)), tokens, place, request))
                        turn += len(tokens)
                if own:
                    lane.add(own, request)
                    if not lane.is_gathering or self._is_enough(lane):  # the thread need not wake up for each text
                        self._wake(lane)
            self._show_queue()
        await self._result(request)
        self._metrics.add("te_embed_success", len(texts))
        return [result for result in request.results if result is not None]

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function on the thread of the long texts."""
        request = _Request(asyncio.get_running_loop().create_future(), [], 0, None)
        with self._lock:
            self._long.calls.append(_Call((self._long.clock, next(self._numbers)), function, request))
            self._long.changed.notify()
        return await self._result(request)

    def check_client(self) -> None:
        """For calls that take long: stop the one that runs if its client has disconnected."""
        if self._call is not None and self._call.request.future.done():
            raise ServiceError(499, "The client disconnected.")

    def is_idle(self, seconds: float) -> bool:
        """Whether nothing runs or waits, and nothing did for so many seconds."""
        with self._lock:
            waiting = self._short.texts or self._long.texts or self._long.calls
            return not waiting and not self._running and time.perf_counter() - self._last_end >= seconds

    def stop(self) -> bool:
        """End the threads when the queue is empty; False if one still runs after `STOP_SECONDS`."""
        with self._lock:
            self._stopping = True
            self._short.changed.notify()
            self._long.changed.notify()
        end = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def _num_tokens(self) -> int:
        return self._short.num_tokens + self._long.num_tokens

    async def _result(self, request: _Request) -> Any:
        try:
            return await request.future
        except asyncio.CancelledError:
            with self._lock:
                self._drop(request)
            raise

    def _drop(self, request: _Request) -> None:
        self._short.drop(request)
        self._long.drop(request)
        self._show_queue()

    def _wake(self, lane: _Lane) -> None:
        """Notify the thread once for all requests that this turn of the event loop brings: they run together."""
        if not lane.is_waking:
            lane.is_waking = True
            asyncio.get_running_loop().call_soon(self._notify, lane)

    def _notify(self, lane: _Lane) -> None:
        with self._lock:
            lane.is_waking = False
            lane.changed.notify()

    def _is_enough(self, lane: _Lane) -> bool:
        """Whether the lane need not wait for more clients."""
        full = lane.num_tokens >= self._settings.max_batch_tokens
        return self._stopping or full or bool(lane.calls) or len(lane.clients) >= lane.gathering.expected()[0]

    def _work(self, lane: _Lane) -> None:
        while True:
            with self._lock:
                lane.changed.wait_for(lambda: self._stopping or lane.calls or lane.texts)
                if not lane.calls and not lane.texts:
                    return
                call = lane.next_call(self._settings.max_batch_tokens)
                if call is None:
                    left = lane.gathering.expected()[1] - time.perf_counter()
                    if left > 0:
                        lane.is_gathering = True
                        lane.changed.wait_for(lambda: self._is_enough(lane), timeout=left)
                        lane.is_gathering = False
                    batch = lane.take(self._settings.max_batch_tokens)
                    self._show_queue()
                self._running += 1
            if call is not None:
                self._call = call
                _run_call(call)
                self._call = None
            elif batch:
                self._run(lane, batch)
            with self._lock:
                self._running -= 1
                self._last_end = time.perf_counter()

    def _show_queue(self) -> None:
        self._metrics.set("te_queue_size", self._short.clients.total() + self._long.clients.total())
        self._metrics.set("te_queue_tokens", self._num_tokens)

    def _run(self, lane: _Lane, batch: list[_Text]) -> None:
        started = time.perf_counter()
        num_tokens = sum(len(text.tokens) for text in batch)
        requests = {text.request for text in batch}
        try:
            wanted = batch[0].request.wanted
            assert wanted is not None
            vectors = self._embed([text.tokens for text in batch], wanted)
        except Exception as error:
            with self._lock:
                for request in requests:
                    self._drop(request)
            _tell([(request.future, error) for request in requests])
            return
        now = time.perf_counter()
        self._metrics.add("te_batch_count")
        self._metrics.add("te_embed_tokens", num_tokens)
        self._metrics.observe("te_batch_next_size", len(batch))
        self._metrics.observe("te_batch_next_tokens", num_tokens)
        self._metrics.observe("te_inference_duration", now - started)
        self._metrics.observe("te_queue_duration", *(started - text.since for text in batch))
        with self._lock:  # both lanes may finish texts of one request at the same time
            for text, result in zip(batch, vectors, strict=True):
                text.request.results[text.place] = result
                text.request.missing -= 1
            done = [request for request in requests if request.missing == 0]
            if done:
                lane.gathering.answered(
                    now, clients=len(done), waiting=len(lane.clients),
                    tokens=num_tokens, waiting_tokens=lane.num_tokens, seconds=now - started,
                )  # fmt: skip
        _tell([(request.future, None) for request in done])


def _run_call(call: _Call) -> None:
    try:
        value = call.function()
    except Exception as error:
        value = error
    _tell([(call.request.future, value)])


def _tell(results: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    """Hand results or exceptions over to the event loop, all in one step: each wakes it up."""

    def hand_over() -> None:
        for future, value in results:
            if future.done():  # the client disconnected
                continue
            if isinstance(value, Exception):
                future.set_exception(value)
            else:
                future.set_result(value)

    if results:
        with suppress(RuntimeError):  # the loop ended while the batch ran
            results[0][0].get_loop().call_soon_threadsafe(hand_over)
