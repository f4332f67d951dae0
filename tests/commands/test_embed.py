"""`elmo embed` in real processes: every format, one error message for bad input, resume after a kill."""

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
import torch
from tiny_model import TINY

from elmo.commands import main
from elmo.embedding.embedder import Embedder

GOLDEN = Path(__file__).parent.parent / "golden"
SENTENCES = ["The bank raised its rates.", "", "a/b: c", "The bank raised its rates.", "Don't."]
ENDINGS = ("hdf5", "npz", "jsonl", "parquet", "arrow")
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
def elmo_embed(elmo: Callable[..., Result]) -> Callable[..., Result]:

    def run(*arguments: object, stdin: bytes = b"") -> Result:
        return elmo(["embed", *arguments], stdin=stdin)

    return run


@pytest.fixture
def elmo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """A command without a process of its own, which takes seconds to start."""

    def run(arguments: list[object], *, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "argv", ["elmo", *map(str, arguments)])
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


def test_every_line_gives_an_entry_and_a_pipe_gets_no_messages(text: Path, tmp_path: Path) -> None:
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


def test_truncated_words_are_reported_once(tmp_path: Path, elmo_embed: Callable[..., Result]) -> None:
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
        (b"x\n", ["--layers", "9"], "There is no layer 9"),
        (b"x\n", ["--pool", "sum"], "Unknown pooling 'sum'; expected one of mean, max."),
        (b"x\n", ["--state", "hot"], "Unknown state 'hot'"),
        (b"x\n", ["--model", TINY, "--state", "warm"], "has no warm state"),
        (b"x\n", ["--dtype", "int4"], "Unknown dtype 'int4'"),
        (b"x\n", ["--precision", "int4"], "Unknown precision 'int4'"),
        (b"x\n", ["--out-format", "xml"], "Unknown output format 'xml'"),
        (b"x\n", ["--format", "xml"], "no input format 'xml'"),
        (b"x\n", ["--column", "a"], "A column was chosen"),
        (b"x\n", ["--tokenizer", "spacy"], "no tokenizer 'spacy'"),
        (b"x\n", ["--resume", "--force"], "Give one of them"),
        (b"x\n", ["--model", "no/such/model/anywhere"], "no/such/model/anywhere"),
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
        (["--threads", "-1"], "threads is -1; expected"),
        (["--partition-mb", "nan"], "--partition-mb is nan"),
        (["--partition-mb", "inf"], "--partition-mb is inf"),
        (["--tokenizer", "spacy"], "no tokenizer 'spacy'"),
        (["--workers", "2"], "--workers 2 has no effect: --engine local runs in this process"),
        (["--device", "nowhere"], "The device 'nowhere' cannot be used"),
        (["--device", "cuda", "--engine", "ray"], "--device cuda needs --engine local"),
    ],
)
def test_engines_refuse_bad_settings_before_they_begin(
    text: Path, tmp_path: Path, elmo: Callable[..., Result], arguments: list[str], message: str
) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / "vectors"
    result = elmo(["embed-corpus", text, "-o", out, "--model", TINY, *arguments])
    assert result.code == 2 and result.stderr.startswith("elmo: ") and message in result.stderr
    assert result.stderr.count("\n") == 1 and not out.exists()


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        (
            "reviews.csv",
            'id,review\n1,"It\'s good, ""very"" good."\n2,bad\n',
            ["--column", "review", "--device", "cpu"],
        ),
        ("a.conllu", "# sent_id = x\n1-2\tdu\t_\n1\tde\t_\n2\tle\t_\n\n1\toui\t_\n", []),
        ("a.tok", "a\u00a0b c\n", []),
    ],
)
def test_a_corpus_is_read_as_embed_reads_it(
    tmp_path: Path, elmo: Callable[..., Result], name: str, content: str, options: list[str]
) -> None:
    import pyarrow.parquet as pq

    (tmp_path / name).write_text(content, encoding="utf-8")
    vectors = ["--model", TINY, "--layers", "top", *options]
    assert elmo(["embed-corpus", tmp_path / name, "-o", tmp_path / "corpus", *vectors]).code == 0
    assert elmo(["embed", tmp_path / name, "-o", tmp_path / "one.parquet", *vectors]).code == 0
    corpus, one = pq.read_table(tmp_path / "corpus"), pq.read_table(tmp_path / "one.parquet")
    assert corpus["tokens"].to_pylist() == one["tokens"].to_pylist()
    for mine, right in zip(corpus["vectors"].to_pylist(), one["vectors"].to_pylist(), strict=True):
        np.testing.assert_allclose(mine, right, atol=1e-6)


