"""Real commands, killed before file operation n or told there that the disk is full; then resumed or run again.

After each fault the result is the same as without one, to the bit, or the command refuses clearly and then works when
it is started afresh. The operations are counted by a library that is preloaded (faults.c), so nothing depends on time.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from safetensors.numpy import load_file
from tiny_model import TINY

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)
HERE = Path(__file__).parent
FULL_DISK = 0
PRETRAIN = [
    "model.lstm.projection_dim=8", "model.lstm.cell_dim=16", "model.char_cnn.character_dim=4",
    "model.char_cnn.filters=[[1, 4], [2, 4]]", "softmax.negatives=20", "data.batch_size=4", "data.unroll_steps=6",
    "training.updates=3", "training.checkpoint_every=2", "training.log_every=1",
]  # fmt: skip
FINETUNE = [
    "training.epochs=0.2", "head_epochs=0.1", "data.batch_tokens=48", "softmax.negatives=20", "data.min_count=1",
    "training.evaluate_every=2", "training.checkpoint_every=2",
]  # fmt: skip
TASK = [
    "text.words.dim=12", "text.characters.num_filters=8", "model.hidden_dim=12", "training.epochs=2",
    "training.batch_size=4",
]  # fmt: skip
NAMES = "Ann\tB-PER\nleft\tO\nRome\tB-LOC\n\nBob\tB-PER\nsaw\tO\nNew\tB-LOC\nYork\tI-LOC\n\n" * 4
TEXT = "".join(f"the cat sees w{row} and the {'old ' * (row % 7)}dog .\n" for row in range(60))


class Server:
    """A process with all imports done that runs commands in forked children."""

    def __init__(self, folder: Path) -> None:
        library = folder / "faults.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, HERE / "faults.c", "-ldl"], check=True)
        environment = {**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        self.log = folder / "log"
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "server.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        assert self.process.stdout is not None and self.process.stdout.readline() == "ready\n"

    def run(self, arguments: list[str], folder: Path, *, at: int = 0, action: int = FULL_DISK) -> tuple[int, int]:
        """The exit code, and how many operations there were."""
        assert self.process.stdin is not None and self.process.stdout is not None
        request = {"arguments": arguments, "folder": str(folder), "at": at, "action": action, "log": str(self.log)}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["code"], answer["count"]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("faults"))
    yield found
    assert found.process.stdin is not None
    found.process.stdin.close()
    found.process.wait()


@dataclass(frozen=True)
class Case:
    """A command, how it goes on after a fault, and what it leaves when all went well."""

    begin: Callable[[Path], list[str]]
    result: Callable[[Path], Any]
    resume: Callable[[Path], list[str]] | None = None
    prepare: Callable[[Path], None] = lambda folder: None
    before: Callable[[Path], Any] = lambda folder: None
    """What stands at the output before, which only the finished result may replace."""


def _sets(settings: list[str]) -> list[str]:
    return [part for each in settings for part in ("--set", each)]


def _write_inputs(folder: Path) -> None:
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    (folder / "names.conll").write_text(NAMES, encoding="utf-8")


def _model(folder: Path) -> dict[str, bytes]:
    """The weights and words; config.json tells the hours, which differ."""
    files = [*folder.glob("*.safetensors"), *folder.glob("vocabulary.txt")]
    assert (folder / "config.json").exists() or not files
    return {path.name: path.read_bytes() for path in files}


def _vectors(path: Path) -> dict[str, Any]:
    if path.suffix == ".hdf5":
        with h5py.File(path) as file:
            return {key: (file[key][()].tobytes() if key != "sentence_to_index" else file[key][0]) for key in file}
    if path.suffix == ".npz":
        with np.load(path) as file:
            return {key: file[key].tobytes() for key in file.files}
    if path.suffix == ".jsonl":
        return dict(enumerate(path.read_text(encoding="utf-8").splitlines()))
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    table = (pq.read_table if path.suffix == ".parquet" else feather.read_table)(path)
    return dict(enumerate(map(str, table.to_pylist())))


def _embed(ending: str) -> Case:
    def arguments(folder: Path) -> list[str]:
        text, out = str(folder / "text.txt"), str(folder / f"out.{ending}")
        return ["embed", text, "-o", out, "-m", TINY, "--layers", "top", "--batch-tokens", "64"]

    return Case(
        arguments,
        lambda folder: _vectors(folder / f"out.{ending}"),
        lambda folder: [*arguments(folder), "--resume"],
    )


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


CASES = {
    **{f"embed {ending}": _embed(ending) for ending in ("hdf5", "npz", "jsonl", "parquet", "arrow")},
    "pretrain": Case(
        lambda folder: [
            "pretrain", "--train", str(folder / "text.txt"), "-o", str(folder / "model"), *_sets(PRETRAIN),
        ],
        lambda folder: _model(folder / "model"),
        lambda folder: ["pretrain", "--resume", str(folder / "model")],
    ),
    "finetune": Case(
        lambda folder: [
            "finetune", "-m", TINY, "--train", str(folder / "text.txt"), "-o", str(folder / "model"), *_sets(FINETUNE),
        ],
        lambda folder: _model(folder / "model"),
        lambda folder: ["finetune", "--resume", str(folder / "model")],
    ),
    "task train": Case(
        lambda folder: [
            "task", "train", "named_entities", "--train", str(folder / "names.conll"),
            "--dev", str(folder / "names.conll"), "-o", str(folder / "run"), "-m", TINY, *_sets(TASK),
        ],
        lambda folder: {
            name: values.tobytes() for name, values in load_file(folder / "run/seed-0/model.safetensors").items()
        },
    ),
    "convert": Case(
        lambda folder: ["convert", TINY, str(folder / "model"), "--force", "--storage", "float16"],
        lambda folder: _model(folder / "model"),
        prepare=lambda folder: shutil.copytree(TINY, folder / "model"),
        before=lambda folder: _model(folder / "model"),
    ),
    "convert hdf5": Case(
        lambda folder: ["convert", TINY, str(folder / "weights.hdf5"), "--force"],
        lambda folder: (folder / "weights.hdf5").read_bytes(),
    ),
    "neighbours build": Case(
        lambda folder: [
            "neighbours", "build", str(folder / "text.txt"), "-o", str(folder / "index"), "-m", TINY,
        ],
        lambda folder: _tree(folder / "index"),
    ),
}  # fmt: skip


@pytest.fixture(scope="session")
def expected(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[int, Any]]:
    """The number of operations and the result of a case without a fault, made once."""
    known: dict[str, tuple[int, Any]] = {}

    def make(name: str) -> tuple[int, Any]:
        if name not in known:
            folder = _fresh(tmp_path_factory.getbasetemp() / "work", name)
            code, count = server.run(CASES[name].begin(folder), folder)
            assert code == 0, server.log.read_text()
            assert count > 5
            known[name] = count, CASES[name].result(folder)
        return known[name]

    return make


def _fresh(folder: Path, name: str) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    _write_inputs(folder)
    CASES[name].prepare(folder)
    return folder


def _refuses(server: Server) -> bool:
    lines = server.log.read_text(encoding="utf-8").splitlines()
    return sum(line.startswith("elmo: ") for line in lines) == 1 and "Traceback" not in "".join(lines)


def _check(server: Server, folder: Path, name: str, at: int, action: int, result: Any) -> None:
    case = CASES[name]
    _fresh(folder, name)
    before = case.before(folder)
    code, _ = server.run(case.begin(folder), folder, at=at, action=action)
    if action == FULL_DISK and code != 0:
        assert code == 2 and _refuses(server), server.log.read_text()
    if before is not None:
        assert case.before(folder) in (before, result), "neither the old nor the new one"
    code, _ = server.run((case.resume or case.begin)(folder), folder)
    if code != 0:
        assert code == 2 and _refuses(server), server.log.read_text()
        if "exists already" not in server.log.read_text():  # it was finished
            code, _ = server.run(case.begin(folder), folder)
            assert code == 0, server.log.read_text()
    assert case.result(folder) == result
    left = [path for path in folder.rglob("*") if ".partial" in path.name or path.name.startswith(".tmp")]
    assert not left, f"left behind: {left}"


@pytest.mark.parametrize(
    ("name", "action"),
    [*((name, signal.SIGKILL) for name in CASES), *((name, FULL_DISK) for name in ("embed hdf5", "task train"))],
)
def test_a_fault_in_the_middle(
    server: Server,
    expected: Callable[[str], tuple[int, Any]],
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    action: int,
) -> None:
    count, result = expected(name)
    _check(server, tmp_path_factory.getbasetemp() / "work", name, 2 * count // 3, action, result)


@pytest.mark.slow
@pytest.mark.parametrize("action", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, FULL_DISK])
@pytest.mark.parametrize("name", CASES)
def test_a_fault_before_every_operation(
    server: Server,
    expected: Callable[[str], tuple[int, Any]],
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    action: int,
) -> None:
    count, result = expected(name)
    folder = tmp_path_factory.getbasetemp() / "work"
    for at in range(1, count + 1):
        try:
            _check(server, folder, name, at, action, result)
        except AssertionError as error:
            raise AssertionError(f"{name}, operation {at} of {count}, {action!r}: {error}") from error
