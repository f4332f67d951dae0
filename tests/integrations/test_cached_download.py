import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

from elmo.errors import CheckpointError
from elmo.integrations.allennlp import _ElmoBiLm, batch_to_ids
from elmo.integrations.cached_download import cached_path

RELU2 = Path(__file__).parent.parent / "golden" / "allennlp" / "relu2"


@pytest.fixture
def address() -> Iterator[str]:
    """A real web server over the golden model."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(RELU2)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_fetched_once(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    ids = batch_to_ids([["a", "b"]])
    expected = _ElmoBiLm(RELU2 / "options.json", RELU2 / "weights.hdf5")(ids)["activations"][2]
    remote = _ElmoBiLm(f"{address}/options.json", f"{address}/weights.hdf5")
    torch.testing.assert_close(remote(ids)["activations"][2], expected)
    kept = cached_path(f"{address}/options.json")
    assert kept.read_bytes() == (RELU2 / "options.json").read_bytes() and len(list(kept.parent.iterdir())) == 2
    kept.write_text("changed here")
    assert cached_path(f"{address}/options.json").read_text() == "changed here"


def test_what_cannot_be_fetched(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    with pytest.raises(CheckpointError, match=r"Cannot fetch .*404"):
        cached_path(f"{address}/missing.json")
    assert list((tmp_path / "cache").iterdir()) == []
    assert cached_path("some/file") == Path("some/file")
