"""The C header kernels.h as ctypes sees it: structures, functions and numbers, read from the header itself.

The header is the one description of what Python and C exchange. It keeps to what is read here: `typedef struct` with
numbers, pointers and earlier structures, `NAME = number` in an enum, and prototypes.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

_NUMBERS = {"int64_t": ctypes.c_int64, "int": ctypes.c_int, "float": ctypes.c_float, "void": None}


class Header:
    """What a C header declares, by its names there."""

    def __init__(self, path: Path) -> None:
        source = re.sub(r"/\*.*?\*/|\bconst ", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        self.numbers = {name: int(number) for name, number in re.findall(r"(\w+) = (-?\d+)", source)}
        self.structures: dict[str, Any] = {}
        for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", source, re.DOTALL):
            if "(" not in body:  # the table of functions, which Python does not see
                fields = [field for line in body.split(";") if line.strip() for field in self._fields(line)]
                self.structures[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
        self.functions = {
            name: (self._type(result), [self._type(one) for one in arguments.split(",") if one != "void"])
            for result, name, arguments in re.findall(r"^([\w ]+[ *])(elmo_\w+)\(([^()]*)\);", source, re.MULTILINE)
        }

    def _fields(self, line: str) -> list[tuple[str, Any]]:
        """`float *x, *y` -> x and y, both of them pointers."""
        kind, names = line.split(maxsplit=1)
        return [(name.strip(" *"), self._type(f"{kind} {name}")) for name in names.split(",")]

    def _type(self, declaration: str) -> Any:
        """Pointers to numbers take an address, as `Tensor.data_ptr` gives it."""
        kind = declaration.split()[0]
        if "*" not in declaration:
            return _NUMBERS[kind] if kind in _NUMBERS else self.structures.get(kind, ctypes.c_void_p)
        if kind == "char":
            return ctypes.c_char_p
        return ctypes.POINTER(self.structures[kind]) if kind in self.structures else ctypes.c_void_p
