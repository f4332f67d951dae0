"""A real server in a process of its own, with a small model that has a vocabulary and a softmax."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

import torch

import elmo
from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.bilm.initialise import initialise
from elmo.checkpoints.checkpoint import SoftmaxWeights
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.text.characters import CharacterScheme
from elmo.text.vocabulary import Vocabulary

MAIN = "from elmo.commands import main; main()"
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SOURCE = Path(elmo.__file__).parents[1]
"""Of the package under test: the source tree or an installed wheel."""


def value(server: Server, name: str, headers: dict[str, str] | None = None) -> float:
    text = httpx.get(server.url + "/metrics", headers=headers, timeout=60).text
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    assert found, name
    return float(found.group(1))


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.02)


@dataclass
class Server:
    """A server process, its address and what it logged."""

    process: subprocess.Popen[str]
    reader: threading.Thread | None = None
    lines: list[str] = field(default_factory=list)
    url: str = ""

    def events(self, name: str) -> list[dict[str, object]]:
        return [line for line in map(json.loads, list(self.lines)) if line["event"] == name]

    def wait_for(self, name: str, seconds: float = 60) -> dict[str, object]:
        wait_until(lambda: bool(self.events(name)) or self.process.poll() is not None, seconds)
        assert self.events(name), "\n".join(self.lines)
        return self.events(name)[0]

    def wait_until_ready(self, seconds: float = 90) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if httpx.get(self.url + "/health", timeout=30).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise AssertionError("the server did not become healthy: " + "\n".join(self.lines))

    def stop(self) -> int:
        """Its exit code; all of its log is read then."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        assert self.reader is not None
        self.reader.join(60)
        return code


def save_model(folder: Path, *, seed: int, num_layers: int) -> Path:
    """Random weights, a vocabulary and a softmax; 16 numbers a vector."""
    config = BiLMConfig(
        lstm=LstmConfig(cell_dim=16, projection_dim=8, num_layers=num_layers),
        characters=CharacterScheme.utf8(),
        char_cnn=CharCnnConfig(character_dim=4, filters=((1, 4), (2, 8), (3, 8)), num_highway=1),
    )
    bilm = PretrainedBiLM(config)
    generator = torch.Generator().manual_seed(seed)
    initialise(bilm, generator)
    text = "the bank of the river was near a bank in town . we sat on it"
    bilm.vocabulary = Vocabulary.build(text.split())
    size = len(bilm.vocabulary.words)
    bilm.softmax = SoftmaxWeights(torch.randn(size, 8, generator=generator), torch.zeros(size))
    bilm.eval().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with 2 layers and the tokens'."""
    return save_model(tmp_path_factory.mktemp("models") / "small", seed=5, num_layers=2)


@pytest.fixture(scope="session")
def second_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another model, with 3 layers and the tokens'."""
    return save_model(tmp_path_factory.mktemp("models") / "other", seed=6, num_layers=3)


@pytest.fixture(scope="session")
def start_server(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Starts servers; those still running at the end are stopped."""
    started: list[Server] = []
    cache = tmp_path_factory.mktemp("cache")

    def start(
        *options: str, ready: bool = True, model: Path | None = model_folder, program: str = MAIN, **environment: str
    ) -> Server:
        variables = {
            **os.environ, "OMP_NUM_THREADS": "1", "ELMO_HOME": str(cache), "PYTHONPATH": str(SOURCE), **environment
        }  # fmt: skip
        arguments = [sys.executable, "-c", program, "serve", "--port", "0", *options]
        arguments += [] if model is None else ["--model", str(model)]
        process = subprocess.Popen(arguments, env=variables, stderr=subprocess.PIPE, text=True)
        server = Server(process)
        started.append(server)

        def collect() -> None:
            assert process.stderr is not None
            for line in process.stderr:
                server.lines.append(line)

        server.reader = threading.Thread(target=collect, daemon=True)
        server.reader.start()
        server.url = str(server.wait_for("listening")["address"])
        if ready:
            server.wait_until_ready()
        return server

    yield start
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait(10)


@pytest.fixture(scope="session")
def pair(start_server: Callable[..., Server], second_folder: Path) -> Server:
    """A server with a second model to compare with."""
    return start_server("--compare", str(second_folder))


@pytest.fixture(scope="session")
def server(start_server: Callable[..., Server]) -> Server:
    """One server for every test that changes nothing."""
    server = start_server()
    server.wait_for("index ready")
    return server
