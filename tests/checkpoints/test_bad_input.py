"""Bad models given to the real command: one error message, exit code 2, no files left."""

import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest

HDF = ("allennlp/relu2", "options.json", "weights.hdf5")


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch pwned",)


def truncated(folder: Path) -> Path:
    data = (folder / "weights.hdf5").read_bytes()
    (folder / "weights.hdf5").write_bytes(data[: len(data) // 2])
    return folder


def foreign(folder: Path) -> Path:
    (folder / "weights.hdf5").write_text("These are not the weights you are looking for.\n")
    return folder


def empty(folder: Path) -> Path:
    (folder / "weights.hdf5").write_bytes(b"")
    return folder


def missing_file(folder: Path) -> Path:
    (folder / "weights.hdf5").unlink()
    return folder / "weights.hdf5"


def missing_tensor(folder: Path) -> Path:
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["CNN_high_0/W_carry"]
    return folder


def wrong_shape(folder: Path) -> Path:
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["char_embed"]
        file["char_embed"] = [[1.0, 2.0]]
    return folder


def text_for_numbers(folder: Path) -> Path:
    with h5py.File(folder / "weights.hdf5", "a") as file:
        shape = file["char_embed"].shape
        del file["char_embed"]
        file.create_dataset("char_embed", shape, dtype="S4")
    return folder


def unknown_activation(folder: Path) -> Path:
    options = folder / "options.json"
    options.write_text(options.read_text().replace('"relu"', '"swish"'))
    return folder


def options_not_utf8(folder: Path) -> Path:
    (folder / "options.json").write_bytes(b'{"lstm": "\xe9"}')
    return folder


def options_not_json(folder: Path) -> Path:
    (folder / "options.json").write_text("lstm: 4096\n")
    return folder


def climbing_zip(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "model.zip", "w") as archive:
        archive.write(folder / "options.json", "options.json")
        archive.writestr("../pwned", "x")
    return folder / "model.zip"


HDF_CASES: dict[Callable[[Path], Path], str] = {
    truncated: "weights.hdf5 is not a complete hdf5 file",
    foreign: "weights.hdf5 is not a complete hdf5 file",
    empty: "weights.hdf5 is empty",
    missing_file: "no such file or folder",
    missing_tensor: "missing: CNN_high_0/W_carry",
    wrong_shape: "char_embed is (1, 2), expected (261, ",
    text_for_numbers: "holds |S4 in char_embed. Expected float32",
    unknown_activation: "activation is 'swish'; expected one of 'relu', 'tanh'",
    options_not_utf8: "options.json is not UTF-8",
    options_not_json: "options.json is not JSON",
    climbing_zip: "names a file outside its own folder ('../pwned')",
}


def refused(source: Path, working: Path) -> str:
    """Run `elmo convert` on a bad model; the sentence that it says."""
    working.mkdir()
    command = [sys.executable, "-c", "from elmo.commands import main; main()", "convert", str(source), "out"]
    run = subprocess.run(command, cwd=working, capture_output=True, text=True, timeout=600)
    assert run.returncode == 2, run.stderr
    assert run.stdout == ""
    assert run.stderr.startswith("elmo: ") and run.stderr.count("\n") == 1, run.stderr
    assert "Traceback" not in run.stderr
    assert not list(working.iterdir()), "something was left behind"
    return run.stderr


@pytest.mark.parametrize("spoil", HDF_CASES, ids=lambda spoil: spoil.__name__)
def test_hdf5(spoil: Callable[[Path], Path], copy_of: Callable[..., Path], tmp_path: Path) -> None:
    assert HDF_CASES[spoil] in refused(spoil(copy_of(*HDF)), tmp_path / "working")
    assert not list(tmp_path.rglob("pwned"))


def test_vocabulary_not_utf8(copy_of: Callable[..., Path], tmp_path: Path) -> None:
    folder = copy_of("bilm/word")
    (folder / "vocab.txt").write_bytes(b"<S>\n</S>\n<UNK>\ncaf\xe9\n")
    assert "vocab.txt is not UTF-8: line 4" in refused(folder, tmp_path / "working")


def test_pickle_with_code(copy_of: Callable[..., Path], tmp_path: Path) -> None:
    folder = copy_of("efml/word_char")
    (folder / "encoder.pkl").write_bytes(pickle.dumps({"weight": Bomb()}))
    assert "encoder.pkl is damaged or holds Python code" in refused(folder, tmp_path / "working")
    assert not list(tmp_path.rglob("pwned"))


def test_damaged_tensorflow_checkpoint(copy_of: Callable[..., Path], tmp_path: Path) -> None:
    folder = copy_of("checkpoints/char")
    data = bytearray((folder / "model.ckpt-12.data-00000-of-00001").read_bytes())
    data[3] ^= 1
    (folder / "model.ckpt-12.data-00000-of-00001").write_bytes(data)
    assert "checksum of the variable" in refused(folder / "model.ckpt-12.index", tmp_path / "working")


def test_folder_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/todo.txt").write_text("x")
    assert "found: todo.txt" in refused(tmp_path / "notes", tmp_path / "working")
