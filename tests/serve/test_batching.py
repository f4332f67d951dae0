"""How texts of many clients become batches: what runs together, and which request waits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import numpy as np
import pytest

pytest.importorskip("fastapi")

from elmo.serve.batching import Batcher, Wanted, _Lane, _Request, _Text
from elmo.serve.gathering import Gathering
from elmo.serve.metrics import Metrics
from elmo.serve.settings import ServeSettings

MEAN = Wanted("average", "mean")


def batches_of(clients: Callable[[Batcher], Awaitable[object]], *, seconds: float, budget: int = 4096) -> list[int]:
    """The sizes of the batches that the clients' texts ran in, each of which takes so many seconds."""
    sizes: list[int] = []

    def embed(texts: list[list[str]], wanted: Wanted) -> list[np.ndarray]:
        sizes.append(len(texts))
        time.sleep(seconds)
        return [np.full(4, len(tokens)) for tokens in texts]

    batcher = Batcher(embed, ServeSettings(max_batch_tokens=budget), Metrics())
    try:
        asyncio.run(asyncio.wait_for(clients(batcher), 60))  # type: ignore[arg-type]
    finally:
        batcher.stop()
    return sizes


async def ask_again_and_again(batcher: Batcher, *, times: int, tokens: int = 3, pause: float = 0) -> None:
    for _ in range(times):
        await asyncio.sleep(pause)
        (vector,) = await batcher.embed([["word"] * tokens], MEAN)
        assert vector.tolist() == [tokens] * 4


def test_a_single_client_does_not_wait() -> None:
    async def clients(batcher: Batcher) -> None:
        await ask_again_and_again(batcher, times=20)
        await batcher.embed([["a"], ["request"], ["of"], ["several"]], MEAN)
        await asyncio.sleep(0.3)  # longer than a lane gathers
        await ask_again_and_again(batcher, times=1)

    assert batches_of(clients, seconds=0.01) == [1] * 20 + [4, 1]


def test_requests_that_come_at_the_same_time_run_together() -> None:
    async def clients(batcher: Batcher) -> None:
        await asyncio.gather(*(batcher.embed([["word"] * 3], MEAN) for _ in range(20)))

    assert batches_of(clients, seconds=0.01) == [20]


def test_batches_stay_within_the_token_budget() -> None:
    async def clients(batcher: Batcher) -> None:
        await asyncio.gather(*(batcher.embed([["word"] * 8], MEAN) for _ in range(40)))

    sizes = batches_of(clients, seconds=0.05, budget=40)
    assert sum(sizes) == 40
    assert max(sizes) == 4  # a text takes its two markers with it


def test_a_request_with_many_texts_does_not_delay_one_with_few() -> None:
    may_run, batches = threading.Event(), []

    def embed(texts: list[list[str]], wanted: Wanted) -> list[np.ndarray]:
        may_run.wait(30)
        batches.append([tokens[0] for tokens in texts])
        return [np.zeros(4) for _ in texts]

    batcher = Batcher(embed, ServeSettings(max_batch_tokens=100), Metrics())

    async def clients() -> None:
        many = asyncio.ensure_future(batcher.embed([["many"] * 8] * 200, MEAN))
        await asyncio.sleep(0)
        few = asyncio.ensure_future(batcher.embed([["few"] * 8] * 3, MEAN))
        await asyncio.sleep(0)
        may_run.set()
        await asyncio.gather(many, few)

    try:
        asyncio.run(clients())
    finally:
        batcher.stop()
    assert sum(map(len, batches)) == 203 and len(batches) == 21  # ten texts in each, cut from two requests
    # At most the batch that ran already, and one with the texts that were due before the others came.
    assert all("few" not in batch for batch in batches[4:])


def test_clients_that_ask_again_and_again_do_not_starve_a_request_with_several_texts() -> None:
    async def clients(batcher: Batcher) -> None:
        several = asyncio.ensure_future(batcher.embed([["word"] * 8] * 5, Wanted("all")))

        async def ask() -> None:
            for _ in range(50):
                await batcher.embed([["word"] * 8], MEAN)

        asking = [asyncio.ensure_future(ask()) for _ in range(2)]
        await asyncio.wait({several, *asking}, return_when=asyncio.FIRST_COMPLETED)
        assert several.done() and not asking[0].done()
        await asyncio.gather(*asking)

    batches_of(clients, seconds=0.01, budget=10)


def test_a_batch_takes_time_in_proportion_to_its_texts_not_to_the_queue() -> None:
    """Texts that want other vectors, or do not fit, are not touched."""
    lane = _Lane(threading.Lock())
    compared = 0

    class Turn(float):
        def __lt__(self, other: float) -> bool:
            nonlocal compared
            compared += 1
            return float(self) < other

    for wanted in (MEAN, Wanted("all")):
        request = _Request(asyncio.Future(loop=asyncio.new_event_loop()), [None] * 2000, 2000, wanted)
        lane.add([_Text((Turn(place), place), ["word"] * 9, place, request) for place in range(2000)], request)
    compared = 0
    assert len(lane.take(100)) == 9
    assert compared < 1000


