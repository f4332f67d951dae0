"""Reading, embedding and writing at the same time: a thread ahead, a thread behind, bounded queues between."""

from __future__ import annotations

import queue
import threading
from collections import deque
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
    """

    def __init__(
        self, write: Callable[[Item], None], size: Callable[[Item], int], *, max_bytes: int = 128 << 20
    ) -> None:
        self._write, self._size, self._max_bytes = write, size, max_bytes
        self._waiting: deque[Item] = deque()
        self._num_bytes = 0
        self._closed = False
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="elmo-write", daemon=True)

    def put(self, item: Item) -> None:
        with self._changed:
            # One item may be larger than all that is allowed; it then goes alone.
            while self._num_bytes and self._num_bytes + self._size(item) > self._max_bytes and self._failure is None:
                self._changed.wait()
            self._raise_failure()
            self._waiting.append(item)
            self._num_bytes += self._size(item)
            self._changed.notify_all()

    def __enter__(self) -> WriteBehind[Item]:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        if kind is None:
            self._raise_failure()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                item = self._waiting.popleft()
            try:
                self._write(item)
            except BaseException as error:
                with self._changed:
                    self._failure, self._num_bytes = error, 0
                    self._waiting.clear()
                    self._changed.notify_all()
                return
            with self._changed:
                self._num_bytes -= self._size(item)
                self._changed.notify_all()
            del item  # or the last one is held while waiting for the next

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