TABLES = {
    "in.csv": 'key,review,stars\nx7,"Good, isn\'t it?",5\nx8,,1\n',
    "in.tsv": "key\treview\tstars\nx7\tGood, isn't it?\t5\nx8\t\t1\n",
    "in.jsonl": '{"key": "x7", "review": "Good, isn\'t it?", "stars": 5}\n{"key": "x8", "review": null, "stars": 1}\n',
}


@pytest.mark.parametrize("name", [*TABLES, "in.parquet"])
def test_rows_of_every_table_join_back(tmp_path: Path, elmo_embed: Callable[..., Result], name: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if name in TABLES:
        (tmp_path / name).write_text(TABLES[name], encoding="utf-8")
    else:
        table = {"key": ["x7", "x8"], "review": ["Good, isn't it?", None], "stars": [5, 1]}
        pq.write_table(pa.table(table), tmp_path / name)
    out = tmp_path / "out.jsonl"
    chosen = ["--column", "review", "--id-column", "key", "--keep", "stars", "--layers", "top", "-m", TINY]
    result = elmo_embed(tmp_path / name, *chosen, "-o", out)
    assert result.code == 0, result.stderr
    first, second = (json.loads(line) for line in out.read_text(encoding="utf-8").splitlines())
    assert (first["id"], first["stars"], second["id"], second["stars"]) == ("x7", "5", "x8", "1")
    places = zip(first["starts"], first["stops"], strict=True)
    assert ["Good, isn't it?"[start:stop] for start, stop in places] == ["Good", ",", "is", "n't", "it", "?"]
    assert first["tokens"] == ["Good", ",", "is", "n't", "it", "?"] and second["tokens"] == []


def test_tokens_of_running_text_are_placed_in_the_file(tmp_path: Path, elmo_embed: Callable[..., Result]) -> None:
    text = "It rained.\r\n\r\nWe stayed —\r\nat home."
    (tmp_path / "a.txt").write_bytes(text.encode())
    out = tmp_path / "out.jsonl"
    assert elmo_embed(tmp_path / "a.txt", "--format", "text", "--pool", "mean", "-m", TINY, "-o", out).code == 0
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    found = [[text[start:stop] for start, stop in zip(row["starts"], row["stops"], strict=True)] for row in rows]
    assert found == [["It", "rained", "."], ["We", "stayed", "—", "at", "home", "."]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--keep", "tokens"], "The input's column 'tokens' cannot be kept"),
        (["--keep", "star"], "no column 'star' (--keep). It has: key, text, tokens"),
        (["--id-column", "no"], "no column 'no' (--id-column)"),
        (["--column", "body"], "no column 'body' (--column)"),
    ],
)
def test_columns_that_are_not_there_are_named_with_their_option(
    tmp_path: Path, elmo_embed: Callable[..., Result], arguments: list[str], message: str
) -> None:
    (tmp_path / "in.csv").write_text("key,text,tokens\n1,a,b\n")
    out = tmp_path / "out.jsonl"
    result = elmo_embed(tmp_path / "in.csv", "-m", TINY, "-o", out, "--column", "text", *arguments)
    assert result.code == 2 and message in result.stderr and not out.exists()


