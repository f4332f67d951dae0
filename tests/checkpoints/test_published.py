"""Published models by name, from a real web server with the paths and layouts of the published ones."""

import errno
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner
from web_server import WebServer, serve

from elmo.checkpoints import published
from elmo.checkpoints.pretrained import load, locate
from elmo.checkpoints.published import catalogue, obtain, obtain_mapping, remove
from elmo.commands import app
from elmo.embedding.embedder import Embedder
from elmo.errors import CheckpointError

GOLDEN = Path(__file__).parent.parent / "golden"
AI2 = "/allennlp.s3.amazonaws.com/models/elmo/2x1024_128_2048cnn_1xhighway/elmo_2x1024_128_2048cnn_1xhighway_"
ALIGNED = "/s3-us-west-2.amazonaws.com/allennlp/models/multilingual_elmo/"


def zip_of(folder: Path, *, inside: str = "") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in folder.iterdir():
            if file.suffix != ".npz":
                archive.write(file, inside + file.name.replace("weights.hdf5", "model.hdf5"))
    return packed.getvalue()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    """A mirror of all hosts: three layouts, with small models in them."""
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    for name in ("ELMO_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with serve() as server:
        monkeypatch.setenv("ELMO_MIRROR", server.address)
        relu2 = GOLDEN / "allennlp" / "relu2"
        for place in (AI2, ALIGNED + "de_"):
            server.files[place + "weights.hdf5"] = (relu2 / "weights.hdf5").read_bytes()
        for place in (AI2 + "options.json", ALIGNED + "options262.json"):
            server.files[place] = (relu2 / "options.json").read_bytes()
        server.files["/vectors.nlpl.eu/repository/11/142.zip"] = zip_of(GOLDEN / "efml" / "word_char")
        server.files["/vectors.nlpl.eu/repository/20/209.zip"] = zip_of(GOLDEN / "bilm" / "char_1layer", inside="209/")
        yield server


def test_the_catalogue() -> None:
    models = catalogue()
    counts = {name: sum(model.collection == name for model in models.values()) for name in ("ai2", "efml", "nlpl")}
    assert counts == {"ai2": 6, "efml": 44, "nlpl": 7} and len(models) == 64
    assert models["efml-chinese-traditional"].addresses == ("http://vectors.nlpl.eu/repository/11/179.zip",)
    assert (
        models["ai2-original-5.5b"]
        .addresses[1]
        .endswith("/elmo/2x4096_512_2048cnn_2xhighway_5.5B/elmo_2x4096_512_2048cnn_2xhighway_5.5B_weights.hdf5")
    )
    assert models["ai2-aligned-sv"].mapping.endswith("/multilingual_elmo/sv_best_mapping.pth")
    assert len({model.addresses for model in models.values()}) == len(models)
    for model in models.values():
        assert model.page.startswith("http") and model.license and model.language and model.tried is False


@pytest.mark.parametrize(
    ("name", "same", "requests"),
    [
        ("ai2-small", "allennlp/relu2", 2),
        ("ai2-aligned-de", "allennlp/relu2", 2),
        ("efml-german", "efml/word_char", 1),
        ("nlpl-english-wikipedia", "bilm/char_1layer", 1),
    ],
)
def test_a_model_is_downloaded_once_and_opened_by_its_name(
    server: WebServer, name: str, same: str, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bilm, expected = load(name), load(GOLDEN / same)
    assert bilm.config == expected.config and bilm.digest() == expected.digest()
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    load(name)
    assert len(server.requests) == requests
    folder = catalogue()[name].folder
    assert catalogue()[name].is_cached and not list(folder.glob("*.zip")) and list(folder.glob("*.sha256"))
    digests = json.loads((folder / "verified.json").read_text())["sha256"]
    assert {f"{digest}  {file}\n" for file, digest in digests.items()} == {
        file.read_text() for file in folder.glob("*.sha256")
    }


def test_removing_keeps_the_digests(server: WebServer) -> None:
    model = catalogue()["ai2-small"]
    obtain(model)
    assert remove(model) > 1000
    assert not model.is_cached and {file.suffix for file in model.folder.iterdir()} == {".sha256"}
    obtain(model)
    remove(model)
    server.files[AI2 + "options.json"] += b"\n"
    with pytest.raises(CheckpointError, match="gives another file than before"):
        obtain(model)


@pytest.mark.parametrize(
    ("name", "path", "content", "message"),
    [
        ("ai2-small", AI2 + "weights.hdf5", b"\x89HDF\r\n\x1a\n and no more", "is not a complete hdf5 file"),
        ("efml-german", "/vectors.nlpl.eu/repository/11/142.zip", b"PK no zip", "not a"),
        ("efml-german", "/vectors.nlpl.eu/repository/11/142.zip", None, "holds no ELMo model"),
    ],
)
def test_wrong_bytes_and_other_layouts_are_refused_and_deleted(
    server: WebServer, name: str, path: str, content: bytes | None, message: str, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "model.bin").write_bytes(b"word2vec")
    good, server.files[path] = server.files[path], content if content is not None else zip_of(tmp_path / "other")
    with pytest.raises(CheckpointError, match=rf"is not an ELMo model .*{message}.*deleted") as raised:
        load(name)
    assert "\n" not in str(raised.value)
    assert list(catalogue()[name].folder.iterdir()) == []
    server.files[path] = good
    assert load(name).config.num_layers == 3


def test_options_of_another_model_are_refused(server: WebServer) -> None:
    server.files[AI2 + "options.json"] = (GOLDEN / "allennlp" / "tanh3" / "options.json").read_bytes()
    with pytest.raises(CheckpointError, match="is not an ELMo model that can be opened"):
        load("ai2-small")


def test_offline_the_error_says_how_to_download_by_hand(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    model = catalogue()["ai2-small"]
    with pytest.raises(CheckpointError) as raised:
        load("ai2-small")
    for part in (*model.addresses, str(model.folder), "ELMO_OFFLINE"):
        assert part in str(raised.value)
    for name, target in zip(("options.json", "weights.hdf5"), model.files, strict=True):
        shutil.copy(GOLDEN / "allennlp" / "relu2" / name, target)
    assert load("ai2-small").config.num_layers == 3
    assert model.is_cached and server.requests == []
    with pytest.raises(CheckpointError, match=r"11/142\.zip .*By hand"):
        load("efml-german")


def test_local_files_only(server: WebServer) -> None:
    with pytest.raises(CheckpointError, match="ai2-small is not in"):
        load("ai2-small", local_files_only=True)
    load("ai2-small")
    assert load("ai2-small", local_files_only=True).config.num_layers == 3 and len(server.requests) == 2


def test_a_command_takes_a_published_name(server: WebServer, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("Ein Satz .\n")
    arguments = ["embed", str(tmp_path / "text.txt"), "-m", "efml-german", "-o", str(tmp_path / "vectors.npz")]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    with np.load(tmp_path / "vectors.npz") as stored:
        np.testing.assert_allclose(
            stored["0"], Embedder(GOLDEN / "efml" / "word_char").embed([["Ein", "Satz", "."]])[0], atol=1e-6
        )


def test_files_of_the_user_are_not_deleted(server: WebServer) -> None:
    model = catalogue()["efml-german"]
    model.folder.mkdir(parents=True)
    model.files[0].write_bytes(b"PK no zip")
    with pytest.raises(CheckpointError, match=f"Delete it from {model.folder}"):
        obtain(model)
    assert model.files[0].exists() and server.requests == []


def test_a_full_disk_while_unpacking_keeps_the_download(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    model = catalogue()["efml-german"]

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(zipfile.ZipFile, "extractall", full)
        with pytest.raises(CheckpointError, match=r"Cannot unpack .*No space left.*Free some space"):
            obtain(model)
    assert model.files[0].exists()
    obtain(model)
    assert len(server.requests) == 1


def test_processes_share_one_download(server: WebServer) -> None:
    server.delay.clear()
    code = "from elmo.checkpoints.pretrained import locate; print(locate('efml-german'))"
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        for _ in range(3)
    ]
    while not server.requests:
        assert any(process.poll() is None for process in processes)
    server.delay.set()
    paths = {process.communicate()[0].strip() for process in processes}
    assert paths == {str(catalogue()["efml-german"].path)} and len(server.requests) == 1


def test_the_mapping_of_an_aligned_model(server: WebServer) -> None:
    packed = io.BytesIO()
    torch.save(torch.eye(4), packed)
    server.files[ALIGNED + "de_best_mapping.pth"] = packed.getvalue()
    file = obtain_mapping(catalogue()["ai2-aligned-de"])
    assert file.read_bytes() == packed.getvalue() and file.name == "de_best_mapping.pth"


@pytest.mark.parametrize(
    ("name", "near"),
    [("ai2-orginal", "ai2-original"), ("efml-germn", "efml-german"), ("englsh", "english"), ("./modle", "model")],
)
def test_unknown_names_suggest_the_nearest(
    name: str, near: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    with pytest.raises(CheckpointError, match=f"No model called '{name}'.*Did you mean '{near}'"):
        locate(name)


def test_names_without_a_near_one_suggest_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError) as raised:
        locate("word2vec")
    assert "Did you mean" not in str(raised.value) and "elmo models" in str(raised.value)
    (tmp_path / "runs" / "small").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="Did you mean 'runs/small'"):  # not asked from the Hub
        locate("runs/smal")


def test_a_path_comes_before_a_published_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ai2-small").mkdir()
    monkeypatch.setattr(published, "obtain", lambda model: pytest.fail("downloaded"))
    assert locate("ai2-small") == Path("ai2-small")
