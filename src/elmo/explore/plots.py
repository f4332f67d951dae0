"""Matplotlib as all our figures use it: no window, a label on every axis, colors that differ in grayscale.

figure = new_figure(width=6, height=4)
...
save(figure, Path("curve.png"))         # or png_bytes(figure), for a report that embeds its figures
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from elmo.errors import InputError, needs
from elmo.storage.atomic import atomic_file, check_writable

SUFFIXES = (".png", ".svg", ".pdf")
DARK, MIDDLE = "#08306b", "#b2182b"
"""They differ in lightness; give each its own line style or marker as well."""


def new_figure(*, width: float, height: float) -> Any:
    """An empty figure of this size in inches, with a layout that clips nothing."""
    with needs("matplotlib", extra="plots"):
        from matplotlib.figure import Figure
    return Figure(figsize=(width, height), layout="constrained")


def check_name(path: Path) -> Path:
    """Refuse a figure's file name before anything is computed for it."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"The plot's file is called {path.name}; expected a name that ends in {', '.join(SUFFIXES)}.")
    return check_writable(path)


def save(figure: Any, path: Path) -> None:
    """Write a PNG, SVG or PDF."""
    check_name(path)
    with atomic_file(path, suffix=path.suffix) as partial:
        figure.savefig(partial, dpi=150)


def png_bytes(figure: Any) -> bytes:
    """The figure as a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()