def test_outputs_that_cannot_be_written(text: Path, tmp_path: Path, elmo_embed: Callable[..., Result]) -> None:
    for out, message in [
        (tmp_path / "out.bin", "is not that of a known format"),
        (tmp_path, "is not that of a known format"),
        (text, "is not that of a known format"),
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
    assert result.code == 0 and "is complete already" in result.stderr
    assert out.stat().st_mtime_ns == before


def test_a_full_disk_keeps_finished_sentences(tmp_path: Path) -> None:
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
    assert len(np.load(out).files) == 3 * 3000  # vectors, tokens and rows


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
    assert re.search(rb"\d+%.* [\d,]+ tokens, [\d,]+ per second", shown), shown[-500:]
    assert b"30,000 sentences, 150,000 tokens" in shown


INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
"""A shell starts processes in the background without Ctrl-C."""
SMALL_WINDOWS = "import elmo.embedding.embedder as e; e._WINDOW_BYTES = 1 << 20; "


def _interrupt(out: Path, *arguments: object, saved: str, stdin: bytes = b"") -> str:
    """What a command that reads a pipe prints after Ctrl-C, which comes as soon as a file of that pattern is there."""
    process = subprocess.Popen(
        command("-", "-m", TINY, "-o", out, *arguments, before=INTERRUPTIBLE + SMALL_WINDOWS + SMALL_PARTS),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(stdin)
    process.stdin.flush()
    while not list(out.with_name(f"{out.name}.partial").glob(saved)):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    printed = process.stderr.read().decode()  # its input stays open
    process.stdin.close()
    assert process.wait() == 130
    return printed


def test_a_run_that_is_stopped_before_anything_is_saved(
    text: Path, tmp_path: Path, elmo_embed: Callable[..., Result]
) -> None:
    out = tmp_path / "out.jsonl"
    assert elmo_embed("-", "-m", TINY, "-o", out, stdin=b"an older output\n").code == 0
    printed = _interrupt(out, "--force", saved="settings.json")
    assert "stopped. No sentence was saved yet; start the command again." in printed and "--resume" not in printed
    assert len(out.read_text().splitlines()) == 1
    result = elmo_embed(text, "-m", TINY, "-o", out, "--resume")
    assert result.code == 0 and "complete already" not in result.stderr
    assert len(out.read_text().splitlines()) == len(SENTENCES)
    assert {path.name for path in tmp_path.iterdir()} == {text.name, out.name}


def test_a_run_that_is_stopped_later_continues(tmp_path: Path, elmo_embed: Callable[..., Result]) -> None:
    lines, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    _long_text(lines, 1000)
    printed = _interrupt(out, saved="part-*-*-*", stdin=lines.read_bytes())
    assert "stopped. Finished sentences are in out.jsonl.partial; continue with --resume." in printed
    assert not out.exists()
    assert elmo_embed(lines, "-m", TINY, "-o", out, "--resume").code == 0
    assert len(out.read_text().splitlines()) == 1000


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
    assert sum(key.isdecimal() for key in resumed) == 8000 and resumed.keys() == expected.keys()
    for key, values in expected.items():
        np.testing.assert_array_equal(resumed[key], values)
    assert {path.name for path in tmp_path.iterdir()} == {lines.name, out.name, whole.name}


def _parts(folder: Path) -> int:
    try:
        return sum(path.name.startswith("part-") for path in folder.iterdir())
    except FileNotFoundError:
        return 0


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_memory_is_constant(tmp_path: Path, ending: str) -> None:
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


def test_low_precision_is_refused_on_other_devices(text: Path, tmp_path: Path, elmo: Callable[..., Result]) -> None:
    arguments = ["embed", text, "-m", TINY, "-o", tmp_path / "out.npz", "--device", "meta", "--precision", "int8"]
    result = elmo(arguments)
    assert result.code == 2
    assert "The precision int8 needs the CPU kernels, but the model would run on meta" in result.stderr


def test_vectors_are_mapped_with_align(text: Path, tmp_path: Path, elmo: Callable[..., Result]) -> None:
    matrix = torch.diag(torch.full((Embedder(TINY).output_dim,), 2.0))
    torch.save(matrix, tmp_path / "double.pth")
    plain = ["embed", text, "-m", TINY, "--layers", "top"]
    assert elmo([*plain, "-o", tmp_path / "plain.npz"]).code == 0
    assert elmo([*plain, "--align", tmp_path / "double.pth", "-o", tmp_path / "mapped.npz"]).code == 0
    with np.load(tmp_path / "plain.npz") as before, np.load(tmp_path / "mapped.npz") as after:
        np.testing.assert_allclose(after["0"], 2 * before["0"], atol=1e-6)
    unknown = elmo([*plain, "--align", "xx", "-o", tmp_path / "other.npz"])
    assert unknown.code == 2 and "expected one of en, de, es" in unknown.stderr
