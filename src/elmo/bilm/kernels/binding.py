"""The compiled library: finding it, choosing the variant for this processor, calling it as `kernels.h` declares.

The environment variable ELMO_KERNEL forces a variant ("portable", "avx2", "avx512") or turns the kernels off ("off").
Nothing here knows what an LSTM is; `packing` and the files after it do.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import count, takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import torch

from elmo.bilm.kernels.header import Header
from elmo.errors import ConfigError, InputError

Precision = Literal["float32", "float16", "int8", "bfloat16"]
"""Of packed weights. float16 is faster to read; int8 and bfloat16 are also faster to multiply."""


_header = Header(Path(__file__).with_name("kernels.h"))
struct = SimpleNamespace(**_header.structures)
"""The structures of kernels.h by their names there: `struct.elmo_layer(...)`."""


def number(name: str) -> int:
    """The number of a precision, an activation or an error in kernels.h, where it is called ELMO_NAME."""
    return _header.numbers[f"ELMO_{name.upper()}"]


@dataclass(frozen=True)
class KernelInfo:
    """Which kernel runs on this machine's CPU."""

    name: str
    """"avx512", "avx2", "portable", or "torch" when the compiled library is not in use."""
    reason: str


def _library_path() -> Path | None:
    folder = Path(__file__).parent
    # The last suffix is the plain one (.so, .pyd), which setup.py chooses; older builds name a version of Python.
    candidates = (folder / f"_native{suffix}" for suffix in reversed(EXTENSION_SUFFIXES))
    return next((path for path in candidates if path.exists()), None)


def _layout() -> int:
    """As `elmo_layout` of dispatch.c."""
    mixed = 0
    for structure in _header.structures.values():
        mixed = mixed * 1009 + ctypes.sizeof(structure)
    return ctypes.c_int64(mixed).value


_OTHER_SOURCES = "the compiled library was built from other sources; install the package again"


@cache
def _load() -> ctypes.CDLL | str:
    """The library, or why there is none."""
    path = _library_path()
    if path is None:
        return "the package was installed without a C compiler"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return f"the compiled library does not load ({error})"
    for name, (result, arguments) in _header.functions.items():
        function = getattr(library, name, None)
        if function is None:
            return _OTHER_SOURCES
        function.restype, function.argtypes = result, arguments
    if library.elmo_layout() != _layout():
        return _OTHER_SOURCES
    return library


class _Chosen:
    """The variant in use; None before the first use."""

    info: KernelInfo | None = None


def select(name: str | None = None) -> KernelInfo:
    """Use the named variant ("off" for none, None for what ELMO_KERNEL says or the best) from now on.

    Matrices packed for another variant are packed again when they are next used.
    """
    forced = name if name is not None else os.environ.get("ELMO_KERNEL", "")
    library = _load()
    if forced == "off":
        _Chosen.info = KernelInfo("torch", "the kernels are switched off (ELMO_KERNEL=off)")
    elif isinstance(library, str):
        _Chosen.info = KernelInfo("torch", library)
    elif forced not in ("", *variants()):
        raise ConfigError(f"ELMO_KERNEL is {forced!r}; expected one of {', '.join(variants())}, off.")
    elif library.elmo_choose(forced.encode()) != 0:
        raise ConfigError(f"ELMO_KERNEL is {forced}, which this processor does not support; unset it.")
    else:
        found = library.elmo_name().decode()
        _Chosen.info = KernelInfo(found, f"forced to {forced}" if forced else "the fastest this processor has")
    return _Chosen.info


def variants() -> list[str]:
    """The instruction sets that the library was built for, the slowest first; this processor may not have all."""
    library = _load()
    names = () if isinstance(library, str) else takewhile(bool, map(library.elmo_variant_name, count()))
    return [name.decode() for name in names]


def kernel_info() -> KernelInfo:
    """Which kernel this process uses, and why."""
    return _Chosen.info or select()


def available() -> bool:
    return kernel_info().name != "torch"


def library() -> ctypes.CDLL:
    """The library, when `available`."""
    loaded = _load()
    assert not isinstance(loaded, str), loaded
    return loaded


def vector_length() -> int:
    """Floats in a vector of the variant in use."""
    kernel_info()
    return int(library().elmo_vector_length())


def has_fast_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 faster than float32."""
    return available() and bool(library().elmo_fast_bf16())


def num_threads() -> int:
    """As many as torch may use: `torch.set_num_threads` and OMP_NUM_THREADS apply to the kernels too."""
    return torch.get_num_threads()


def takes(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether the kernels run and can read these tensors: float32 on the CPU, with at least one element."""
    return available() and all(t.is_cpu and t.dtype == torch.float32 and t.numel() > 0 for t in tensors)


def training_precision() -> Precision:
    """bfloat16 inside torch's autocast to it, where this processor has instructions for it; otherwise float32."""
    wanted = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    return "bfloat16" if wanted and has_fast_bfloat16() else "float32"


def check(code: int) -> None:
    """Raise the error for what a function of the library returned. The reference raises the same errors."""
    if code >= 0:
        return
    if code == number("no_memory"):
        raise MemoryError("No memory for the kernels' working buffers; use a smaller batch.")
    if code == number("bad_length"):
        raise InputError("The length of a sentence is below 0 or above the number of tokens in the batch.")
    if code == number("bad_position"):
        raise IndexError("A position in the batch is not the number of a row in the table of words.")
    if code == number("bad_character"):
        raise IndexError("A character id is not the number of a row in the character embedding.")
    raise AssertionError(code)


def mapped(num_bytes: int) -> torch.Tensor:
    """Memory of the library for as long as the tensor exists, in huge pages where there are any; bytes."""
    address = library().elmo_map(num_bytes)
    if not address:
        raise MemoryError(f"No memory for {num_bytes / 2**20:.0f} MB of packed weights.")
    return _tensor_at(address, num_bytes, library().elmo_unmap, address, num_bytes)


def scratch(num_bytes: int) -> torch.Tensor:
    """The same from blocks that the library reuses, because new pages are slow; bytes."""
    address = library().elmo_scratch_take(num_bytes)
    if not address:
        raise MemoryError(f"No memory for {num_bytes / 2**20:.0f} MB; use a smaller batch or fewer steps.")
    return _tensor_at(address, num_bytes, library().elmo_scratch_give, address)


def _tensor_at(address: int, num_bytes: int, free: Callable[..., None], *arguments: int) -> torch.Tensor:
    memory = (ctypes.c_uint8 * num_bytes).from_address(address)
    release = weakref.finalize(memory, free, *arguments)  # the tensor holds a reference to `memory`
    release.atexit = False  # a daemon thread may still run a kernel then; the system frees the memory
    return torch.frombuffer(memory, dtype=torch.uint8)
