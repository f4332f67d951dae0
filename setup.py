"""The C kernels; everything else about the package is in pyproject.toml.

Without a compiler the package installs all the same (`optional`) and runs on torch alone. No -march=native: one
library holds a variant per instruction set and picks at run time.
"""

from pathlib import Path

from setuptools import Extension, setup

KERNELS = Path("src/elmo/bilm/kernels")

setup(
    ext_modules=[
        Extension(
            "elmo.bilm.kernels._native",
            sources=sorted(str(path) for path in KERNELS.glob("*.c")),
            depends=sorted(str(path) for path in KERNELS.glob("*.h")),
            extra_compile_args=["-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-Wno-psabi", "-g0"],
            extra_link_args=["-pthread"],
            optional=True,
        )
    ]
)
