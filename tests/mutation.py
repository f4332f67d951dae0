"""Which changes of a module do its tests not notice? One operator, constant, condition or statement at a time.

    python tests/mutation.py src/elmo/pretrain/softmax.py tests/pretrain/test_softmax.py

Every mutant is a copy of the package with one change, tested in a process of its own; torch and pytest are imported
once, before the processes are forked. Prints the mutants that no test noticed. Some of them are equivalent to the
original, so each has to be read. Left out: annotations, decorators, docstrings and errors that are raised.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or,
    ast.Or: ast.And, ast.USub: ast.UAdd, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_NOT_CODE = ("annotation", "returns", "decorator_list")


@dataclass(frozen=True)
class _Place:
    """A node, and where its parent refers to it."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST
    line: int

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def _places(node: ast.AST, line: int = 1) -> Iterator[_Place]:
    """Every node below this one that belongs to the code."""
    if isinstance(node, (ast.Raise, ast.JoinedStr)):
        return
    for field, value in ast.iter_fields(node):
        if field in _NOT_CODE:
            continue
        is_list = isinstance(value, list)
        for index, child in enumerate(value if is_list else [value]):
            if isinstance(child, ast.AST):
                place = _Place(node, field, index if is_list else None, child, getattr(child, "lineno", line))
                yield place
                yield from _places(child, place.line)


def _changed(node: ast.AST) -> ast.AST | None:
    """The node with one change, or None if this kind is left alone."""
    if type(node) in _SWAPPED:
        return _SWAPPED[type(node)]()
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return ast.Constant(node.value + 1)
    if isinstance(node, (ast.If, ast.IfExp)):
        return type(node)(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
    if isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return ast.Pass()
    return None


def mutants(source: str) -> Iterator[tuple[str, str]]:
    """What is changed, and the changed source."""
    tree = ast.parse(source)
    for place in list(_places(tree)):
        replacement = _changed(place.node)
        if replacement is None:
            continue
        place.put(replacement)
        mutant = ast.unparse(ast.fix_missing_locations(tree))
        place.put(place.node)
        before, after = (ast.unparse(one).partition("\n")[0] or type(one).__name__ for one in (place.node, replacement))
        yield f"line {place.line}: {before} -> {after}    {source.splitlines()[place.line - 1].strip()}", mutant


def _is_noticed(package: Path, tests: list[str], seconds: int) -> bool:
    """Whether the tests fail or exceed the limit: so many seconds of processor time, ten times that by the clock."""
    child = os.fork()
    if child == 0:
        # Each limit ends the process. On a busy machine the clock alone would count slow tests as failed ones.
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        signal.alarm(10 * seconds)
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        sys.path.insert(0, str(package))
        os.environ["PYTHONPATH"] = str(package)
        code = 1
        with contextlib.suppress(BaseException):
            import pytest

            code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests])
        os._exit(int(code))
    return os.waitpid(child, 0)[1] != 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", type=Path)
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--seconds", type=int, default=120, help="a mutant that needs more processor time is noticed")
    arguments = parser.parse_args()
    import pytest  # noqa: F401
    import torch  # noqa: F401

    source = arguments.module.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "src"
        shutil.copytree("src", package)
        place = package / arguments.module.relative_to("src")
        if _is_noticed(package, arguments.tests, arguments.seconds):
            raise SystemExit("The tests fail without a change.")
        count = survived = 0
        for change, mutant in mutants(source):
            count += 1
            place.write_text(mutant, encoding="utf-8")
            # Bytecode counts as current if size and time in seconds are equal.
            for compiled in place.parent.glob(f"__pycache__/{place.stem}.*"):
                compiled.unlink()
            if not _is_noticed(package, arguments.tests, arguments.seconds):
                survived += 1
                print(f"survived: {arguments.module}, {change}", flush=True)
    print(f"{arguments.module}: {count} mutants, {survived} survived")


if __name__ == "__main__":
    main()
