"""Downloads from a real web server: resumed, shared, checked, refused."""

import hashlib
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from web_server import WebServer, serve

from elmo.checkpoints.pretrained import load
from elmo.errors import CheckpointError, ConfigError, ElmoError, WriteError
from elmo.integrations.allennlp import _ElmoBiLm, batch_to_ids
from elmo.storage.download import cache_home, cached_path, digest_file, fetch, is_offline

RELU2 = Path(__file__).parent.parent / "golden" / "allennlp" / "relu2"
CONTENT = random.Random(0).randbytes(3_000_000)


@pytest.fixture
def server() -> Iterator[WebServer]:
    with serve() as server:
        server.files["/model/weights.hdf5"] = CONTENT
        yield server


@pytest.fixture
def address(server: WebServer) -> str:
    return f"{server.address}/model/weights.hdf5"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    for name in ("ELMO_OFFLINE", "HF_HUB_OFFLINE", "ELMO_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_is_downloaded_once_and_its_digest_stored(server: WebServer, address: str, tmp_path: Path) -> None:
    target = tmp_path / "new" / "weights.hdf5"
    assert fetch(address, target).read_bytes() == CONTENT
    assert digest_file(target).read_text() == f"{hashlib.sha256(CONTENT).hexdigest()}  weights.hdf5\n"
    assert names(target.parent) == {"weights.hdf5", "weights.hdf5.sha256"}
    fetch(address, target)
    assert len(server.requests) == 1


def test_a_broken_connection_is_resumed(server: WebServer, address: str, tmp_path: Path) -> None:
    server.breaks = [1_000_000, 500_000]
    assert fetch(address, tmp_path / "file").read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, "bytes=1000000-", "bytes=1500000-"]


def test_an_answer_without_a_length_is_resumed_too(server: WebServer, address: str, tmp_path: Path) -> None:
    server.in_chunks, server.breaks = True, [2_000_000]
    assert fetch(address, tmp_path / "file").read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, "bytes=1048576-"]


def test_an_answer_that_breaks_between_two_chunks_is_not_complete(
    server: WebServer, address: str, tmp_path: Path
) -> None:
    server.in_chunks, server.chunk_bytes = True, 1000
    server.breaks = [1500 * len(b"3e8\r\n" + bytes(1000) + b"\r\n")]
    assert fetch(address, tmp_path / "file").read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, "bytes=1500000-"]


def test_a_failed_download_is_resumed_by_the_next_call(server: WebServer, address: str, tmp_path: Path) -> None:
    server.breaks = [1_000_000, 0, 0, 0, 0, 0]
    with pytest.raises(CheckpointError, match=r"connection ended before.* next attempt resumes.* save it as .*file"):
        fetch(address, tmp_path / "file")
    assert names(tmp_path) == {"file.download", "file.download.json"}
    assert fetch(address, tmp_path / "file").read_bytes() == CONTENT
    assert server.requests[-1][1] == "bytes=1000000-"
    assert names(tmp_path) == {"file", "file.sha256"}


def test_a_file_that_changes_during_the_download_starts_over(server: WebServer, address: str, tmp_path: Path) -> None:
    server.breaks = [1_000_000, 0, 0, 0, 0, 0]
    with pytest.raises(CheckpointError):
        fetch(address, tmp_path / "file")
    server.files["/model/weights.hdf5"] = CONTENT[::-1]
    assert fetch(address, tmp_path / "file").read_bytes() == CONTENT[::-1]


def test_without_a_validator_nothing_is_reused(server: WebServer, address: str, tmp_path: Path) -> None:
    server.has_validators, server.breaks = False, [1_000_000]
    assert fetch(address, tmp_path / "file").read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, None]


def test_a_complete_transfer_that_was_not_renamed(server: WebServer, address: str, tmp_path: Path) -> None:
    server.breaks = [2_999_999, 0, 0, 0, 0, 0]
    with pytest.raises(CheckpointError):
        fetch(address, tmp_path / "file")
    with (tmp_path / "file.download").open("ab") as file:
        file.write(CONTENT[-1:])
    assert fetch(address, tmp_path / "file").read_bytes() == CONTENT


def test_another_file_at_the_address_is_refused(server: WebServer, address: str, tmp_path: Path) -> None:
    target = fetch(address, tmp_path / "file")
    target.unlink()
    server.files["/model/weights.hdf5"] = b"changed"
    with pytest.raises(CheckpointError, match=r"gives another file than before .*file\.sha256 and try again"):
        fetch(address, target)
    assert names(tmp_path) == {"file.sha256", "file.download.json"}
    digest_file(target).unlink()
    assert fetch(address, target).read_bytes() == b"changed"


def test_a_missing_file_and_a_web_page(server: WebServer, address: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"Cannot download .*HTTP 404.* save it as"):
        fetch(server.address + "/nothing", tmp_path / "file")
    server.headers["Content-Type"] = "text/html; charset=utf-8"
    with pytest.raises(CheckpointError, match="a web page instead of a file"):
        fetch(address, tmp_path / "file")
    assert names(tmp_path) == set()


def test_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/weights.hdf5"
    with pytest.raises(CheckpointError, match=rf"Cannot download {address} \(.*refused.* save it as {tmp_path}/file"):
        fetch(address, tmp_path / "file")
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    assert is_offline()
    with pytest.raises(CheckpointError, match=rf"Cannot download {address} \(ELMO_OFFLINE.* save it as"):
        fetch(address, tmp_path / "file")


