"""Lets pytest find the modules that the benchmarks share, as running a benchmark does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
