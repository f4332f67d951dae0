"""Tensors -> a safetensors file, atomically.

The library's own `save_file` writes a temporary file that a killed process leaves behind, makes it unreadable for other
users (mode 0600), and copies tensors that share memory. The format is simple: the length of the header (8 bytes), the
header (JSON), and the tensors in order.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo.storage.atomic import atomic_file

# Wide types first, as the library writes them, so that every tensor is aligned.
_DTYPES = {
    torch.int64: "I64",
    torch.float64: "F64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_ORDER = list(_DTYPES)


def save_tensors(tensors: Mapping[str, Tensor], path: Path, *, metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file; the same tensors give the same bytes as the safetensors library."""
    names = sorted(tensors, key=lambda name: (_ORDER.index(tensors[name].dtype), name))
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    end = 0
    for name in names:
        tensor = tensors[name]
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with atomic_file(path) as partial, partial.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            content = tensors[name].detach().cpu().contiguous()
            file.write(content.reshape(-1).view(torch.uint8).numpy().data if content.numel() else b"")
