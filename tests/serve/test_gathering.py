"""When a lane waits for more clients, in simulated time: nothing here depends on the machine's speed."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import pytest

from elmo.serve.gathering import AFFORDABLE, Gathering

TOKENS = 20
"""Of each text."""
FIXED, PER_TEXT = 0.1, 0.015
"""The time of a batch: as for the paper's model, two batches of 16 take 17% longer than one of 32."""


class Simulation:
    """Clients that send a text, get its vector and send the next one after a delay."""

    def __init__(self, delays: list[float], *, starts: list[float] | None = None) -> None:
        self.delays, self.gathering = delays, Gathering()
        self.now, self.idle = 0.0, 0.0
        """`idle` is the time that texts waited while nothing ran."""
        self.arrivals = [(start, client) for client, start in enumerate(starts or [0.0] * len(delays))]
        heapq.heapify(self.arrivals)
        self.waiting: list[int] = []

    def _advance(self, time: float) -> None:
        while self.arrivals and self.arrivals[0][0] <= time:
            arrival, client = heapq.heappop(self.arrivals)
            self.gathering.arrived(arrival)
            self.waiting.append(client)
        self.now = max(self.now, time)

    def run(self, batches: int, *, until: Callable[[], bool] = lambda: False) -> list[int]:
        sizes = []
        while len(sizes) < batches and not until():
            if not self.waiting:
                self._advance(self.arrivals[0][0])
            began = self.now
            while len(self.waiting) < self.gathering.expected()[0] and self.now < self.gathering.expected()[1]:
                deadline = self.gathering.expected()[1]
                self._advance(min(deadline, self.arrivals[0][0]) if self.arrivals else deadline)
            self.idle += self.now - began
            batch, self.waiting = self.waiting, []
            seconds = FIXED + PER_TEXT * len(batch)
            self._advance(self.now + seconds)
            self.gathering.answered(
                self.now, clients=len(batch), waiting=len(self.waiting),
                tokens=TOKENS * len(batch), waiting_tokens=TOKENS * len(self.waiting), seconds=seconds,
            )  # fmt: skip
            for client in batch:
                if self.delays[client] >= 0:
                    heapq.heappush(self.arrivals, (self.now + self.delays[client], client))
            sizes.append(len(batch))
        return sizes


def test_clients_in_two_groups_are_merged() -> None:
    # Half of the clients come while the first half runs; all of them take 2 to 64 ms to ask again.
    clients = Simulation([0.002 * (1 + number) for number in range(32)], starts=[0.0] * 16 + [0.1] * 16)
    sizes = clients.run(20)
    assert sizes[0] == 16
    assert sizes[5:] == [32] * 15


def test_clients_that_join_soon_share_a_batch() -> None:
    starts = [0.0] + [5.0 + 0.002 * number for number in range(31)]
    clients = Simulation([0.002 * (1 + number) for number in range(32)], starts=starts)
    clients.run(1000, until=lambda: clients.now > 5.0)
    assert clients.gathering.delay is not None and clients.gathering.delay < 0.01  # as one client had it
    assert clients.run(20)[4:] == [32] * 16


def test_a_single_client_never_waits() -> None:
    for delay in (0.001, 0.05, 3.0):
        client = Simulation([delay])
        assert client.run(20) == [1] * 20
        assert client.idle == 0


def test_clients_that_take_longer_than_a_split_costs_are_not_waited_for() -> None:
    clients = Simulation([5.0 + number for number in range(8)])
    clients.run(10)
    before = clients.idle
    clients.run(60)
    assert clients.idle - before < 0.01 * (clients.now - before)


def test_fast_clients_share_batches_beside_slow_ones() -> None:
    clients = Simulation([0.01] * 16 + [2.0] * 16)
    sizes = clients.run(60)
    assert sum(size >= 16 for size in sizes[10:]) >= 45


def test_a_client_that_left_is_soon_forgotten() -> None:
    clients = Simulation([0.01] * 4 + [-1.0] * 4)
    clients.run(12)
    before = clients.idle
    assert clients.run(20) == [4] * 20
    assert clients.idle - before <= 20 * 0.0101  # the return time of the others, and no more


def test_waiting_time_is_bounded() -> None:
    gathering = Gathering()
    gathering.answered(10.0, clients=8, waiting=8, tokens=80, waiting_tokens=80, seconds=0.6)
    number, deadline = gathering.expected()
    assert number == 16 and deadline == 10.0 + AFFORDABLE * 1.2
    for _ in range(8):
        gathering.arrived(10.01)
    gathering.answered(11.0, clients=16, waiting=0, tokens=160, waiting_tokens=0, seconds=0.6)
    number, deadline = gathering.expected()
    assert number == 16 and deadline < 11.0 + AFFORDABLE * 0.6  # they come back much sooner


@pytest.mark.parametrize(
    ("tokens", "waiting", "waiting_tokens", "seconds", "longest"),
    [
        (3840, 200, 2000, 0.6, 0.1 * (1 + 2000 / 3840)),  # small requests behind a large one are little work
        (3840, 1, 256, 0.6, 0.1 * (1 + 256 / 3840)),
        (100, 0, 0, 0.6, 0.1),
        (1, 200, 2000, 0.6, 0.2),  # a tiny batch does not tell how long a large one takes, only what it took itself
    ],
)
def test_the_work_that_waits_counts_not_its_clients(
    tokens: int, waiting: int, waiting_tokens: int, seconds: float, longest: float
) -> None:
    gathering = Gathering()
    gathering.answered(
        10.0, clients=1, waiting=waiting, tokens=tokens, waiting_tokens=waiting_tokens, seconds=seconds
    )  # fmt: skip
    number, deadline = gathering.expected()
    assert number == waiting + 1 and deadline == pytest.approx(10.0 + longest)
