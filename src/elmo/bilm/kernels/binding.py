"""The compiled library: finding it, choosing the variant for this processor, and its structures as ctypes sees them.

The environment variable ELMO_KERNEL forces a variant ("portable", "avx2", "avx512") or turns the kernels off ("off").
Nothing here knows what an LSTM is; `packing` and the files after it do.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import torch

from elmo.errors import ConfigError

VARIANTS = ("portable", "avx2", "avx512")

_int = ctypes.c_int64
_pointer = ctypes.c_void_p


class Matrix(ctypes.Structure):
    """`elmo_matrix` of kernels.h."""

    _fields_ = (("panels", _pointer), ("format", _int), ("scale", _pointer), ("correction", _pointer))


class Layer(ctypes.Structure):
    """`elmo_layer` of kernels.h."""

    _fields_ = (
        ("input_dim", _int),
        ("num_cells", _int),
        ("hidden_dim", _int),
        ("input_weight", Matrix),
        ("recurrent_weight", Matrix),
        ("projection_weight", Matrix),
        ("bias", _pointer),
        ("cell_clip", ctypes.c_float),
        ("projection_clip", ctypes.c_float),
        ("skip", _int),
    )


class Direction(ctypes.Structure):
    """`elmo_direction` of kernels.h."""

    _fields_ = (
        ("layers", ctypes.POINTER(Layer)),
        ("num_layers", _int),
        ("batch", _int),
        ("steps", _int),
        ("reverse", _int),
        ("positions", _pointer),
        ("lengths", _pointer),
        ("rows", _pointer),
        ("num_rows", _int),
        ("num_words", _int),
        ("words", _pointer),
        ("products", _pointer),
        ("slots", _pointer),
        ("hidden_in", _pointer),
        ("cell_in", _pointer),
        ("hidden_in_layer", _int),
        ("hidden_in_row", _int),
        ("cell_in_layer", _int),
        ("cell_in_row", _int),
        ("hidden_out", _pointer),
        ("cell_out", _pointer),
        ("out", _pointer),
        ("out_layer", _int),
        ("out_row", _int),
        ("out_step", _int),
        ("tokens", _int),
        ("trim", _int),
    )


class Product(ctypes.Structure):
    """`elmo_product` of kernels.h."""

    keeps_alive: tuple[object, ...]
    """What the addresses point into."""

    _fields_ = (
        ("num_rows", _int),
        ("inner", _int),
        ("num_columns", _int),
        ("left", _pointer),
        ("left_stride", _int),
        ("right", Matrix),
        ("bias", _pointer),
        ("out", _pointer),
        ("out_stride", _int),
        ("activation", _int),
        ("accumulate", _int),
        ("left_rows", _pointer),
        ("out_rows", _pointer),
    )


class Highway(ctypes.Structure):
    """`elmo_highway` of kernels.h."""

    _fields_ = (
        ("num_rows", _int),
        ("dim", _int),
        *((name, _pointer) for name in ("x", "sums", "y", "d_y", "d_sums", "d_x")),
    )


class Packing(ctypes.Structure):
    """`elmo_packing` of kernels.h."""

    _fields_ = (
        ("matrix", _pointer),
        ("second", _pointer),
        ("stride", _int),
        ("second_stride", _int),
        ("split", _int),
        ("transposed", _int),
        ("columns", _pointer),
        ("inner_order", _pointer),
        ("inner", _int),
        ("num_panels", _int),
        ("packed", _pointer),
    )


class Training(ctypes.Structure):
    """`elmo_training` of kernels.h."""

    _fields_ = (
        ("layer", Layer),
        ("cell_weight", Matrix),
        ("back_weight", Matrix),
        ("batch", _int),
        ("steps", _int),
        ("lengths", _pointer),
        ("x", _pointer),
        ("x_row", _int),
        ("x_step", _int),
        *((name, _pointer) for name in ("hidden_in", "cell_in", "out", "hidden_out", "cell_out")),
        *((name, _pointer) for name in ("gates", "cells", "raw")),
        *((name, _pointer) for name in ("d_out", "d_hidden_out", "d_cell_out")),
        *((name, _pointer) for name in ("d_x", "d_hidden_in", "d_cell_in")),
        *((name, _pointer) for name in ("d_input_weight", "d_recurrent_weight", "d_bias", "d_projection_weight")),
        *((name, _pointer) for name in ("d_gates", "outputs", "d_projected", "turned")),
    )


class Bank(ctypes.Structure):
    """`elmo_bank` of kernels.h."""

    _fields_ = (
        ("width", _int),
        ("num_filters", _int),
        ("first_filter", _int),
        ("weight", _pointer),
        ("bias", _pointer),
        ("d_weight", _pointer),
        ("d_bias", _pointer),
    )


class CharCnn(ctypes.Structure):
    """`elmo_char_cnn` of kernels.h."""

    _fields_ = (
        ("banks", ctypes.POINTER(Bank)),
        ("num_banks", _int),
        ("num_blocks", _int),
        ("dim", _int),
        ("max_characters", _int),
        ("activation", _int),
        ("num_filters", _int),
        ("num_words", _int),
        ("spelling", _pointer),
        ("lengths", _pointer),
        ("num_characters", _int),
        ("padding", _int),
        ("embedding", _pointer),
        ("out", _pointer),
        ("winner", _pointer),
        ("d_out", _pointer),
        ("d_embedding", _pointer),
    )


class Gates(ctypes.Structure):
    """`elmo_gates` of kernels.h."""

    _fields_ = (
        ("carry", Matrix),
        ("transform", Matrix),
        ("carry_bias", _pointer),
        ("transform_bias", _pointer),
    )


class Encoder(ctypes.Structure):
    """`elmo_encoder` of kernels.h."""

    _fields_ = (
        ("cnn", CharCnn),
        ("num_ids", _int),
        ("highways", ctypes.POINTER(Gates)),
        ("num_highways", _int),
        ("projection", Matrix),
        ("projection_bias", _pointer),
        ("out_dim", _int),
    )


class Softmax(ctypes.Structure):
    """`elmo_softmax` of kernels.h."""

    _fields_ = (
        ("num_tokens", _int),
        ("num_words", _int),
        ("dim", _int),
        ("states", _pointer),
        ("words", _pointer),
        ("turned", _pointer),
        ("turned_stride", _int),
        *((name, _pointer) for name in ("bias", "absent", "target", "log_total", "d_states", "d_words", "d_bias")),
    )


ACTIVATIONS = {"identity": 0, "relu": 1, "tanh": 2, "sigmoid": 3}
"""The numbers of kernels.h."""


@dataclass(frozen=True)
class KernelInfo:
    """Which kernel runs on this machine's CPU."""

    name: str
    """"avx512", "avx2", "portable", or "torch" when the compiled library is not in use."""
    reason: str


