"""A corpus becomes partitions: the rows of one call, each once, written atomically and not repeated."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq

from elmo.errors import ConfigError, InputError
from elmo.scale.arrow import ArrowEmbedder, ArrowSettings
from elmo.scale.job import Job, JobOptions, PartitionReport, Plan, embed_here, plan_job, run_job
from elmo.scale.output_folder import OutputFolder
from elmo.scale.partitions import Partition

LINES = [f"Line {number} of the text , {'more ' * (number % 7)}." for number in range(200)]


@pytest.fixture
def text(tmp_path: Path) -> str:
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return str(tmp_path / "in.txt")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.parquet")}


def test_what_cannot_be_split_into_sentences_is_refused_before_the_run(folder: str, tmp_path: Path) -> None:
    given, out = tmp_path / "in.parquet", tmp_path / "out"
    splitting = JobOptions(split_sentences=True)
    pq.write_table(pa.table({"text": [["a", "b"], ["c"]]}), given)
    with pytest.raises(InputError, match="only strings can be split"):
        plan_job(ArrowSettings(folder), [str(given)], str(out), splitting)
    assert not out.exists()
    pq.write_table(pa.table({"text": pa.nulls(2)}), given)  # a file may happen to hold no text at all
    plan = plan_job(ArrowSettings(folder), [str(given)], str(out), splitting)
    assert run_job(plan, embed_here).num_rows == 0


def test_partitions_have_the_rows_of_one_call(folder: str, text: str, tmp_path: Path) -> None:
    settings = ArrowSettings(folder, layers=[0.2, 0.3, 0.5], dtype="float16")
    report = run_job(plan_job(settings, [text], str(tmp_path / "out"), JobOptions(partition_bytes=1000)), embed_here)
    assert report.num_done == report.num_partitions > 5 and report.num_rows == 200
    table = pq.read_table(tmp_path / "out")
    expected = ArrowEmbedder(settings)(pa.table({"text": LINES}))
    assert table.column_names == ["source", "id", "text", "tokens", "starts", "stops", "vectors"]
    assert table["tokens"].to_pylist() == expected["tokens"].to_pylist()
    assert report.num_tokens == sum(map(len, expected["tokens"].to_pylist()))
    for mine, right in zip(table["vectors"].to_pylist(), expected["vectors"].to_pylist(), strict=True):
        assert mine == [pytest.approx(vector, abs=2e-3) for vector in right]
    assert (tmp_path / "out" / "_SUCCESS").is_file() and not (tmp_path / "out" / "_partial").exists()


def test_another_file_system_for_input_and_output(folder: str) -> None:
    with fsspec.open("memory://corpus/in.jsonl", "w") as file:
        file.writelines(json.dumps({"id": number, "words": line.split()}) + "\n" for number, line in enumerate(LINES))
    settings = ArrowSettings(folder, column="words", pooling="mean")
    plan = plan_job(settings, ["memory://corpus/*.jsonl"], "memory://vectors", JobOptions(partition_bytes=4000))
    assert run_job(plan, embed_here).num_rows == 200
    filesystem = fsspec.filesystem("memory")
    table = pq.read_table("/vectors", filesystem=filesystem)
    assert table["words"].to_pylist() == [line.split() for line in LINES]
    assert set(table["source"].to_pylist()) == {"memory:///corpus/in.jsonl"}
    assert (
        plan_job(settings, ["memory://corpus/*.jsonl"], "memory://vectors", JobOptions(partition_bytes=4000)).todo == []
    )


def test_inputs_with_unusual_names_become_readable_partitions(folder: str, tmp_path: Path) -> None:
    inputs = [tmp_path / "_n.txt", tmp_path / "a[1].txt"]
    for path in inputs:
        path.write_text("a b\n")

    def plan() -> Plan:
        return plan_job(ArrowSettings(folder, pooling="mean"), list(map(str, inputs)), "memory://odd")

    run_job(plan(), embed_here)
    assert pq.read_table("/odd", filesystem=fsspec.filesystem("memory")).num_rows == 2
    assert plan().todo == []


@pytest.mark.parametrize("given", ["corpus", "corpus/**", "another name"])
def test_the_output_is_not_input_of_the_next_run(folder: str, tmp_path: Path, given: str) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (tmp_path / "another name").symlink_to(corpus)
    (corpus / "in.txt").write_text("a b\nc\n")
    pq.write_table(pa.table({"text": ["d"]}), corpus / "more.parquet")
    for finished in (0, 2, 2):
        plan = plan_job(ArrowSettings(folder), [str(tmp_path / given)], str(corpus / "vectors"))
        assert (plan.num_finished, len(plan.todo)) == (finished, 2 - finished)
        run_job(plan, embed_here)
        assert pq.read_table(corpus / "vectors").num_rows == 3
    with pytest.raises(InputError, match=r"nothing to embed: .* are in the output folder"):
        plan_job(ArrowSettings(folder), [str(corpus / "vectors")], str(corpus / "vectors"))


def test_a_second_run_embeds_only_missing_partitions(folder: str, text: str, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def stops(job: Job, partitions: list[Partition]) -> Iterator[PartitionReport]:
        yield from embed_here(job, partitions[:3])
        raise KeyboardInterrupt

    settings = ArrowSettings(folder, pooling="mean")
    with pytest.raises(KeyboardInterrupt):
        run_job(plan_job(settings, [text], str(out), JobOptions(partition_bytes=1000)), stops)
    before = {name: (out / name).stat().st_mtime_ns for name in names(out)}
    assert len(before) == 3 and not (out / "_SUCCESS").exists()
    plan = plan_job(settings, [text], str(out), JobOptions(partition_bytes=1000))
    assert plan.num_finished == 3
    assert run_job(plan, embed_here).num_finished_before == 3
    assert before.items() <= {name: (out / name).stat().st_mtime_ns for name in names(out)}.items()
    assert pq.read_table(out).num_rows == 200


def test_partitions_are_written_atomically(tmp_path: Path) -> None:
    output = OutputFolder(str(tmp_path))
    with pytest.raises(RuntimeError), output.write("a.parquet") as file:
        file.write(b"half")
        raise RuntimeError
    assert list(tmp_path.rglob("*.*")) == []


def edit(path: Path, content: bytes) -> None:
    """Replace a file's content. The time is set, because two writes may fall into one step of the clock."""
    later = path.stat().st_mtime_ns + 10**9
    path.write_bytes(content)
    os.utime(path, ns=(later, later))


