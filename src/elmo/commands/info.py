"""elmo info: what a model is, and how it runs here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from elmo.commands import options

if TYPE_CHECKING:
    from elmo.bilm.config import BiLMConfig
    from elmo.checkpoints.checkpoint import Checkpoint


def info(model: options.Model = None, as_json: options.Json = False) -> None:
    """Describe a model: format, shape, parameters, what came with it, and which kernel runs it here.

    `-m` may also be an options file of bilm-tf or AllenNLP without weights.
    """
    from elmo.checkpoints.pretrained import locate

    facts = _facts(locate(model))
    typer.echo(json.dumps(facts, indent=2, ensure_ascii=False) if as_json else _as_text(facts))


def _facts(path: Path) -> dict[str, Any]:
    from elmo.checkpoints.bilm_tf import hdf5, tensorflow
    from elmo.checkpoints.bilm_tf.options import config_from_options, read_options
    from elmo.checkpoints.detect import open_and_name

    files = hdf5.find(path) if path.suffix == ".json" and not path.is_dir() else None
    if files is not None and files.weights is None and tensorflow.find(path) is None:
        config = config_from_options(read_options(path), num_words=None, source=path)
        return {
            "model": str(path),
            "format": "options of bilm-tf/AllenNLP, without weights",
            **_shape(config),
            **_kernel(),
        }
    opened = open_and_name(path)
    shape = _shape(opened.checkpoint.config)
    return {
        "model": str(path),
        "format": opened.format,
        **shape,
        **_belongings(opened.checkpoint, str(path)),
        **_kernel(),
    }


def _shape(config: BiLMConfig) -> dict[str, Any]:
    from elmo.checkpoints.checkpoint import count_parameters

    lstm, characters = config.lstm, config.characters
    facts: dict[str, Any] = {
        "parameters": count_parameters(config),
        "layers": config.num_layers,
        "dimensions": config.output_dim,
        "lstm": {
            "layers": lstm.num_layers,
            "cells": lstm.cell_dim,
            "projection": lstm.projection_dim if lstm.has_projection else None,
            "skip_connections": lstm.skip_connections,
            "cell_clip": lstm.cell_clip,
            "projection_clip": lstm.projection_clip,
        },
        "characters": None,
        "word_table": None if config.word_embedding is None else config.word_embedding.num_words,
        "tokenizer": config.tokenizer,
    }
    if characters is not None and config.char_cnn is not None:
        facts["characters"] = {
            "kind": characters.kind,
            "ids": characters.num_ids,
            "per_word": characters.max_characters,
            "filters": config.char_cnn.num_filters,
            "highways": config.char_cnn.num_highway,
            "activation": config.char_cnn.activation,
        }
    return facts


def _belongings(checkpoint: Checkpoint, source: str) -> dict[str, Any]:
    from elmo.checkpoints.checkpoint import empty_bilm, fill

    fill(empty_bilm(checkpoint.config), checkpoint.tensors, source=source)
    return {
        "softmax": None if checkpoint.softmax is None else len(checkpoint.softmax.bias),
        "vocabulary": None if checkpoint.vocabulary is None else len(checkpoint.vocabulary),
        "warm_state": checkpoint.warm_state is not None,
        "card": checkpoint.card,
    }


def _kernel() -> dict[str, Any]:
    from elmo.bilm.kernels import kernel_info

    chosen = kernel_info()
    return {"kernel": {"name": chosen.name, "reason": chosen.reason}}


def _as_text(facts: dict[str, Any]) -> str:
    lstm, characters = facts["lstm"], facts["characters"]
    projected = f", projected to {lstm['projection']}" if lstm["projection"] else ""
    skips = "with" if lstm["skip_connections"] else "without"
    lines = {
        "model": facts["model"],
        "format": facts["format"],
        "parameters": f"{facts['parameters']:,} without softmax",
        "layers": f"{facts['layers']} of {facts['dimensions']} dimensions",
        "lstm": f"{lstm['layers']} x {lstm['cells']} cells a direction{projected}, {skips} skip connections",
        "characters": "none: words are known by id" if characters is None else _characters(characters),
        "tokenizer": facts["tokenizer"],
    }
    if facts["word_table"] is not None:
        lines["word table"] = f"{facts['word_table']:,} words"
    if "softmax" in facts:
        lines["softmax"] = f"yes, {facts['softmax']:,} words" if facts["softmax"] else "no"
        lines["vocabulary"] = f"{facts['vocabulary']:,} words" if facts["vocabulary"] else "no"
        lines["warm state"] = "yes" if facts["warm_state"] else "no"
        lines |= {f"card: {name}": _short(value) for name, value in facts["card"].items()}
    lines["kernel"] = f"{facts['kernel']['name']} ({facts['kernel']['reason']})"
    width = max(map(len, lines))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines.items())


def _characters(facts: dict[str, Any]) -> str:
    kinds = {"utf8": "UTF-8 bytes", "codepoints": "code points"}
    return (
        f"{kinds[facts['kind']]}, {facts['ids']:,} ids, {facts['per_word']} a word; {facts['filters']:,} filters "
        f"({facts['activation']}), highway layers: {facts['highways']}"
    )


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:97] + "..."
