"""A model -> one .onnx file that holds everything `runner` needs: graph, weights, spelling, vocabulary, tokenizer.

report = export_onnx("path/to/model", "model.onnx")
report.largest_difference        # of onnxruntime's vectors from ours, on a few sentences
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo.checkpoints.native import special_tokens
from elmo.checkpoints.pretrained import PretrainedBiLM, as_bilm
from elmo.embedding.embedder import Embedder
from elmo.errors import CheckpointError
from elmo.integrations.onnx.graph import build
from elmo.integrations.onnx.runner import METADATA_KEY, OnnxEmbedder
from elmo.settings import to_dict
from elmo.storage.atomic import atomic_file, check_writable

TOLERANCE = 1e-4
_CHECKED = [
    ["She", "sat", "on", "the", "river", "bank", "."],
    ["Supercalifragilisticexpialidocious"],
    ["Größe", "銀行", "банк", "😀", "x" * 80],
]


@dataclass(frozen=True)
class OnnxReport:
    """What an export wrote."""

    path: Path
    num_bytes: int
    largest_difference: float
    """Between onnxruntime's vectors and ours, over all layers of a few sentences."""


def export_onnx(model: PretrainedBiLM | str | Path | None, path: str | Path, *, overwrite: bool = False) -> OnnxReport:
    """Write the file and check it; one that differs from the model by more than 1e-4 is not left behind."""
    import onnx

    target = check_writable(Path(path), replace=overwrite)
    bilm = as_bilm(model)
    proto = build(bilm)
    entry = proto.metadata_props.add()
    entry.key, entry.value = METADATA_KEY, json.dumps(_description(bilm))
    onnx.checker.check_model(proto)
    with atomic_file(target) as partial:
        partial.write_bytes(proto.SerializeToString())
        difference = _difference(bilm, partial)
        if not difference <= TOLERANCE:
            raise CheckpointError(
                f"onnxruntime's vectors differ from the model's by {difference:.2g}, more than {TOLERANCE:g}; "
                "nothing was written. Please report this with the output of: elmo info -m MODEL"
            )
    return OnnxReport(target, target.stat().st_size, difference)


def _description(bilm: PretrainedBiLM) -> dict[str, object]:
    words = bilm.vocabulary if bilm.config.word_embedding is not None else None
    vocabulary = None if words is None else {"words": list(words.words), **special_tokens(words)}
    return {"version": 1, "bilm": to_dict(bilm.config), "vocabulary": vocabulary}


def _difference(bilm: PretrainedBiLM, path: Path) -> float:
    ours, theirs = Embedder(bilm).embed(_CHECKED), OnnxEmbedder(path).embed(_CHECKED)
    return max(float(np.abs(left - right).max()) for left, right in zip(ours, theirs, strict=True))
