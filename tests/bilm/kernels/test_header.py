"""Reading the C header: every kind of declaration that it uses. The library compares the sizes (`elmo_layout`)."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

from elmo.bilm.kernels import binding
from elmo.bilm.kernels.header import Header

HEADER = Path(binding.__file__).with_name("kernels.h")

TEXT = """
/* A comment; with int64_t fake; in it. */
enum { ELMO_ONE = 1, ELMO_LESS = -2 };
typedef struct {
    const void *panels; /* NULL: none */
    int64_t format;
} elmo_matrix;
typedef struct {
    const elmo_matrix *many;
    int64_t rows, columns;
    elmo_matrix one;
    float *x, clip; /* a pointer and a number */
} elmo_job;
typedef struct {
    int (*run)(const elmo_job *job);
} elmo_table;
int64_t elmo_run(const elmo_job *job, int64_t threads, const int64_t *ids,
                 float *out);
const char *elmo_name(void);
void elmo_stop(const char *why);
"""


def test_declarations(tmp_path: Path) -> None:
    path = tmp_path / "some.h"
    path.write_text(TEXT)
    header = Header(path)
    assert header.numbers == {"ELMO_ONE": 1, "ELMO_LESS": -2}
    assert list(header.structures) == ["elmo_matrix", "elmo_job"]
    matrix, job = header.structures.values()
    number, address = ctypes.c_int64, ctypes.c_void_p
    assert matrix._fields_ == [("panels", address), ("format", number)]
    assert job._fields_ == [
        ("many", ctypes.POINTER(matrix)), ("rows", number), ("columns", number), ("one", matrix), ("x", address),
        ("clip", ctypes.c_float),
    ]  # fmt: skip
    assert header.functions == {
        "elmo_run": (number, [ctypes.POINTER(job), number, address, address]),
        "elmo_name": (ctypes.c_char_p, []),
        "elmo_stop": (None, [ctypes.c_char_p]),
    }


def test_every_declaration_of_the_header_is_parsed() -> None:
    header, text = Header(HEADER), HEADER.read_text(encoding="utf-8")
    assert {*header.structures, "elmo_variant"} == set(re.findall(r"^\} (\w+);", text, re.MULTILINE))
    assert set(header.functions) == set(re.findall(r"^(?!typedef|enum|#)\w[\w *]*?(elmo_\w+)\(", text, re.MULTILINE))
