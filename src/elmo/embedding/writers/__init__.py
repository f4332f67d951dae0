"""Vectors -> files, one module per format. `vector_writer.py` makes all of them atomic and resumable."""