def _library_path() -> Path | None:
    folder = Path(__file__).parent
    candidates = (folder / f"_native{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((path for path in candidates if path.exists()), None)


def _layout() -> int:
    """As `elmo_layout` of dispatch.c."""
    mixed = 0
    for struct in (Layer, Direction, Product, Highway, Packing, Training, CharCnn, Bank, Softmax, Encoder):
        mixed = mixed * 1009 + ctypes.sizeof(struct)
    return ctypes.c_int64(mixed).value


def _layout_of(library: ctypes.CDLL) -> int:
    if not hasattr(library, "elmo_layout"):
        return -1
    library.elmo_layout.restype = _int
    return int(library.elmo_layout())


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
    if _layout_of(library) != _layout():
        return "the compiled library belongs to other sources; install the package again"
    library.elmo_choose.argtypes = (ctypes.c_char_p,)
    library.elmo_name.restype = ctypes.c_char_p
    library.elmo_vector_length.restype = _int
    library.elmo_map.argtypes = (_int,)
    library.elmo_map.restype = _pointer
    library.elmo_unmap.argtypes = (_pointer, _int)
    library.elmo_scratch_take.argtypes = (_int,)
    library.elmo_scratch_take.restype = _pointer
    library.elmo_scratch_give.argtypes = (_pointer,)
    library.elmo_pack.argtypes = (ctypes.POINTER(Packing), _int)
    library.elmo_convert.argtypes = (_pointer, _int, _int, ctypes.POINTER(Matrix), _int)
    library.elmo_activate.argtypes = (_pointer, _pointer, _int, _int)
    library.elmo_multiply.argtypes = (ctypes.POINTER(Product), _int, _int)
    library.elmo_turn.argtypes = (_pointer, _int, _int, _int, _pointer, _int, _int)
    library.elmo_highway_layer.argtypes = (ctypes.POINTER(Highway), _int, _int)
    library.elmo_forward.argtypes = (ctypes.POINTER(Direction), _int, _int)
    library.elmo_train_forward.argtypes = (ctypes.POINTER(Training), _int)
    library.elmo_train_backward.argtypes = (ctypes.POINTER(Training), _int)
    library.elmo_spell.argtypes = (_pointer, _int, _int, _int, _int, _int, _pointer, _pointer, _pointer)
    library.elmo_spell.restype = _int
    library.elmo_convolve.argtypes = (ctypes.POINTER(CharCnn), _int, _int)
    library.elmo_encode.argtypes = (ctypes.POINTER(Encoder), _pointer, _int, _int, _pointer, _int)
    library.elmo_softmax_loss.argtypes = (ctypes.POINTER(Softmax), _int, _int)
    library.elmo_sample.argtypes = (_pointer, _pointer, _int)
    library.elmo_sample.restype = _int
    return library


class _Chosen:
    """The variant in use; None until somebody asks."""

    info: KernelInfo | None = None


def select(name: str | None = None) -> KernelInfo:
    """Use the named variant ("off" for none, None for what ELMO_KERNEL says or the best) from now on.

    Matrices packed for another variant are packed anew when next used.
    """
    forced = name if name is not None else os.environ.get("ELMO_KERNEL", "")
    library = _load()
    if forced == "off":
        _Chosen.info = KernelInfo("torch", "the kernels are switched off (ELMO_KERNEL=off)")
    elif isinstance(library, str):
        _Chosen.info = KernelInfo("torch", library)
    elif forced not in ("", *VARIANTS):
        raise ConfigError(f"ELMO_KERNEL is {forced!r}; expected one of {', '.join(VARIANTS)}, off.")
    elif library.elmo_choose(forced.encode()) != 0:
        raise ConfigError(f"ELMO_KERNEL asks for {forced}, which this processor does not have; unset it.")
    else:
        found = library.elmo_name().decode()
        _Chosen.info = KernelInfo(found, f"forced to {forced}" if forced else "the fastest this processor has")
    return _Chosen.info


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
    return available() and bool(library().elmo_fast_pairs())


def num_threads() -> int:
    """As many as torch may use: `torch.set_num_threads` and OMP_NUM_THREADS hold for the kernels too."""
    return torch.get_num_threads()


def takes(tensor: torch.Tensor) -> bool:
    """Whether this is what the library reads: float32 on the CPU."""
    return tensor.is_cpu and tensor.dtype == torch.float32


def sample(addresses: Sequence[int], counts: Sequence[int]) -> int:
    """A number that depends on a few values of each array of so many floats."""
    # ctypes' own arrays take several times as long to make, and this is asked before every batch.
    where, many = array("q", addresses), array("q", counts)
    return int(library().elmo_sample(where.buffer_info()[0], many.buffer_info()[0], len(where)))


class Block:
    """Memory of the library's own, in huge pages where there are any, freed with the object."""

    def __init__(self, num_bytes: int) -> None:
        num_bytes = max(num_bytes, 1)
        self.address: int = library().elmo_map(num_bytes)
        if not self.address:
            raise MemoryError(f"No memory for {num_bytes / 2**20:.0f} MB of packed weights.")
        weakref.finalize(self, library().elmo_unmap, self.address, num_bytes)


class Scratch:
    """Memory for the time of an update, kept by the library for the next one."""

    def __init__(self, num_bytes: int) -> None:
        num_bytes = max(num_bytes, 1)
        self.address: int = library().elmo_scratch_take(num_bytes)
        if not self.address:
            raise MemoryError(f"No memory for {num_bytes / 2**20:.0f} MB; use a smaller batch or fewer steps.")
        weakref.finalize(self, library().elmo_scratch_give, self.address)
