"""Safetensors files: the same bytes as the library writes, with the mode of any other file."""

from pathlib import Path

import torch
from safetensors.torch import load_file, save

from elmo.storage.tensors import save_tensors


def test_the_same_bytes_as_the_library_writes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    types = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16)
    tensors = {f"{dtype}".removeprefix("torch."): torch.randn(3, 2).mul(9).to(dtype) for dtype in types}
    tensors |= {
        "int8": torch.arange(5, dtype=torch.int8),
        "uint8": torch.arange(3, dtype=torch.uint8),
        "bool": torch.tensor([True, False]),
        "é": torch.tensor(1.5),
        "empty": torch.empty(0, 4),
    }
    save_tensors(tensors, tmp_path / "ours", metadata={"format": "pt"})
    assert (tmp_path / "ours").read_bytes() == save(tensors, {"format": "pt"})


def test_shared_and_transposed_memory(tmp_path: Path) -> None:
    table = torch.randn(4, 3)
    save_tensors({"a": table, "b": table, "turned": table.T}, tmp_path / "file")
    found = load_file(tmp_path / "file")
    assert torch.equal(found["a"], found["b"]) and torch.equal(found["turned"], table.T)


def test_the_file_is_readable_by_others(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    save_tensors({"a": torch.ones(1)}, tmp_path / "file")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert {path.name for path in tmp_path.iterdir()} == {"plain", "file"}