@pytest.mark.parametrize("corrected", [b"e", "é".encode(), b""], ids=["same-size", "longer", "shorter"])
def test_a_bad_row_does_not_stop_the_others_and_its_file_may_be_corrected(
    folder: str, tmp_path: Path, corrected: bytes
) -> None:
    good, bad, out = tmp_path / "good.txt", tmp_path / "bad.txt", tmp_path / "out"
    raw = "\n".join(LINES).encode()
    good.write_bytes(raw)
    bad.write_bytes(raw[:1500] + b"\xff" + raw[1501:])
    settings, options = ArrowSettings(folder, pooling="mean"), JobOptions(partition_bytes=1000)

    def plan() -> Plan:
        return plan_job(settings, [str(good), str(bad)], str(out), options)

    first = plan()
    for again in (first, plan()):  # a file that is not corrected fails again, alone
        with pytest.raises(InputError, match=r"1 of \d+ partitions .* offset 1500.*all of each corrected file"):
            run_job(again, embed_here)
        assert len(names(out)) == len(first.todo) - 1
    of_good = {partition.name for partition in first.todo if partition.source == str(good)}
    edit(bad, raw[:1500] + corrected + raw[1501:])
    again = plan()
    assert again.num_finished == len(of_good) and names(out) == of_good  # nothing of the old file is left
    assert {partition.source for partition in again.todo} == {str(bad)}
    run_job(again, embed_here)
    (tmp_path / "both").mkdir()
    run_job(plan_job(settings, [str(good), str(bad)], str(tmp_path / "both"), options), embed_here)
    assert pq.read_table(out).equals(pq.read_table(tmp_path / "both"))
    edit(bad, raw)  # it is finished now: an edit is no correction
    with pytest.raises(ConfigError, match="1 input file that has changed"):
        plan()


