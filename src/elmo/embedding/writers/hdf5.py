"""HDF5 in the layout of `allennlp elmo`, which many scripts read.

    "0", "1", ...         one dataset per sentence, by its number in the input: (layers, tokens, dim), or (tokens, dim)
    "sentence_to_index"   shape (1,): a JSON object from sentence to number; a repeated sentence has its last number

Old tools wrote float32 without compression; old readers also read float16 and gzip. Two attributes are ours: the
tokens, json.loads(file["0"].attrs["tokens"]), and the other fields, json.loads(file["0"].attrs["row"]): id and kept
columns, if requested, and the tokens' starts and stops.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

from elmo.embedding.writers.record import OutputLayout, Record
from elmo.storage.hdf5_file import checked_hdf5, limit_cache

SENTENCE_INDEX = "sentence_to_index"
TOKENS, ROW = "tokens", "row"
LARGEST_SENTENCE_INDEX = 256 << 20
"""Characters. Readers load the index as one string, so a larger one is left out."""
_CACHE_STEP = 1024

_TEXT_DTYPE = h5py.string_dtype("utf-8")
_TEXT = h5py.h5t.py_create(_TEXT_DTYPE, logical=True)
_ONE_VALUE = h5py.h5s.create(h5py.h5s.SCALAR)


class Hdf5:
    def open_part(self, path: Path, layout: OutputLayout) -> Hdf5Part:
        return Hdf5Part(path, layout)

    def num_sentences(self, part: Path) -> int:
        with h5py.File(part, "r") as file:
            return len(file) - (SENTENCE_INDEX in file)

    def join(self, parts: Sequence[Path], target: Path, layout: OutputLayout) -> list[str]:
        size = 0
        with checked_hdf5(target) as joined:
            for path in parts:
                with h5py.File(path, "r") as part:
                    limit_cache(part, len(part))
                    limit_cache(joined, len(joined) + len(part))
                    size += part[SENTENCE_INDEX].dtype.itemsize
                    for key in part:
                        if key != SENTENCE_INDEX:
                            # Copies the stored bytes without decompressing them.
                            h5py.h5o.copy(part.id, key.encode(), joined.id, key.encode())
            if size > LARGEST_SENTENCE_INDEX:
                return [
                    f"The file has no {SENTENCE_INDEX}, which would have {size:,} characters. The vectors of each "
                    "sentence are under its number, with its tokens as an attribute."
                ]
            place = _reserve_index(joined, size)
        _join_indices(parts, target, place)
        return []


class Hdf5Part:
    """Built in memory and written by Python: the HDF5 library may crash when it closes a file on a full disk."""

    def __init__(self, path: Path, layout: OutputLayout) -> None:
        self._path, self._content = path, io.BytesIO()
        self._file = h5py.File(self._content, "w")
        self._dtype = np.dtype(layout.dtype)
        self._type = h5py.h5t.py_create(self._dtype, logical=True)
        self._compress = layout.compress
        self._index: dict[str, str] = {}

    def add(self, record: Record) -> None:
        name = str(record.index)
        if len(self._index) % _CACHE_STEP == 0:
            limit_cache(self._file, len(self._index) + _CACHE_STEP)
        # An array without elements cannot be cut into the chunks that compression works on.
        if self._compress and record.vectors.size:
            dataset = self._file.create_dataset(
                name, data=record.vectors, dtype=self._dtype, compression="gzip", shuffle=True
            ).id
        else:
            # The low-level interface: h5py's `create_dataset` takes longer than writing the data.
            space = h5py.h5s.create_simple(record.vectors.shape)
            dataset = h5py.h5d.create(self._file.id, name.encode(), self._type, space)
            if record.vectors.size:
                dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(record.vectors, self._dtype))
        for attribute, text in ((TOKENS, record.tokens_as_json), (ROW, record.row_as_json)):
            value = h5py.h5a.create(dataset, attribute.encode(), _TEXT, _ONE_VALUE)
            value.write(np.array(text, dtype=_TEXT_DTYPE))
        self._index[record.text] = name

    def close(self) -> None:
        self._file[SENTENCE_INDEX] = np.array([json.dumps(self._index).encode("ascii")])
        self._file.close()
        self._path.write_bytes(self._content.getbuffer())


def _reserve_index(file: h5py.File, size: int) -> int:
    """Create the dataset of the index without content; returns the offset of its bytes in the file."""
    options = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    options.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    options.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    kind, space = h5py.h5t.py_create(np.dtype(f"S{size}")), h5py.h5s.create_simple((1,))
    return int(h5py.h5d.create(file.id, SENTENCE_INDEX.encode(), kind, space, options).get_offset())


def _join_indices(parts: Sequence[Path], target: Path, place: int) -> None:
    """Join the indices of the parts to one JSON object, which HDF5 itself could write only from memory.

    A sentence may be in several parts; JSON readers take the last one, as intended.
    """
    with target.open("rb+") as file:
        file.seek(place)
        for number, path in enumerate(parts):
            with h5py.File(path, "r") as part:
                file.write((b", " if number else b"{") + part[SENTENCE_INDEX][0][1:-1])
        file.write(b"}")
