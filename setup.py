"""The C kernels; everything else about the package is in pyproject.toml.

Without a compiler the package installs all the same (`optional`) and runs on torch alone. No -march=native: one
library holds a variant per instruction set and picks at run time. It is called through ctypes and knows nothing of
Python, so one wheel for each platform (py3-none-PLATFORM) serves every Python version.
"""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

KERNELS = Path("src/elmo/bilm/kernels")


class PlainLibrary(build_ext):
    """_native.so, not _native.cpython-311-x86_64-linux-gnu.so, which other versions of Python would not find."""

    def get_ext_filename(self, fullname: str) -> str:
        path = Path(super().get_ext_filename(fullname))
        return str(path.with_name(path.name.partition(".")[0] + path.suffix))


class PlatformWheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


setup(
    cmdclass={"build_ext": PlainLibrary, "bdist_wheel": PlatformWheel},
    ext_modules=[
        Extension(
            "elmo.bilm.kernels._native",
            sources=sorted(str(path) for path in KERNELS.glob("*.c")),
            depends=sorted(str(path) for path in KERNELS.glob("*.h")),
            extra_compile_args=["-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-Wno-psabi", "-g0"],
            extra_link_args=["-pthread"],
            optional=True,
        )
    ],
)
