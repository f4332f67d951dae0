"""Reading, embedding and writing at the same time: a thread ahead, a thread behind, bounded queues between."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")

_END = object()


class _Room:
    """Bounds the size of what is on its way from one thread, which takes room, to another, which gives it back.

    The two threads share simple queues and flags, no lock written in Python: Ctrl-C inside the methods of such a lock
    leaves it acquired, and the other thread would wait for it forever.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._num_bytes = max_bytes, 0
        self._given_back: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.closed = False
        """Whether the thread that gives room back has ended; nobody waits for it then."""

    def take(self, size: int) -> None:
        # One item may be larger than all that is allowed; it then goes alone.
        while self._num_bytes and self._num_bytes + size > self._max_bytes and not self.closed:
            self._num_bytes -= self._given_back.get()
        self._num_bytes += size

    def give_back(self, size: int) -> None:
        self._given_back.put(size)

    def close(self) -> None:
        self.closed = True
        self._given_back.put(0)  # wakes who waits

    def wait_until_closed(self) -> None:
        while not self.closed:
            self._given_back.get()


def read_ahead(items: Iterable[Item], size: Callable[[Item], int], *, max_bytes: int) -> Iterator[Item]:
    """The same items, fetched by a thread of their own; at most `max_bytes` wait. Its errors are raised here."""
    fetched: queue.SimpleQueue[Item | object] = queue.SimpleQueue()
    room = _Room(max_bytes)
    failure: list[BaseException] = []

    def fetch() -> None:
        try:
            for item in items:
                room.take(size(item))
                if room.closed:
                    return
                fetched.put(item)
        except BaseException as error:
            failure.append(error)
        fetched.put(_END)

    thread = threading.Thread(target=fetch, name="elmo-read", daemon=True)
    thread.start()
    try:
        while (item := fetched.get()) is not _END:
            room.give_back(size(item))  # type: ignore[arg-type]
            yield item  # type: ignore[misc]
        if failure:
            raise failure[0]
    finally:
        room.close()


class WriteBehind(Generic[Item]):
    """Hands items to `write` in a thread of its own. Waits when more than `max_bytes` are on their way.

    An error of the thread is raised at the next `put` or at the end of the `with` statement, which waits for the rest.
    After Ctrl-C, what still waits is dropped. The thread has always ended when the `with` statement has.

    The end does not use `Thread.join`: interrupted, it takes a live thread for a dead one (Python 3.11).
    """

    def __init__(
        self, write: Callable[[Item], None], size: Callable[[Item], int], *, max_bytes: int = 64 << 20
    ) -> None:
        self._write, self._size = write, size
        self._items: queue.SimpleQueue[Item | object] = queue.SimpleQueue()
        self._room = _Room(max_bytes)
        """An item takes room until the thread has written it."""
        self._dropped = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="elmo-write", daemon=True)

    def put(self, item: Item) -> None:
        self._room.take(self._size(item))
        self._raise_failure()
        self._items.put(item)

    def __enter__(self) -> WriteBehind[Item]:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        interrupt = None
        self._dropped = kind is not None and not issubclass(kind, Exception)
        while not self._room.closed:
            try:
                self._items.put(_END)
                self._room.wait_until_closed()
            except KeyboardInterrupt as error:  # this one waits for one item at most
                interrupt, self._dropped = error, True
        if interrupt is not None:
            raise interrupt
        if kind is None:
            self._raise_failure()

    def _run(self) -> None:
        try:
            while (item := self._items.get()) is not _END and not self._dropped:
                self._write(item)  # type: ignore[arg-type]
                self._room.give_back(self._size(item))  # type: ignore[arg-type]
                del item  # or the last one is held while waiting for the next
        except BaseException as error:
            self._failure = error
        finally:
            self._room.close()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
