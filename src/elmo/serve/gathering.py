"""When a lane should wait for more clients before it runs the next batch.

The clients of a batch are answered together and tend to ask again soon. A lane that starts as soon as the first of them
is back splits them into two groups that stay apart, and two small batches take longer than one large batch. So the lane
learns how many clients come back and how long they take, and waits for them as long as that costs less than a split.

    gathering = Gathering()
    gathering.answered(now, clients=16, waiting=16, tokens=400, waiting_tokens=400, seconds=0.3)
    gathering.arrived(now)                              # for each request that comes
    clients, deadline = gathering.expected()            # start with so many clients, or at that time
"""

from __future__ import annotations

from dataclasses import dataclass

AFFORDABLE = 1 / 6
"""The share of a batch's time that waiting may take: what two halves of 32 texts take longer than the whole."""
PATIENCE = 1.5
"""How much later than usual a client may be."""
WEIGHT = 0.25
"""The weight of the latest batch in the estimates."""


@dataclass
class Gathering:
    """A lane's estimate of its clients. All times are seconds of one clock."""

    returning: float = 1.0
    """The share of a batch's clients that come back within the affordable time."""
    delay: float | None = None
    """How long after their answers the last of those come back; None before any did."""

    _answered_at: float = 0.0
    _clients: int = 0
    _waiting: int = 0
    _affordable: float = 0.0
    _returned: int = 0
    _last_return: float = 0.0

    def answered(
        self, now: float, *, clients: int, waiting: int, tokens: int, waiting_tokens: int, seconds: float
    ) -> None:
        """A batch of so many clients and tokens ran for so many seconds; so many others wait, with so many tokens."""
        self._learn()
        self._answered_at, self._clients, self._waiting = now, clients, waiting
        # The next batch would have the tokens of both. It counts as twice this one at most: a batch of few tokens takes
        # most of its time whatever their number, so that its time does not tell how long many would take.
        self._affordable = AFFORDABLE * seconds * (1 + min(waiting_tokens / tokens, 1))
        self._returned = 0

    def arrived(self, now: float) -> None:
        """A request came."""
        delay = now - self._answered_at
        if delay <= self._affordable and self._returned < self._clients:
            self._returned += 1
            self._last_return = delay

    def expected(self) -> tuple[int, float]:
        """How many clients the next batch should have, and until when to wait for them."""
        wait = self._affordable if self.delay is None else min(self._affordable, PATIENCE * self.delay)
        return self._waiting + round(self.returning * self._clients), self._answered_at + wait

    def _learn(self) -> None:
        if self._clients:
            self.returning += WEIGHT * (self._returned / self._clients - self.returning)
        if self._returned:
            # More clients take longer to come back. A delay that is too short would split them at once.
            shorter = self.delay is not None and self._last_return < self.delay
            weight = WEIGHT if shorter else 1.0
            self.delay = (self.delay or 0.0) + weight * (self._last_return - (self.delay or 0.0))
