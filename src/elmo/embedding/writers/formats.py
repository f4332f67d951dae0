"""The formats by name and by file suffix."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from elmo.embedding.writers.record import Format, OutputLayout
from elmo.errors import ConfigError, check_choice

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
# name -> (module, class); a format's libraries are imported when it is used
_CLASSES = {
    "hdf5": ("hdf5", "Hdf5"),
    "npz": ("npz", "Npz"),
    "npy": ("npy", "Npy"),
    "parquet": ("arrow", "ArrowFile"),
    "arrow": ("arrow", "ArrowFile"),
    "jsonl": ("jsonl", "JsonLines"),
}
FORMATS = tuple(_CLASSES)


@dataclass(frozen=True)
class OutputFile:
    """The file to write."""

    path: Path
    format_name: str
    compress: bool = False

    @classmethod
    def of(cls, path: str | Path, format_name: str | None = None, compress: bool = False) -> OutputFile:
        """Without `format_name` the suffix gives the format; a file that ends in .gz is always compressed."""
        path = Path(path)
        return cls(path, format_name or format_of(path), compress or path.name.lower().endswith(".gz"))


def format_of(path: Path) -> str:
    """The format of a file's suffix."""
    for ending, name in ENDINGS.items():
        if path.name.lower().endswith(ending):
            return name
    raise ConfigError(
        f"The suffix of {path.name!r} is not that of a known format. Expected one of {', '.join(ENDINGS)}; or give "
        f"the format with --out-format ({', '.join(FORMATS)})."
    )


def open_format(name: str, layout: OutputLayout) -> Format:
    """The format of that name, for files of this layout."""
    check_choice("output format", name, FORMATS)
    module, kind = _CLASSES[name]
    arguments = {"npy": (layout,), "parquet": ("parquet",), "arrow": ("arrow",)}.get(name, ())
    opened: Format = getattr(import_module(f"elmo.embedding.writers.{module}"), kind)(*arguments)
    return opened
