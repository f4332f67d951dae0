"""ONNX: export a model with torch, then run it with onnxruntime and numpy only."""

import subprocess
import sys

from elmo.integrations.onnx.export import export_onnx

report = export_onnx(None, "model.onnx", overwrite=True)
print(f"{report.num_bytes:,} bytes, largest difference {report.largest_difference:.0e}")

# A Python in which torch cannot be imported, to show that the runner does not need it.
program = """
import sys; sys.modules["torch"] = None
from elmo.integrations.onnx.runner import OnnxEmbedder
(vectors,) = OnnxEmbedder("model.onnx", layers="average").embed("She sat on the river bank.")
print("without torch:", vectors.shape[0], "tokens")
"""
subprocess.run([sys.executable, "-c", program], check=True)
