"""The Hub's cache and layout, without the network."""

import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import HfApi, constants
from web_server import serve

from elmo.checkpoints import hub
from elmo.checkpoints.pretrained import PretrainedBiLM, load
from elmo.errors import CheckpointError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return folder


def put_into_cache(cache: Path, model: Path, name: str) -> None:
    """As the Hub's client leaves a download behind."""
    repository = cache / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text("0" * 40)
    shutil.copytree(model, repository / "snapshots" / ("0" * 40))


def test_a_cached_model_opens_offline(cache: Path, make_bilm, tmp_path: Path) -> None:
    make_bilm().save_pretrained(tmp_path / "model")
    put_into_cache(cache, tmp_path / "model", "somebody/elmo-small")
    bilm = load("somebody/elmo-small")
    assert torch.equal(bilm.token_encoder.projection.weight, make_bilm().token_encoder.projection.weight)


def test_old_formats_open_from_the_hub_too(cache: Path, golden: Path) -> None:
    put_into_cache(cache, golden / "efml/word_char", "somebody/elmo-efml")
    assert load("somebody/elmo-efml", local_files_only=True).config.begin_sentence == "<bos>"


@pytest.mark.parametrize("name", ["somebody/no-such-model", "not a name", "too/many/parts"])
def test_an_unknown_name_says_so_in_one_sentence(name: str, cache: Path) -> None:
    with pytest.raises(CheckpointError, match="No model called") as raised:
        load(name)
    assert "\n" not in str(raised.value)


def test_an_error_without_a_message_is_reported(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise ConnectionError

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(CheckpointError, match="ConnectionError"):
        load("somebody/elmo-small")


@pytest.fixture
def online(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("ELMO_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("answer", "reason"), [(b"{}", "KeyError: 'id'"), (b"a page", "JSONDecodeError: Expecting value")]
)
def test_an_answer_that_the_hubs_client_cannot_read_is_reported(
    answer: bytes, reason: str, online: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve() as server:
        server.files["/api/models/somebody/elmo/revision/main"] = answer
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        with pytest.raises(CheckpointError, match=rf"No model called 'somebody/elmo'.*\({reason}"):
            load("somebody/elmo")


@pytest.mark.parametrize(("name", "reason"), [("somebody/elmo", "Connect"), ("a b/c/d", "HFValidationError")])
def test_an_upload_that_fails_is_one_sentence(
    name: str, reason: str, online: None, make_bilm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    with pytest.raises(CheckpointError, match=rf"Cannot upload to '{name}' \({reason}.*`hf auth login`") as raised:
        make_bilm().push_to_hub(name, token="hf_none")
    assert "\n" not in str(raised.value)


def test_pushing_uploads_a_folder_that_opens(make_bilm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hub itself is the one part that a test cannot have; what it would be given is looked at instead."""
    monkeypatch.setattr(HfApi, "create_repo", lambda self, name, **options: f"https://hub.example/{name}")
    monkeypatch.setattr(
        HfApi, "upload_folder", lambda self, folder_path, **options: shutil.copytree(folder_path, tmp_path / "uploaded")
    )
    address = make_bilm().push_to_hub("somebody/elmo")
    assert address == "https://hub.example/somebody/elmo"
    assert PretrainedBiLM.from_pretrained(tmp_path / "uploaded").config == make_bilm().config


def test_every_file_of_ours_is_asked_for(make_bilm, tmp_path: Path) -> None:
    make_bilm().save_pretrained(tmp_path)
    for file in tmp_path.iterdir():
        assert any(file.match(pattern) for pattern in hub.MODEL_FILES), file.name


def test_elmo_offline_holds_for_the_hub(cache: Path, make_bilm, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    make_bilm().save_pretrained(tmp_path / "model")
    put_into_cache(cache, tmp_path / "model", "somebody/elmo-small")
    assert load("somebody/elmo-small").config == make_bilm().config
    with pytest.raises(CheckpointError, match=r"LocalEntryNotFound.*give the folder"):
        load("somebody/other")
