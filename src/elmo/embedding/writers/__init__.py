"""Vectors -> files, one file per format. `vector_writer.py` makes any of them safe to kill and to resume."""