@pytest.mark.parametrize("kind", ["texts", "documents", "tokens"])
def test_parquet_that_is_not_utf8_does_not_stop_the_others(folder: str, tmp_path: Path, kind: str) -> None:
    raw = [b"Row %d." % number for number in range(200)]
    raw[130] = b"bad \xff byte"
    column = pa.array(raw).view(pa.string())
    column = pa.ListArray.from_arrays(range(201), column) if kind == "tokens" else column
    pq.write_table(pa.table({"text": column}), tmp_path / "in.parquet")  # one row group for all partitions
    options = JobOptions(split_sentences=kind == "documents", partition_bytes=300)
    settings = ArrowSettings(folder, pooling="mean")
    plan = plan_job(settings, [str(tmp_path / "in.parquet")], str(tmp_path / "out"), options)
    with pytest.raises(InputError, match=r"1 of \d+ partitions .*in\.parquet: 'text' in row 130 is not UTF-8"):
        run_job(plan, embed_here)
    assert len(names(tmp_path / "out")) == len(plan.todo) - 1 > 2


def test_a_deleted_file_does_not_stop_the_others(folder: str, tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(pa.table({"text": ["a b"]}), tmp_path / name)
    inputs = [str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")]
    plan = plan_job(ArrowSettings(folder), inputs, str(tmp_path / "out"))
    Path(inputs[0]).unlink()
    with pytest.raises(InputError, match=r"1 of 2 partitions .* Cannot read .*a\.parquet"):
        run_job(plan, embed_here)
    assert pq.read_table(tmp_path / "out").num_rows == 1


def test_tokens_may_begin_with_null(folder: str, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": null}\n{"text": ["a", "b"]}\n')
    settings = ArrowSettings(folder, layers="top")
    run_job(plan_job(settings, [str(tmp_path / "in.jsonl")], str(tmp_path / "out")), embed_here)
    assert list(map(len, pq.read_table(tmp_path / "out")["vectors"].to_pylist())) == [0, 2]


def test_a_kept_column_may_be_called_tokens(folder: str, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"words": ["a", "b"], "tokens": 2}\n')
    settings = ArrowSettings(folder, column="words", layers="top")
    plan = plan_job(settings, [str(tmp_path / "in.jsonl")], str(tmp_path / "out"), JobOptions(keep=("tokens",)))
    assert run_job(plan, embed_here).num_tokens == 2
    (row,) = pq.read_table(tmp_path / "out").to_pylist()
    assert (row["words"], row["tokens"], len(row["vectors"])) == (["a", "b"], "2", 2)


def test_weights_may_be_numpys(folder: str, text: str, tmp_path: Path) -> None:
    weights = list(np.array([0.5, 0.25, 0.25], np.float32))
    plan = plan_job(ArrowSettings(folder, layers=weights), [text], str(tmp_path / "out"))
    assert run_job(plan, embed_here).num_rows == 200
    again = plan_job(ArrowSettings(folder, layers=[0.5, 0.25, 0.25]), [text], str(tmp_path / "out"))
    assert again.todo == []


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ({}, {"threads": -1}, "threads is -1; expected"),
        ({}, {"threads": 0}, "threads is 0; expected"),
        ({"tokenizer": "spacy"}, {}, "no tokenizer 'spacy'"),
        ({"column": "id"}, {}, "A column was chosen, but .* is read as lines"),
    ],
)
def test_bad_settings_are_refused_before_the_run(
    folder: str, text: str, tmp_path: Path, settings: dict[str, str], options: dict[str, int], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_job(ArrowSettings(folder, **settings), [text], str(tmp_path / "out"), JobOptions(**options))  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_a_run_is_not_resumed_with_another_mapping(folder: str, text: str, tmp_path: Path) -> None:
    import torch

    out, matrix, plain = str(tmp_path / "out"), str(tmp_path / "matrix.pth"), ArrowSettings(folder, layers="top")
    torch.save(torch.eye(ArrowEmbedder(plain).embedder.output_dim), matrix)
    mapped = replace(plain, align=matrix)
    run_job(plan_job(mapped, [text], out), embed_here)
    assert plan_job(mapped, [text], out).todo == []
    with pytest.raises(ConfigError, match=r"other settings \(model"):
        plan_job(plain, [text], out)


def test_a_run_is_not_resumed_with_another_column(folder: str, tmp_path: Path) -> None:
    table, out = tmp_path / "in.tsv", str(tmp_path / "out")
    table.write_text("one word\tother words\nmore\tand more\n", encoding="utf-8")
    run_job(plan_job(ArrowSettings(folder, column="1", layers="top"), [str(table)], out), embed_here)
    assert plan_job(ArrowSettings(folder, column="1", layers="top"), [str(table)], out).todo == []
    with pytest.raises(ConfigError, match=r"other settings \(number '1' -> '2'\)"):
        plan_job(ArrowSettings(folder, column="2", layers="top"), [str(table)], out)


def test_other_settings_are_refused(folder: str, text: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    run_job(plan_job(ArrowSettings(folder, pooling="mean"), [text], out), embed_here)
    with pytest.raises(ConfigError, match=r"other settings \(pooling 'mean' -> 'max'\)"):
        plan_job(ArrowSettings(folder, pooling="max"), [text], out)


@pytest.mark.parametrize("size", ["same", "another"])
def test_a_changed_input_file_is_refused(folder: str, text: str, tmp_path: Path, size: str) -> None:
    out, settings = tmp_path / "out", ArrowSettings(folder, pooling="mean")
    run_job(plan_job(settings, [text], str(out)), embed_here)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    edit(Path(text), Path(text).read_bytes().replace(b"text", b"word") if size == "same" else b"another text\n")
    with pytest.raises(ConfigError, match=r"1 input file that has changed since then \(.*in\.txt\)"):
        plan_job(settings, [text], str(out))
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    run_job(plan_job(settings, [text], str(out), JobOptions(overwrite=True)), embed_here)
    table = pq.read_table(out)
    assert ("word" in table["tokens"].to_pylist()[0]) == (size == "same")
    assert table.num_rows == (200 if size == "same" else 1)


@pytest.mark.parametrize("changed", ["files", "format"])
def test_partitions_of_input_that_is_not_given_are_refused(folder: str, tmp_path: Path, changed: str) -> None:
    out, settings = tmp_path / "out", ArrowSettings(folder, layers="top")
    given = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")]
    for path in given:
        Path(path).write_text('{"text": "a b"}\n')
    run_job(plan_job(settings, given, str(out)), embed_here)
    before = names(out)
    inputs, options = (given[1:], JobOptions()) if changed == "files" else (given, JobOptions(input_format="lines"))
    with pytest.raises(ConfigError, match="of input that is not given"):
        plan_job(settings, inputs, str(out), options)
    assert names(out) == before


def test_other_files_are_not_changed(folder: str, text: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "dear.parquet")
    for overwrite in (False, True):
        with pytest.raises(ConfigError, match="not of an earlier run"):
            plan_job(ArrowSettings(folder), [text], str(tmp_path), JobOptions(overwrite=overwrite))
    assert pq.read_table(tmp_path / "dear.parquet").num_rows == 1


def test_files_with_different_columns_are_refused(folder: str, text: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": [["a", "b"]]}), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text('{"text": ["a", "b"]}')
    for name in ("a.parquet", "a.jsonl"):
        with pytest.raises(InputError, match="Embed them into two folders"):
            plan_job(ArrowSettings(folder), [text, str(tmp_path / name)], str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("library", "extra"), [("ray", "ray"), ("pyspark", "spark")])
def test_a_missing_engine_says_what_to_type(library: str, extra: str) -> None:
    code = (
        f"import sys; sys.modules['{library}'] = None; sys.argv = "
        f"['elmo', 'embed-corpus', 'x.txt', '-o', 'out', '--engine', '{extra}']\n"
        "from elmo.commands import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and f"pip install 'elmo-torch[{extra}]'" in done.stderr
