"""The process that runs the commands, and their results without a fault."""

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from web_server import WebServer, serve

from faults.commands import CASES, Server, fresh

GOLDEN = Path(__file__).parent.parent / "golden"
AI2 = "/allennlp.s3.amazonaws.com/models/elmo/2x1024_128_2048cnn_1xhighway/elmo_2x1024_128_2048cnn_1xhighway_"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve() as mirror:
        _publish(mirror)
        found = Server(tmp_path_factory.mktemp("faults"), mirror.address)
        yield found
        assert found.process.stdin is not None
        found.process.stdin.close()
        found.process.wait()


def _publish(mirror: WebServer) -> None:
    for name in ("weights.hdf5", "options.json"):
        mirror.files[AI2 + name] = (GOLDEN / "allennlp/relu2" / name).read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in (GOLDEN / "efml/word_char").iterdir():
            if file.suffix != ".npz":
                archive.write(file, file.name)
    mirror.files["/vectors.nlpl.eu/repository/11/142.zip"] = packed.getvalue()


@pytest.fixture(scope="session")
def expected(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[int, Any]]:
    """The number of operations and the result of a case without a fault, made once."""
    known: dict[str, tuple[int, Any]] = {}

    def make(name: str) -> tuple[int, Any]:
        if name not in known:
            folder = fresh(tmp_path_factory.getbasetemp() / "work", name)
            code, count = server.run(CASES[name].begin(folder), folder)
            assert code == 0, server.log.read_text()
            assert count > 5
            known[name] = count, CASES[name].result(folder)
        return known[name]

    return make
