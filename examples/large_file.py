"""Embed a file of any size into Parquet, in constant memory. After an interruption, run it again to resume.

    python examples/large_file.py [TEXT [OUT]]

The command line does the same: elmo embed TEXT -o OUT --layers top --dtype float16 --resume
"""

import sys
from pathlib import Path

import elmo
from elmo.embedding.to_file import embed_to_file

text = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "sentences.txt"
out = Path(sys.argv[2]) if len(sys.argv) > 2 else Path("runs/demo/sentences.parquet")
out.parent.mkdir(parents=True, exist_ok=True)
embedder = elmo.Embedder(layers="top", dtype="float16")
with text.open(encoding="utf-8") as lines:
    report = embed_to_file(embedder, (line.rstrip("\n") for line in lines), out, if_exists="resume")
print(f"{out} is complete." if report.already_complete else f"{report.num_tokens} tokens -> {out}")
