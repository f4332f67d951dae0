"""Every variant that this processor supports is tested against the reference modules in float64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from elmo.bilm.kernels import binding
from elmo.errors import ConfigError


def variants() -> list[str]:
    """Names of the kernels that can run here; empty when the package was built without a compiler."""
    found = []
    for name in binding.variants() if binding.kernel_info().name != "torch" else ():
        try:
            binding.select(name)
        except ConfigError:
            continue
        found.append(name)
    binding.select()
    return found


@pytest.fixture(params=variants() or [pytest.param("torch", marks=pytest.mark.skip(reason="no compiled kernels"))])
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    """The kernel in use during a test."""
    binding.select(request.param)
    yield request.param
    binding.select()
