"""`elmo embed` as real processes: what goes in comes out, bad input gets one sentence, a killed run goes on."""

import io
import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pytest
from tiny_model import TINY

from elmo.commands import main
from elmo.embedding.embedder import Embedder

GOLDEN = Path(__file__).parent.parent / "golden"
SENTENCES = ["The bank raised its rates.", "", "a/b: c", "The bank raised its rates.", "Don't."]
ENDINGS = ("hdf5", "npz", "safetensors", "jsonl", "parquet", "arrow")
MAIN = "from elmo.commands import main; main()"
SMALL_PARTS = "import elmo.embedding.writers.vector_writer as w; w.PART_BYTES = 400_000; "
PEAK = (
    "import atexit, resource, sys; "
    "atexit.register(lambda: print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)); "
)


def command(*arguments: object, before: str = "") -> list[str]:
    return [sys.executable, "-c", before + MAIN, "embed", *map(str, arguments)]


def as_process(*arguments: object, before: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments, before=before), capture_output=True, text=True, check=False)


@dataclass
class Result:
    code: int
    stdout: str
    stderr: str


@pytest.fixture
def elmo_embed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """The same command without a process of its own, which takes seconds to start."""

    def run(*arguments: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "argv", ["elmo", "embed", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as end:
            main()
        return Result(end.value.code or 0, *capsys.readouterr())  # type: ignore[arg-type]

    return run


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    return path


def test_lines_in_entries_out_and_silence_in_a_pipe(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.hdf5"
    result = as_process(text, "-o", out)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    expected = Embedder().embed(SENTENCES)
    with h5py.File(out) as file:
        assert len(file) == len(SENTENCES) + 1
        for index, vectors in enumerate(expected):
            np.testing.assert_allclose(file[str(index)], vectors, rtol=0, atol=1e-6)
        names = json.loads(file["sentence_to_index"][0])
    assert names == {"The bank raised its rates.": "3", "": "1", "a/b: c": "2", "Don't.": "4"}
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt", "out.hdf5"}


def test_golden_dump_of_allennlp(tmp_path: Path, elmo_embed: Callable[..., Result]) -> None:
    folder = GOLDEN / "allennlp" / "relu2"
    for choice in ("all", "top", "average"):
        out = tmp_path / f"{choice}.hdf5"
        result = elmo_embed(
            folder / "lines.txt", "-m", folder, "--format", "tokens", "--layers", choice, "--state", "carry",
            "--batch-size", 2, "-o", out,
        )  # fmt: skip
        assert result.code == 0, result.stderr
        with h5py.File(out) as ours, h5py.File(folder / f"lines_{choice}.hdf5") as theirs:
            assert set(ours) == set(theirs)
            for key in theirs:
                if key == "sentence_to_index":
                    assert json.loads(ours[key][0]) == json.loads(theirs[key][0])
                else:
                    assert ours[key].dtype == theirs[key].dtype == np.float32
                    np.testing.assert_allclose(ours[key], theirs[key], rtol=0, atol=1e-6)


def test_standard_input_pooling_and_json(tmp_path: Path, elmo_embed: Callable[..., Result]) -> None:
    out = tmp_path / "out.jsonl"
    result = elmo_embed("-", "-o", out, "--layers", "top", "--pool", "mean", stdin="Größe zählt.\nJa".encode())
    assert result.code == 0, result.stderr
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["tokens"] for row in rows] == [["Größe", "zählt", "."], ["Ja"]]
    expected = Embedder(layers="top", pooling="mean").embed(["Größe zählt.", "Ja nun"])[0]
    np.testing.assert_allclose(rows[0]["vector"], expected, rtol=0, atol=1e-6)


def test_a_column_of_a_table_into_parquet(tmp_path: Path, elmo_embed: Callable[..., Result]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = tmp_path / "in.csv"
    table.write_text("id,review\n7,Good\n8,\n", encoding="utf-8")
    out = tmp_path / "out.parquet"
    result = elmo_embed(table, "--column", "review", "--dtype", "float16", "--compress", "-o", out)
    assert result.code == 0, result.stderr
    read = parquet.read_table(out)
    assert read["tokens"].to_pylist() == [["Good"], []]
    assert str(read.schema.field("layer_2").type).startswith("list<element: fixed_size_list<element: halffloat")


def test_cut_words_are_told_once(tmp_path: Path, elmo_embed: Callable[..., Result]) -> None:
    result = elmo_embed("-", "-o", tmp_path / "out.npz", stdin=b"x" * 60 + b" short " + b"y" * 49 + b"\n" + b"z" * 99)
    assert result.code == 0
    assert re.fullmatch(r"elmo: 3 words are longer than the 48 bytes .*\n", result.stderr)


def test_a_line_of_100_000_tokens(tmp_path: Path, elmo_embed: Callable[..., Result]) -> None:
    out = tmp_path / "out.npz"
    options = ["--model", TINY, "--layers", "top", "--dtype", "float16"]
    result = elmo_embed("-", "-o", out, *options, stdin=b"a b c d " * 25_000)
    assert result.code == 0, result.stderr
    assert np.load(out)["0"].shape == (100_000, 64)


@pytest.mark.parametrize(
    ("stdin", "arguments", "message"),
    [
        (b"fine\nbad \xff byte\n", [], "not UTF-8: line 2"),
        (b"", [], "the input is empty"),
        (b"x" * 10_000_000, [], "a token of 10,000,000 characters"),
        (b"x\n", ["--layers", "9"], "Layer 9 was asked for"),
        (b"x\n", ["--pool", "sum"], "Unknown pooling 'sum'"),
        (b"x\n", ["--state", "hot"], "Unknown state 'hot'"),
        (b"x\n", ["--model", TINY, "--state", "warm"], "has no warm state"),
        (b"x\n", ["--dtype", "int4"], "Unknown dtype 'int4'"),
        (b"x\n", ["--precision", "int4"], "Unknown precision 'int4'"),
        (b"x\n", ["--out-format", "xml"], "Unknown output format 'xml'"),
        (b"x\n", ["--format", "xml"], "no input format 'xml'"),
        (b"x\n", ["--column", "a"], "A column was chosen"),
        (b"x\n", ["--tokenizer", "spacy"], "no tokeniser 'spacy'"),
        (b"x\n", ["--resume", "--force"], "give one of them"),
        (b"x\n", ["--engine", "local", "--resume", "--force"], "give one of them"),
        (b"x\n", ["--partition-mb", "4"], "--partition-mb, --keep and --split-sentences need --engine"),
        (b"x\n", ["--model", "no/such/model/anywhere"], "no/such/model/anywhere"),
        (b"x\n", ["--threads", "-1"], "--threads is -1"),
    ],
)
def test_bad_input_gets_one_sentence(
    tmp_path: Path, elmo_embed: Callable[..., Result], stdin: bytes, arguments: list[str], message: str
) -> None:
    result = elmo_embed("-", "-o", tmp_path / "out.hdf5", *arguments, stdin=stdin)
    shown = result.stderr
    assert result.code == 2, shown
    assert message in shown and shown.startswith("elmo: ") and shown.count("\n") == 1
    assert list(tmp_path.iterdir()) == [], "something was left behind"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threads", "-1"], "-1 threads were asked for"),
        (["--tokenizer", "spacy"], "no tokeniser 'spacy'"),
        (["--workers", "2"], "--workers 2 would do nothing: --engine local is this process alone"),
    ],
)
def test_engines_refuse_bad_settings_before_they_begin(
    text: Path, tmp_path: Path, elmo_embed: Callable[..., Result], arguments: list[str], message: str
) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / "vectors"
    result = elmo_embed(text, "-o", out, "--engine", "local", "--model", TINY, *arguments)
    assert result.code == 2 and result.stderr.startswith("elmo: ") and message in result.stderr
    assert result.stderr.count("\n") == 1 and not out.exists()


def test_outputs_that_cannot_be(text: Path, tmp_path: Path, elmo_embed: Callable[..., Result]) -> None:
    for out, message in [
        (tmp_path / "missing" / "out.hdf5", "Cannot write"),
        (tmp_path / "out.bin", "does not tell its format"),
        (tmp_path, "does not tell its format"),
        (text, "does not tell its format"),
        (Path("/proc/out.hdf5"), "Cannot write"),
    ]:
        result = elmo_embed(text, "-o", out)
        assert result.code == 2 and message in result.stderr, result.stderr
    out = tmp_path / "out.hdf5"
    out.write_text("precious")
    result = elmo_embed(text, "-o", out)
    assert result.code == 2 and "exists" in result.stderr and out.read_text() == "precious"
    assert elmo_embed(text, "-o", out, "--force").code == 0
    assert len(h5py.File(out)) == 6
    before = out.stat().st_mtime_ns
    result = elmo_embed(text, "-o", out, "--resume")
    assert result.code == 0 and "nothing left to do" in result.stderr
    assert out.stat().st_mtime_ns == before


def test_a_full_disk_keeps_what_is_finished(tmp_path: Path) -> None:
    lines = tmp_path / "in.txt"
    lines.write_text("\n".join(f"number {number}" for number in range(3000)), encoding="utf-8")
    out = tmp_path / "out.npz"
    # No file of this process may grow beyond 600 KB: the system's own refusal, as on a full disk.
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000)); "
    result = as_process(lines, "-o", out, before=limit + SMALL_PARTS)
    assert result.returncode == 2 and "Cannot write" in result.stderr and "--resume" in result.stderr
    assert not out.exists()
    assert as_process(lines, "-o", out, "--resume").returncode == 0
    assert len(np.load(out).files) == 2 * 3000  # vectors and tokens


