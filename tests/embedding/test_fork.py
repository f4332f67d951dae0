"""A process that forks while another of its threads embeds: the child embeds, too."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder

SENTENCES = [["a", "bank", "by", "the", "river"], ["a", "bank"]]


def exit_code(child: int) -> int | None:
    """Of a child that ends within a minute; None for one that hangs, which is then ended."""
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_while_another_thread_embeds(make_bilm: Callable[..., PretrainedBiLM]) -> None:
    """The other thread packs weights and fills the word cache all the time: some forks come while it holds a lock."""
    embedder = Embedder(make_bilm(cell_dim=200, projection_dim=40))
    expected = embedder.embed(SENTENCES)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            with torch.no_grad():
                for parameter in embedder.model.parameters():
                    parameter.mul_(1.0)  # the same values, packed anew
            embedder.embed(SENTENCES)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(15):
            child = os.fork()
            if child == 0:
                same = all(map(np.array_equal, embedder.embed(SENTENCES), expected))
                os._exit(0 if same else 1)
            assert exit_code(child) == 0
    finally:
        stop.set()
        thread.join()
