"""Telling formats apart, in folders, files and zips."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest

from elmo.checkpoints.detect import open_and_name, open_checkpoint
from elmo.errors import CheckpointError


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("allennlp/relu2", "bilm-tf/AllenNLP hdf5"),
        ("bilm/word/weights.hdf5", "bilm-tf/AllenNLP hdf5"),
        ("efml/word_char", "ELMoForManyLangs"),
        ("efml/char_only/encoder.pkl", "ELMoForManyLangs"),
        ("checkpoints/exact_training/start", "bilm-tf TensorFlow checkpoint"),
        ("checkpoints/char/model.ckpt-12", "bilm-tf TensorFlow checkpoint"),
    ],
)
def test_the_format_is_found(name: str, expected: str, golden: Path) -> None:
    assert open_and_name(golden / name).format == expected


def test_ours_is_found_by_folder_and_by_file(make_bilm, tmp_path: Path) -> None:
    make_bilm().save_pretrained(tmp_path)
    for path in (tmp_path, tmp_path / "config.json", tmp_path / "model.safetensors"):
        assert open_and_name(path).format == "elmo-torch folder"


def make_zip(folder: Path, archive: Path, inside: str = "") -> Path:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for file in folder.iterdir():
            opened.write(file, inside + file.name)
    return archive


@pytest.mark.parametrize("name", ["allennlp/relu2", "bilm/word", "efml/word_char", "checkpoints/word"])
@pytest.mark.parametrize("inside", ["", "180/model/"], ids=["flat", "nested"])
def test_zips_open_like_folders(
    name: str, inside: str, copy_of: Callable[..., Path], tmp_path: Path, assert_same
) -> None:
    folder = copy_of(name)
    archive = make_zip(folder, tmp_path / "model.zip", inside)
    opened = open_and_name(archive)
    assert opened.format.startswith("zip of ")
    assert_same(opened.checkpoint, open_checkpoint(folder))


def test_ours_opens_from_a_zip_and_outlives_it(make_bilm, tmp_path: Path) -> None:
    make_bilm().save_pretrained(tmp_path / "model")
    archive = make_zip(tmp_path / "model", tmp_path / "model.zip")
    checkpoint = open_checkpoint(archive)
    assert all(tensor.isfinite().all() for tensor in checkpoint.tensors.values())


def test_the_card_has_nlpls_facts_about_the_corpus(copy_of: Callable[..., Path], tmp_path: Path) -> None:
    folder = copy_of("allennlp/relu2", "options.json", "weights.hdf5")
    (folder / "weights.hdf5").rename(folder / "model.hdf5")
    (folder / "meta.json").write_text('{"id": 193, "language": "eng", "corpus": {"tokens": 2270000000}}')
    (folder / "README").write_text("about")
    checkpoint = open_checkpoint(make_zip(folder, tmp_path / "193.zip"))
    assert checkpoint.card["meta"]["language"] == "eng"


def test_the_error_has_what_was_found_and_expected(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "folder").mkdir()
    with pytest.raises(CheckpointError) as raised:
        open_checkpoint(tmp_path)
    message = str(raised.value)
    for part in ("found: folder/, notes.txt", "'elmo-torch' + model.safetensors", "options.json + weights.hdf5"):
        assert part in message
    assert "encoder.pkl" in message and "model.ckpt-STEP.index" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("notes.txt", b"hello", "is not a file of an ELMo model"),
        ("empty.bin", b"", "is an empty file"),
        ("model.zip", b"PK but no zip", "a complete zip"),
        ("weights.hdf5", b"hello", "no options file beside it"),
        ("options.json", b'{"lstm": {}}', "no weights beside it"),
        ("options.json", b"\xff\xfe{", "no weights beside it"),
    ],
)
def test_files_that_are_not_a_model(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(tmp_path / name)


def test_other_hdf5_files_beside_the_weights_do_not_confuse(
    golden: Path, copy_of: Callable[..., Path], assert_same
) -> None:
    folder = copy_of("bilm/char_skip")
    assert (folder / "token_embeddings.hdf5").exists()
    assert_same(open_checkpoint(folder), open_checkpoint(golden / "bilm/char_skip/weights.hdf5"))


def test_vectors_in_a_training_folder_do_not_hide_its_checkpoint(copy_of: Callable[..., Path], assert_same) -> None:
    folder = copy_of("checkpoints/char")
    expected = open_checkpoint(folder / "model.ckpt-12.index")
    (folder / "weights.hdf5").unlink()
    with h5py.File(folder / "vectors.hdf5", "w") as file:
        file["0"] = [1.0, 2.0]
    for given in (folder, folder / "options.json"):
        opened = open_and_name(given)
        assert opened.format == "bilm-tf TensorFlow checkpoint"
        assert_same(opened.checkpoint, expected)
    # What may have been the weights is not passed over.
    (folder / "vectors.hdf5").write_bytes((folder / "vectors.hdf5").read_bytes()[:100])
    with pytest.raises(CheckpointError, match="not a complete hdf5 file"):
        open_checkpoint(folder)