def test_progress_on_a_terminal(text: Path, tmp_path: Path) -> None:
    lines = tmp_path / "many.txt"
    lines.write_text("some words in a line\n" * 30_000, encoding="utf-8")
    master, slave = pty.openpty()
    process = subprocess.Popen(command(lines, "-o", tmp_path / "out.npz", "--pool", "mean"), stderr=slave)
    os.close(slave)
    shown = b""
    try:
        while piece := os.read(master, 65536):
            shown += piece
    except OSError:  # the other end of a terminal was closed
        pass
    assert process.wait() == 0
    assert re.search(rb"\d+%, [\d,]+ tokens, [\d,]+ a second, \d+:\d\d left", shown), shown[-500:]
    assert b"30,000 sentences, 150,000 tokens" in shown


def _long_text(path: Path, count: int) -> None:
    chooser = random.Random(0)
    words = [f"w{number}" for number in range(500)]
    lines = (" ".join(chooser.choices(words, k=chooser.randrange(12))) for _ in range(count))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _read(path: Path) -> dict[str, np.ndarray]:
    if path.suffix == ".hdf5":
        with h5py.File(path) as file:
            return {key: file[key][()] for key in file if key != "sentence_to_index"}
    if path.suffix == ".npz":
        return dict(np.load(path))
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        return load_file(path)
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert len({row["id"] for row in rows}) == len(rows)
        return {str(row["id"]): np.array(row["layers"], np.float32).reshape(3, -1, 64) for row in rows}
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    rows = (pq.read_table if path.suffix == ".parquet" else feather.read_table)(path).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    stacked = {str(row["id"]): [row[f"layer_{k}"] for k in range(3)] for row in rows}
    return {key: np.array(value, np.float32).reshape(3, -1, 64) for key, value in stacked.items()}


