"""elmo info: what a model is, and how it runs here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from elmo.commands import options

if TYPE_CHECKING:
    from elmo.bilm.config import BiLMConfig


def info(model: options.Model = None, as_json: options.Json = False) -> None:
    """Describe a model: format, shape, parameters, what came with it, and which kernel runs it here.

    `-m` may also be an options file of bilm-tf or AllenNLP without weights.
    """
    from elmo.bilm.kernels import kernel_info
    from elmo.checkpoints.checkpoint import count_parameters
    from elmo.checkpoints.pretrained import locate
    from elmo.settings import to_dict

    path = locate(model)
    format_name, config, companions = _open(path)
    kernel, bilm = kernel_info(), to_dict(config)
    if config.characters is not None:
        bilm["characters"] = {"kind": config.characters.kind, "num_ids": config.characters.num_ids}
    facts = {
        "model": str(path),
        "format": format_name,
        "parameters": count_parameters(config),
        "layers": config.num_layers,
        "dimensions": config.output_dim,
        "bilm": bilm,
        **companions,
        "kernel": {"name": kernel.name, "reason": kernel.reason},
    }
    typer.echo(json.dumps(facts, indent=2, ensure_ascii=False) if as_json else _as_text(facts, config))


def _open(path: Path) -> tuple[str, BiLMConfig, dict[str, Any]]:
    """The name of the format, the architecture, and what came with the weights."""
    from elmo.checkpoints.bilm_tf import hdf5, tensorflow
    from elmo.checkpoints.bilm_tf.options import config_from_options, read_options
    from elmo.checkpoints.checkpoint import empty_bilm, fill
    from elmo.checkpoints.detect import open_and_name

    files = hdf5.find(path) if path.suffix == ".json" and not path.is_dir() else None
    if files is not None and files.weights is None and tensorflow.find(path) is None:
        config = config_from_options(read_options(path), num_words=None, source=path)
        return "options of bilm-tf/AllenNLP, without weights", config, {}
    opened = open_and_name(path)
    checkpoint = opened.checkpoint
    fill(empty_bilm(checkpoint.config), checkpoint.tensors, source=str(path))
    companions = {
        "softmax": None if checkpoint.softmax is None else len(checkpoint.softmax.bias),
        "vocabulary": None if checkpoint.vocabulary is None else len(checkpoint.vocabulary),
        "warm_state": checkpoint.warm_state is not None,
        "card": checkpoint.card,
    }
    return opened.format, checkpoint.config, companions


def _as_text(facts: dict[str, Any], config: BiLMConfig) -> str:
    lstm = config.lstm
    projected = f", projected to {lstm.projection_dim}" if lstm.has_projection else ""
    skips = "with" if lstm.skip_connections else "without"
    lines = {
        "model": facts["model"],
        "format": facts["format"],
        "parameters": f"{facts['parameters']:,} without softmax",
        "layers": f"{config.num_layers} of {config.output_dim} dimensions",
        "lstm": f"{lstm.num_layers} x {lstm.cell_dim} cells per direction{projected}, {skips} skip connections",
        "characters": _characters(config),
        "tokenizer": config.tokenizer,
    }
    if config.word_embedding is not None:
        lines["word table"] = f"{config.word_embedding.num_words:,} words"
    if "card" in facts:
        lines["softmax"] = f"yes, {facts['softmax']:,} words" if facts["softmax"] else "no"
        lines["vocabulary"] = f"{facts['vocabulary']:,} words" if facts["vocabulary"] else "no"
        lines["warm state"] = "yes" if facts["warm_state"] else "no"
        lines |= {f"card: {name}": _short(value) for name, value in facts["card"].items()}
    lines["kernel"] = f"{facts['kernel']['name']} ({facts['kernel']['reason']})"
    width = max(map(len, lines))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines.items())


def _characters(config: BiLMConfig) -> str:
    characters, cnn = config.characters, config.char_cnn
    if characters is None or cnn is None:
        return "none: words are known by id"
    unit = {"utf8": "UTF-8 bytes", "codepoints": "code points"}[characters.kind]
    return (
        f"{unit}, {characters.num_ids:,} ids, {characters.max_characters} per word; {cnn.num_filters:,} filters "
        f"({cnn.activation}), highway layers: {cnn.num_highway}"
    )


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:97] + "..."
