"""Matplotlib as all our pictures use it: no window, a name for every axis, shades that are told apart in grey.

figure = new_figure(width=6, height=4)
...
save(figure, Path("curve.png"))         # or png_bytes(figure), for a report that holds its pictures
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from elmo.analysis.files import check_place, writing
from elmo.errors import InputError, MissingExtraError
from elmo.whole_files import whole_file

SUFFIXES = (".png", ".svg", ".pdf")
DARK, MIDDLE, LIGHT = "#08306b", "#b2182b", "#e6a300"
"""Told apart by lightness; give each a line style or a marker of its own as well."""


def new_figure(*, width: float, height: float) -> Any:
    """An empty figure, in inches, that lays itself out so that nothing is clipped."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "plots") from None
    return Figure(figsize=(width, height), layout="constrained")


def check_name(path: Path) -> Path:
    """Refuse a picture's name or place before anything is computed for it."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"The plot's file is called {path.name}; expected a name that ends in {', '.join(SUFFIXES)}.")
    return check_place(path)


def save(figure: Any, path: Path) -> None:
    """Write a PNG, SVG or PDF."""
    check_name(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, ending=path.suffix) as partial:
            figure.savefig(partial, dpi=150)


def png_bytes(figure: Any) -> bytes:
    """The picture as a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()
