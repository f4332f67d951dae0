"""Two runs at the same time into one folder do not damage each other's output."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from elmo.errors import ConfigError
from elmo.scale.output_folder import OutputFolder
from elmo.scale.partitions import Partition

# A process of its own, for a file in work has the process in its name.
ANOTHER_RUN = """
import sys
from elmo.scale.output_folder import OutputFolder
output = OutputFolder(sys.argv[1])
with output.write("a.parquet") as file:
    file.write(b"whole")
output.finish()
"""


def finish_another_run(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", ANOTHER_RUN, str(folder)], check=True)
    assert (folder / "_SUCCESS").is_file()


def test_a_partition_finished_by_another_run_is_done(tmp_path: Path) -> None:
    output = OutputFolder(str(tmp_path))
    with output.write("a.parquet") as file:
        file.write(b"whole")
        finish_another_run(tmp_path)
    assert (tmp_path / "a.parquet").read_bytes() == b"whole"
    assert not (tmp_path / "_partial").exists()


def test_partitions_of_another_active_run_are_not_changed(tmp_path: Path) -> None:
    output = OutputFolder(str(tmp_path))
    with output.write("b.parquet") as file:
        file.write(b"more")
        finish_another_run(tmp_path)
    assert (tmp_path / "b.parquet").read_bytes() == b"more"
    output.finish()
    assert not (tmp_path / "_partial").exists()


def test_a_deleted_partition_is_not_counted_as_done(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), OutputFolder(str(tmp_path)).write("a.parquet") as file:
        file.write(b"whole")
        for partial in (tmp_path / "_partial").iterdir():
            partial.unlink()


def test_overwrite_removes_files_of_a_killed_run(tmp_path: Path) -> None:
    output = OutputFolder(str(tmp_path))
    output.begin({}, [])
    (tmp_path / "_partial" / "old.parquet.host.1").touch()
    output.begin({}, [], overwrite=True)
    output.finish()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_SUCCESS", "_elmo.json"]


@pytest.mark.parametrize("root", ["memory://corpus", "{tmp_path}/corpus"])
def test_output_files_are_not_read_as_input(root: str, tmp_path: Path) -> None:
    root = root.format(tmp_path=tmp_path)
    output = OutputFolder(f"{root}/out")
    for name in ("a.parquet", "_elmo.json", "_failed.json", "_SUCCESS", "_partial/a.parquet.host.1"):
        assert output.owns(f"{root}/out/{name}")
    for name in ("a.parquet", "out.parquet", "out/a.txt", "out/below/a.parquet", "out2/a.parquet"):
        assert not output.owns(f"{root}/{name}")
    assert not output.owns("memory://elsewhere/corpus/out/a.parquet")


def test_a_name_that_another_file_system_reads_as_a_pattern_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"memory://out\[1\] holds \[ \]"):
        OutputFolder("memory://out[1]").begin({}, [])
    # Here names are names.
    assert OutputFolder(str(tmp_path / "out[1]")).begin({}, []) == set()


def test_partitions_of_an_earlier_release_are_refused(tmp_path: Path) -> None:
    output = OutputFolder(str(tmp_path))
    partition = Partition("in.txt", "lines", 10, 0, 10, "1")
    output.begin({}, [partition])
    (tmp_path / "in-000000000000-0123456789ab.parquet").touch()  # names had the digest of all in one
    with pytest.raises(ConfigError, match=r"of an earlier release \(in-000000000000-0123456789ab\.parquet"):
        output.begin({}, [partition])
    assert output.begin({}, [partition], overwrite=True) == set()


def test_a_source_that_failed_stays_noted_until_all_is_finished(tmp_path: Path) -> None:
    output = OutputFolder(str(tmp_path))
    old, new = (Partition("in.txt", "lines", 10, 0, 10, version) for version in ("1", "2"))
    output.begin({}, [old])
    with output.write(old.name) as file:
        file.write(b"a part")
    output.note_failed(["in.txt"])
    assert output.begin({}, [old]) == {old.name}  # a run that is killed changes nothing
    assert output.begin({}, [new]) == set() and not (tmp_path / old.name).exists()
    with output.write(new.name) as file:
        file.write(b"all")
    output.finish()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_SUCCESS", "_elmo.json", new.name]
    with pytest.raises(ConfigError, match=r"1 input file that has changed since then \(in\.txt\)"):
        output.begin({}, [old])