def test_a_lane_learns_the_work_of_its_batch_and_the_work_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, float]] = []
    monkeypatch.setattr(Gathering, "answered", lambda self, now, **facts: told.append(facts))
    runs, may_run = threading.Event(), threading.Event()

    def embed(texts: list[list[str]], wanted: Wanted) -> list[np.ndarray]:
        runs.set()
        may_run.wait(30)
        return [np.zeros(4) for _ in texts]

    batcher = Batcher(embed, ServeSettings(), Metrics())

    async def clients() -> None:
        large = asyncio.ensure_future(batcher.embed([["word"] * 120] * 32, MEAN))
        assert await asyncio.to_thread(runs.wait, 30)
        small = [asyncio.ensure_future(batcher.embed([["word"] * 10], MEAN)) for _ in range(200)]
        await asyncio.sleep(0)
        may_run.set()
        await asyncio.gather(large, *small)

    try:
        asyncio.run(clients())
    finally:
        batcher.stop()
    first = {name: value for name, value in told[0].items() if name != "seconds"}
    assert first == {"clients": 1, "waiting": 200, "tokens": 3840, "waiting_tokens": 2000}


def test_calls_run_between_the_texts_of_a_large_request() -> None:
    ran: list[str] = []
    may_run = threading.Event()

    def embed(texts: list[list[str]], wanted: Wanted) -> list[np.ndarray]:
        may_run.wait(30)
        ran.extend("text" for _ in texts)
        return [np.zeros(4) for _ in texts]

    batcher = Batcher(embed, ServeSettings(max_batch_tokens=200), Metrics())

    async def clients() -> None:
        large = asyncio.ensure_future(batcher.embed([["word"] * 190] * 20, MEAN))
        await asyncio.sleep(0.1)  # its first text runs
        calls = [asyncio.ensure_future(batcher.call(lambda: ran.append("call"))) for _ in range(4)]
        await asyncio.sleep(0)
        may_run.set()
        await asyncio.gather(large, *calls)

    try:
        asyncio.run(clients())
    finally:
        batcher.stop()
    assert ran.count("text") == 20 and ran.count("call") == 4
    assert "call" not in ran[6:], "calls wait for the text that runs and at most one more"


def test_a_stop_does_not_wait_long_for_work_whose_client_has_gone() -> None:
    may_end, running = threading.Event(), threading.Event()
    batcher = Batcher(lambda texts, wanted: [], ServeSettings(), Metrics())

    def work() -> None:
        running.set()
        may_end.wait(60)

    async def ask_and_go() -> None:
        asking = asyncio.ensure_future(batcher.call(work))
        assert await asyncio.to_thread(running.wait, 60)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(ask_and_go())
    assert batcher.stop() is False
    may_end.set()
    assert batcher.stop() is True


def test_short_calls_and_long_texts_alternate() -> None:
    async def clients(batcher: Batcher) -> None:
        async def call_again_and_again() -> None:
            while True:
                await batcher.call(lambda: time.sleep(0.02))

        calling = [asyncio.ensure_future(call_again_and_again()) for _ in range(3)]
        await asyncio.sleep(0.1)
        await asyncio.wait_for(ask_again_and_again(batcher, times=3, tokens=200), 60)
        await asyncio.wait_for(batcher.embed([["word"] * 200] * 3, MEAN), 60)
        for each in calling:
            each.cancel()

    assert batches_of(clients, seconds=0.01, budget=202) == [1] * 6


def test_queued_work_of_a_disconnected_client_is_dropped() -> None:
    metrics, may_end, ran = Metrics(), threading.Event(), []
    batcher = Batcher(lambda texts, wanted: [np.zeros(4) for _ in texts], ServeSettings(max_queue_tokens=400), metrics)

    async def clients() -> None:
        working = asyncio.ensure_future(batcher.call(lambda: may_end.wait(30)))
        leaving = [asyncio.ensure_future(batcher.embed([["long"] * 390], MEAN))]
        leaving += [asyncio.ensure_future(batcher.call(lambda: ran.append(1))) for _ in range(5)]
        await asyncio.sleep(0.1)
        for each in leaving:
            each.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        # The lane of short texts is free, and the queue has room although the other lane is still at work.
        await asyncio.wait_for(batcher.embed([["short"] * 100], MEAN), 60)
        may_end.set()
        await working

    try:
        asyncio.run(clients())
    finally:
        may_end.set()
        batcher.stop()
    assert ran == []
    assert "te_queue_tokens 0" in metrics.text()
