import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from elmo.embedding.pipeline import WriteBehind, read_ahead


# One given out, those that wait, and one in the thread's hands; an item larger than the bound waits alone.
@pytest.mark.parametrize(("size", "most"), [(10, 1 + 5 + 1), (1000, 1 + 1 + 1)])
def test_reading_ahead_keeps_order_and_bound(size: int, most: int) -> None:
    taken = []

    def source() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    items = read_ahead(source(), size=lambda _: size, max_bytes=50)
    assert next(items) == 0
    time.sleep(0.3)
    assert len(taken) <= most
    assert list(items) == list(range(1, 100))


def test_the_readers_error_comes_through() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise ValueError("broken line")

    items = read_ahead(source(), size=lambda _: 1, max_bytes=9)
    assert next(items) == 1
    with pytest.raises(ValueError, match="broken line"):
        next(items)


def test_leaving_early_ends_the_reading_thread() -> None:
    items = read_ahead(iter(range(10**9)), size=lambda _: 1, max_bytes=2)
    next(items)
    items.close()  # type: ignore[attr-defined]
    deadline = time.monotonic() + 5
    while any(thread.name == "elmo-read" for thread in threading.enumerate()):
        assert time.monotonic() < deadline, "the thread is still there"
        time.sleep(0.02)


def test_writing_behind_keeps_order_and_waits_when_full() -> None:
    gate, written = threading.Event(), []

    def write(item: int) -> None:
        gate.wait(5)
        written.append(item)

    done = threading.Event()

    def produce() -> None:
        with WriteBehind(write, size=lambda _: 10, max_bytes=30) as behind:
            for number in range(20):
                behind.put(number)
            done.set()

    producer = threading.Thread(target=produce)
    producer.start()
    assert not done.wait(0.3)
    gate.set()
    producer.join(5)
    assert written == list(range(20))


def test_the_writers_error_comes_through() -> None:
    def write(item: int) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), WriteBehind(write, size=lambda _: 1) as behind:
        for number in range(10**6):
            behind.put(number)


def test_an_interrupt_while_standard_input_is_waited_for() -> None:
    """Python itself aborts if a thread is inside sys.stdin's buffer when it ends."""
    code = """
import signal, sys
from elmo.embedding.pipeline import read_ahead
from elmo.text.inputs import read_sentences
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background inherit one that is ignored
try:
    for sentence in read_ahead(read_sentences("-"), size=lambda _: 1, max_bytes=9):
        print(*sentence.tokens, flush=True)
except KeyboardInterrupt:
    sys.exit(130)
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(b"It waits.\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"It waits .\n"
        time.sleep(0.1)  # the thread is back at its reading
        process.send_signal(signal.SIGINT)
        assert (process.wait(20), process.stderr.read()) == (130, b"")


def test_the_thread_has_ended_however_often_it_is_interrupted() -> None:
    """Ctrl-C while the block runs, and again while its end waits for the thread: what is closed next is not in use."""
    code = """
import os, queue, signal, threading, time
from elmo.embedding.pipeline import WriteBehind

signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background inherit one that is ignored
entered, go, written = threading.Event(), threading.Event(), []

def write(item):
    entered.set()
    go.wait()
    written.append(item)

def interrupt_twice():
    entered.wait()
    for _ in range(2):
        while waiting.empty():  # a signal just before the main thread waits does not wake it
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
        waiting.get()
    go.set()

class GivenBack(queue.SimpleQueue):
    def get(self):
        waiting.put(None)
        return super().get()

waiting = queue.SimpleQueue()  # not an Event: interrupted inside its methods, it stays locked
behind = WriteBehind(write, size=lambda _: 1)
behind._room._given_back = GivenBack()
threading.Thread(target=interrupt_twice, daemon=True).start()
try:
    with behind:
        for number in range(5):
            behind.put(number)
        threading.Event().wait()
except KeyboardInterrupt:
    assert behind._room.closed and written == [0], written
    print("ended")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.stdout == "ended\n", result.stderr
