"""A small random biLM as a folder, for tests that need a model that can be named and no model that knows anything."""

from pathlib import Path

TINY = str(Path(__file__).parent / "models" / "tiny")
