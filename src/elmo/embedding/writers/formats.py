"""Which formats there are, by name and by file ending."""

from __future__ import annotations

from pathlib import Path

from elmo.embedding.writers.record import Format, OutputLayout
from elmo.errors import ConfigError

ENDINGS = {
    ".hdf5": "hdf5",
    ".h5": "hdf5",
    ".npz": "npz",
    ".npy": "npy",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".jsonl": "jsonl",
    ".jsonl.gz": "jsonl",
    ".ndjson": "jsonl",
}
FORMATS = tuple(dict.fromkeys(ENDINGS.values()))


def format_of(path: Path) -> str:
    """The format that a file's name means."""
    for ending, name in ENDINGS.items():
        if path.name.lower().endswith(ending):
            return name
    raise ConfigError(
        f"The output's name, {path.name!r}, does not tell its format. End it with one of {', '.join(ENDINGS)}, "
        f"or say --out-format ({', '.join(FORMATS)})."
    )


def open_format(name: str, layout: OutputLayout) -> Format:
    """The format's code; its libraries are imported here and not before. Refuses a layout that it cannot hold."""
    if name == "hdf5":
        from elmo.embedding.writers.hdf5 import Hdf5

        return Hdf5()
    if name == "npz":
        from elmo.embedding.writers.npz import Npz

        return Npz()
    if name == "npy":
        from elmo.embedding.writers.npy import Npy

        return Npy(layout)
    if name == "jsonl":
        from elmo.embedding.writers.jsonl import JsonLines

        return JsonLines()
    if name in ("parquet", "arrow"):
        from elmo.embedding.writers.arrow import ArrowFile

        return ArrowFile("parquet" if name == "parquet" else "arrow")
    raise ConfigError(f"Unknown output format {name!r}; expected one of {', '.join(FORMATS)}.")