def test_existing_files_are_used_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    (tmp_path / "file").write_bytes(b"by hand")
    assert fetch("http://nowhere.invalid/file", tmp_path / "file").read_bytes() == b"by hand"


def test_a_full_disk_keeps_the_partial_download(server: WebServer, address: str, tmp_path: Path) -> None:
    """The limit on the size of files stands in for a disk without space: writes fail in the same place."""
    code = (
        "import sys, resource; from pathlib import Path; from elmo.storage.download import fetch\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, resource.RLIM_INFINITY))\n"
        "try:\n    fetch(sys.argv[1], Path(sys.argv[2]))\nexcept OSError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, address, tmp_path / "file"], capture_output=True, text=True, check=True
    )
    assert "Cannot write" in done.stdout and "ELMO_HOME" in done.stdout and done.stderr == ""
    assert 0 < (tmp_path / "file.download").stat().st_size <= 1_500_000
    assert fetch(address, tmp_path / "file").read_bytes() == CONTENT
    assert server.requests[-1][1] is not None


def test_processes_share_one_download(server: WebServer, address: str, tmp_path: Path) -> None:
    server.delay.clear()
    code = (
        "import sys; from pathlib import Path; from elmo.storage.download import fetch\n"
        "fetch(sys.argv[1], Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, address, tmp_path / "file"]
    processes = [subprocess.Popen(command, env=dict(os.environ)) for _ in range(3)]
    while not server.requests:
        assert any(process.poll() is None for process in processes)
    server.delay.set()
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert len(server.requests) == 1 and (tmp_path / "file").read_bytes() == CONTENT


def test_the_next_process_resumes_after_a_kill(server: WebServer, address: str, tmp_path: Path) -> None:
    server.delay.clear()
    code = (
        "import sys; from pathlib import Path; from elmo.storage.download import fetch\n"
        "fetch(sys.argv[1], Path(sys.argv[2]))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, address, tmp_path / "file"])
    partial = tmp_path / "file.download"
    while not (partial.exists() and partial.stat().st_size > 1_000_000):
        assert process.poll() is None
    process.kill()
    process.wait()
    server.delay.set()
    assert fetch(address, tmp_path / "file").read_bytes() == CONTENT
    assert int((server.requests[-1][1] or "bytes=0-")[6:-1]) > 1_000_000


def test_a_mirror_has_the_files_by_host_and_path(
    server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_MIRROR", server.address + "/mirror/")
    server.files["/mirror/host.invalid/a/b.zip"] = b"zip"
    assert fetch("https://host.invalid/a/b.zip", tmp_path / "file").read_bytes() == b"zip"


@pytest.mark.parametrize("mirror", ["mirror.example/elmo", "/srv/mirror", "ftp://mirror.example", "file:///srv/mirror"])
def test_a_mirror_that_is_no_web_address_is_refused(
    mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMO_MIRROR", mirror)
    with pytest.raises(ConfigError, match=rf"ELMO_MIRROR is '{mirror}'; expected an address such as https://"):
        fetch("https://host.invalid/a/b.zip", tmp_path / "file")
    assert names(tmp_path) == set()


@pytest.mark.parametrize(
    "host", [".example", "a" * 70 + ".example", "[::"], ids=["no label", "long label", "no bracket"]
)
def test_an_impossible_host_is_one_error(host: str, tmp_path: Path) -> None:
    with pytest.raises(ElmoError, match=r"Cannot download https://.* save it as"):
        fetch(f"https://{host}/weights.hdf5", tmp_path / "file")
    assert names(tmp_path) == set()


def test_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_home() == tmp_path / "home"
    monkeypatch.delenv("ELMO_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_home() == tmp_path / "xdg" / "elmo-torch"


def test_a_user_without_a_home_directory_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("ELMO_HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)
    with pytest.raises(WriteError, match=r"no home directory.*Set ELMO_HOME to a folder"):
        cache_home()


def test_old_code_names_files_by_their_address(server: WebServer, home: Path) -> None:
    for name in ("options.json", "weights.hdf5"):
        server.files[f"/{name}"] = (RELU2 / name).read_bytes()
    ids = batch_to_ids([["a", "b"]])
    expected = _ElmoBiLm(RELU2 / "options.json", RELU2 / "weights.hdf5")(ids)["activations"][2]
    remote = _ElmoBiLm(f"{server.address}/options.json", f"{server.address}/weights.hdf5")
    torch.testing.assert_close(remote(ids)["activations"][2], expected)
    cached = cached_path(f"{server.address}/options.json?version=1")
    assert cached.parent == home / "files" and cached.name.endswith("-options.json")
    assert cached_path("some/file") == Path("some/file")


def test_addresses_may_be_long_and_have_any_characters(server: WebServer) -> None:
    server.files["/m%C3%A9lange%20a.txt"] = b"accent"
    assert cached_path(f"{server.address}/mélange a.txt").read_bytes() == b"accent"
    assert cached_path(f"{server.address}/m%C3%A9lange%20a.txt").read_bytes() == b"accent"
    server.files["/" + "n" * 250 + ".txt"] = b"long"
    cached = cached_path(f"{server.address}/{'n' * 250}.txt")
    assert cached.read_bytes() == b"long" and cached.suffix == ".txt"


@pytest.mark.parametrize("folder", ["file/home", "n" * 300], ids=["below a file", "too long"])
def test_a_cache_folder_that_cannot_be_made(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / folder))
    for use in (lambda: cached_path("http://localhost/weights.hdf5"), lambda: load("efml-german")):
        with pytest.raises(WriteError, match=r"Cannot write .* set ELMO_HOME to another folder"):
            use()