@pytest.mark.parametrize(
    ("ending", "kills"),
    [("hdf5", 2), *(pytest.param(ending, 6, marks=pytest.mark.slow) for ending in ENDINGS)],
)
@pytest.mark.parametrize("state", ["reset", pytest.param("carry", marks=pytest.mark.slow)])
def test_killed_at_random_moments_and_resumed(tmp_path: Path, ending: str, kills: int, state: str) -> None:
    if state == "carry" and ending != "hdf5":
        pytest.skip("once is enough")
    lines, out, whole = tmp_path / "in.txt", tmp_path / f"out.{ending}", tmp_path / f"whole.{ending}"
    _long_text(lines, 8000)
    moments = random.Random(kills)
    killed = 0
    while killed < kills:
        process = subprocess.Popen(command(lines, "-o", out, "--resume", "--state", state, before=SMALL_PARTS))
        partial = tmp_path / f"out.{ending}.partial"
        before = _parts(partial)
        while _parts(partial) <= before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(moments.random() * 0.4)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() != 0
        if out.exists():
            break  # it had its name already, and is read below like any other
    assert killed > 0
    assert as_process(lines, "-o", out, "--resume", "--state", state, before=SMALL_PARTS).returncode == 0
    assert as_process(lines, "-o", whole, "--state", state).returncode == 0
    resumed, expected = _read(out), _read(whole)
    assert sum(not key.endswith(".tokens") for key in resumed) == 8000 and resumed.keys() == expected.keys()
    for key, values in expected.items():
        if key.endswith(".tokens"):
            np.testing.assert_array_equal(resumed[key], values)
        else:
            np.testing.assert_allclose(resumed[key], values, rtol=0, atol=1e-6)
    assert {path.name for path in tmp_path.iterdir()} == {lines.name, out.name, whole.name}


def _parts(folder: Path) -> int:
    try:
        return sum(path.name.startswith("part-") for path in folder.iterdir())
    except FileNotFoundError:
        return 0


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_memory_stays_flat(tmp_path: Path, ending: str) -> None:
    peaks = []
    # Small parts and windows, so that both inputs are long in comparison.
    bounds = "import elmo.embedding.embedder as e; e._WINDOW_BYTES = 4 << 20; "
    bounds += "import elmo.embedding.writers.vector_writer as w; w.PART_BYTES = 4 << 20; "
    for count in (8_000, 48_000):
        lines = tmp_path / "in.txt"
        _long_text(lines, count)
        out = tmp_path / f"{count}.{ending}"
        result = as_process(lines, "-o", out, "--layers", "top", before=bounds + PEAK)
        assert result.returncode == 0, result.stderr
        peaks.append(int(re.findall(r"peak (\d+)", result.stderr)[0]) / 1024)
        out.unlink()
    assert peaks[1] < peaks[0] * 1.15 + 20, f"MB with 8,000 and 48,000 sentences: {peaks}"
