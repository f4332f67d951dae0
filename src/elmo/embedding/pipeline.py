"""Reading, embedding and writing at the same time: a thread ahead, a thread behind, bounded queues between."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")

_END = object()


def read_ahead(items: Iterable[Item], *, depth: int = 1024) -> Iterator[Item]:
    """The same items, fetched by a thread of their own up to `depth` ahead. Its errors are raised here."""
    fetched: queue.Queue[object] = queue.Queue(depth)
    stopped = threading.Event()
    failure: list[BaseException] = []

    def put(item: object) -> bool:
        while not stopped.is_set():
            try:
                fetched.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def fetch() -> None:
        try:
            for item in items:
                if not put(item):
                    return
        except BaseException as error:
            failure.append(error)
        put(_END)

    thread = threading.Thread(target=fetch, name="elmo-read", daemon=True)
    thread.start()
    try:
        while (item := fetched.get()) is not _END:
            yield item  # type: ignore[misc]
        if failure:
            raise failure[0]
    finally:
        stopped.set()


class WriteBehind(Generic[Item]):
    """Hands items to `write` in a thread of its own. Waits when more than `max_bytes` are on their way.

    An error of the thread is raised at the next `put` or at the end of the `with` statement, which waits for the rest.
    After Ctrl-C, what still waits is dropped. The thread has always ended when the `with` statement has.

    The two threads share simple queues and flags, no lock written in Python: Ctrl-C inside the methods of such a lock
    leaves it acquired, and the other thread would wait for it forever. Neither `Thread.join`: interrupted, it takes a
    live thread for a dead one (Python 3.11).
    """

    def __init__(
        self, write: Callable[[Item], None], size: Callable[[Item], int], *, max_bytes: int = 64 << 20
    ) -> None:
        self._write, self._size, self._max_bytes = write, size, max_bytes
        self._items: queue.SimpleQueue[Item | object] = queue.SimpleQueue()
        self._written: queue.SimpleQueue[int] = queue.SimpleQueue()
        """The size of each item that the thread has written."""
        self._num_bytes = 0
        self._dropped = False
        self._finished = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="elmo-write", daemon=True)

    def put(self, item: Item) -> None:
        size = self._size(item)
        # One item may be larger than all that is allowed; it then goes alone.
        while self._num_bytes and self._num_bytes + size > self._max_bytes and not self._finished:
            self._num_bytes -= self._written.get()
        self._raise_failure()
        self._num_bytes += size
        self._items.put(item)

    def __enter__(self) -> WriteBehind[Item]:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        interrupt = None
        self._dropped = kind is not None and not issubclass(kind, Exception)
        while not self._finished:
            try:
                self._items.put(_END)
                while not self._finished:
                    self._written.get()
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
                self._written.put(self._size(item))  # type: ignore[arg-type]
                del item  # or the last one is held while waiting for the next
        except BaseException as error:
            self._failure = error
        finally:
            self._finished = True
            self._written.put(0)  # wakes who waits

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
