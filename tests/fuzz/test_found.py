"""Faults that fuzzing found, each as the smallest change of a sample that showed it."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pyarrow as arrow
import pytest
import torch
from fuzz.bounded import bounded
from fuzz.targets import TARGETS
from pyarrow import parquet

from elmo.errors import ElmoError

Change = Callable[[Path], object]


def replaced(name: str, old: bytes, new: bytes) -> Change:
    def change(folder: Path) -> None:
        data = (folder / name).read_bytes()
        assert old in data
        (folder / name).write_bytes(data.replace(old, new, 1))

    return change


def written(name: str, content: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(content)


def with_json(name: str, change: Callable[[dict], object]) -> Change:  # type: ignore[type-arg]
    def changed(folder: Path) -> None:
        plain = json.loads((folder / name).read_text())
        change(plain)
        (folder / name).write_text(json.dumps(plain))

    return changed


def hdf5_bomb(folder: Path) -> None:
    """A table of words that claims gigabytes, all of them the fill value."""
    with h5py.File(folder / "weights.hdf5", "a") as file:
        dim = file["embedding"].shape[1]
        del file["embedding"]
        file.create_dataset("embedding", (1_000_000_000, dim), dtype="f4", chunks=(1000, dim))


def unknown_float_type(folder: Path) -> None:
    """Numbers with an exponent of 23 bits, which numpy has no type for."""
    with h5py.File(folder / "weights.hdf5", "a") as file:
        shape = file["char_embed"].shape
        del file["char_embed"]
        odd = h5py.h5t.IEEE_F64LE.copy()
        odd.set_fields(63, 40, 23, 0, 40)
        odd.set_ebias((1 << 22) - 1)
        h5py.h5d.create(file.id, b"char_embed", odd, h5py.h5s.create_simple(shape))


def pickled(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    def changed(folder: Path) -> None:
        state = torch.load(folder / name, map_location="cpu", weights_only=True)
        key = next(iter(state))
        torch.save({**state, key: change(state[key])}, folder / name)

    return changed


def tar_bomb(folder: Path) -> None:
    with tarfile.open(folder / "data.tar.gz", "w:gz") as archive:
        for number in range(3):
            member = tarfile.TarInfo(f"zeros{number}")
            member.size = 50 << 20
            archive.addfile(member, io.BytesIO(bytes(member.size)))


def binary_strings(folder: Path) -> None:
    values = arrow.array([b"\xff\xfe", b"ok"]).cast(arrow.binary()).view(arrow.string())
    parquet.write_table(arrow.table({"text": values}), folder / "a.parquet")


def npy(name: str, array: np.ndarray) -> Change:  # type: ignore[type-arg]
    return lambda folder: np.save(folder / name, array)


ENTITIES = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;">]><corpus>&b;</corpus>'

FOUND: list[tuple[str, Change, str]] = [
    ("hdf5", with_json("options.json", lambda options: options["lstm"].update(n_layers=999_999_999)), "at most 1000"),
    ("hdf5", with_json("options.json", lambda options: options["lstm"].update(dim=1 << 60)), "at most"),
    ("hdf5", with_json("options.json", lambda o: o["char_cnn"].update(filters=[[1, 1 << 50]])), "at most"),
    ("hdf5", with_json("options.json", lambda o: o["char_cnn"].update(max_characters_per_token=1 << 40)), "at most"),
    ("hdf5", replaced("options.json", b'"n_highway"', b'"x": Infinity, "n_highway"'), "not finite"),
    ("hdf5 of words", hdf5_bomb, "would grow to"),
    ("hdf5", unknown_float_type, "weights.hdf5"),
    ("hdf5 of words", written("vocab.txt", b"<S>\n</S>\n<UNK>\n\xff\n"), "not UTF-8"),
    ("ELMoForManyLangs", written("char.dic", b"a\t999999999\n"), "lacks"),
    ("ELMoForManyLangs", written("word.dic", b"<bos>\t0\n<eos>\t1\n<oov>\t999999999\n"), "ids up to 999,999,999"),
    ("ELMoForManyLangs", with_json("config.json", lambda c: c.update(config_path="[" * 9999)), "do not fit the model"),
    ("ELMoForManyLangs", pickled("encoder.pkl", lambda tensor: tensor.to_sparse()), "no state dict"),
    ("ELMoForManyLangs", pickled("encoder.pkl", lambda tensor: torch.zeros(1).expand(9999, 9999)), "no state dict"),
    ("ELMoForManyLangs", pickled("token_embedder.pkl", lambda tensor: torch.tensor(1.0)), "wrong shape"),
    ("elmo-torch", with_json("config.json", lambda config: config["bilm"]["lstm"].update(num_layers=10**9)), "at most"),
    ("elmo-torch", with_json("config.json", lambda c: c["bilm"]["lstm"].update(cell_clip=10**400)), "64 bits|digits"),
    ("elmo-torch", with_json("config.json", lambda c: c["bilm"]["characters"].update(kind="codepoints")), "table"),
    ("elmo-torch", with_json("config.json", lambda config: config.update(special_tokens={"x": 1})), "special_tokens"),
    ("JSON", written("a.json", b"9" * 5000), "not JSON"),
    ("JSON", written("a.json", b"[" * 100_000), "not JSON"),
    ("TOML", written("a.toml", b"a = " + b"9" * 5000), "digits"),
    ("TOML", written("a.toml", b"a = " + b"[" * 100_000), "nested too deeply"),
    ("--set", written("a.txt", b"9" * 5000), "Cannot read the value"),
    ("SQuAD", written("a.json", b'{"data": ' + b"9" * 5000 + b"}"), "not JSON"),
    ("SNLI", written("a.jsonl", b"[" * 100_000), "line 1, is not JSON"),
    ("senses", replaced("a.data.xml", b'encoding="UTF-8"?>', b'encoding="utf-99"?><corpus/>'), "not complete XML"),
    ("senses", written("a.data.xml", ENTITIES), "document type"),
    ("WordNet", written("index.sense", b"bank%1:14:01:: -5 2 20\n"), "line 1: found"),
    ("WordNet", written("index.sense", b"b\xffnk%1:14:01:: 5 2 20\n"), "not UTF-8"),
    ("named entities, Universal NER", written("a.iob2", b"1\tPeter\tB-PER\n\nx\ty\n"), "line 3: found 2 columns"),
    ("coreference", replaced("a.conll", b"part 000", b"part " + b"9" * 5000), "line 1: found"),
    ("tar", tar_bomb, "more than 200 times"),
    ("tar", written("data.tar.gz", b"\x1f\x8b\x08" + b"\xff" * 500), "cannot be unpacked"),
    ("neighbour index", npy("vectors.npy", np.zeros((1, 24), np.float16)), "belong together"),
    ("neighbour index", npy("occurrences.npy", np.full((4, 3), 99, np.int32)), "belong together"),
    ("neighbour index", npy("sentence_starts.npy", np.array([0, 1 << 50, 3])), "belong together"),
    ("neighbour index", with_json("index.json", lambda facts: facts.update(search="fast")), "names the search"),
    (
        "neighbour index",
        with_json("index.json", lambda facts: facts.update(search="approximate")),
        "of FAISS or is",
    ),
    ("neighbour index", replaced("vectors.npy", b"(4, 24)", b"((((((("), "belong together"),
    ("neighbour index", written("words.json", b'["a", "\\ud800", "b"]'), "surrogates"),
    ("neighbour index", with_json("index.json", lambda facts: facts.update(dim=10**15)), "belong together"),
    ("input, Parquet", binary_strings, "as Parquet"),
    ("input, Zstandard", replaced("a.txt.zst", b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfd\x00\xff"), "damaged"),
]


@pytest.mark.parametrize(("name", "change", "message"), FOUND, ids=[f"{name}, {why}" for name, _, why in FOUND])
def test_one_error_that_says_what_is_wrong(name: str, change: Change, message: str, tmp_path: Path) -> None:
    TARGETS[name].make(tmp_path)
    change(tmp_path)
    with bounded(), pytest.raises(ElmoError, match=message):
        TARGETS[name].read(tmp_path)


def test_a_declared_encoding_does_not_matter(tmp_path: Path) -> None:
    TARGETS["senses"].make(tmp_path)
    replaced("a.data.xml", b'encoding="UTF-8"', b'encoding="utf-99"')(tmp_path)
    assert TARGETS["senses"].read(tmp_path)[0].words == ("The", "bank")


def test_a_tensor_that_requires_a_gradient_is_read(tmp_path: Path) -> None:
    TARGETS["ELMoForManyLangs"].make(tmp_path)
    pickled("encoder.pkl", lambda tensor: tensor.requires_grad_())(tmp_path)
    TARGETS["ELMoForManyLangs"].read(tmp_path)
