"""The benchmarks are scripts beside the package: make their modules importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
