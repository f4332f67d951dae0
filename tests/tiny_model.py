"""A small random biLM as a folder, for tests that need a model with a name but not a trained one."""

from pathlib import Path

TINY = str(Path(__file__).parent / "models" / "tiny")
