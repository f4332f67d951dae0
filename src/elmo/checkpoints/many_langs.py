"""ELMoForManyLangs' folders: models of words and code points, in torch pickles.

    config.json            names the architecture file, by its path on its author's machine
    cnn_50_100_512_...json the architecture; often missing
    char.dic, word.dic     token TAB id
    token_embedder.pkl, encoder.pkl

The pickles are opened with torch's `weights_only`, so code in them never runs. The word boundaries are
swapped in these models: `<eow>` begins a word and `<bow>` ends it. Their biases include the forget bias.

Left out: writing this format, and its other encoders (`"name": "lstm"`), of which no model was published.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

import torch
from torch import Tensor

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig, WordEmbeddingConfig
from elmo.checkpoints.checkpoint import Checkpoint, describing_bilm, empty_bilm, refuse, some_names
from elmo.checkpoints.renames import AS_IS, ZERO_ROW_IN_FRONT, Rename, StoredArray, Transform, read_renamed
from elmo.checkpoints.torch_pickle import is_plain_tensor, read_torch_pickle
from elmo.errors import CheckpointError, ConfigError
from elmo.storage.json_file import read_json_object
from elmo.storage.text_file import read_text
from elmo.text.characters import CharacterIds, CharacterScheme
from elmo.text.vocabulary import Vocabulary

FORMAT = "ELMoForManyLangs"
BEGIN_SENTENCE, END_SENTENCE, UNKNOWN, PADDING = "<bos>", "<eos>", "<oov>", "<pad>"
_BEGIN_WORD, _END_WORD = "<eow>", "<bow>"
_PICKLES = ("token_embedder.pkl", "encoder.pkl")
_WORD_TABLE, _PROJECTION = "token_encoder.word_embedding.weight", "token_encoder.projection."
_EXPECTED = "an architecture of ELMoForManyLangs: JSON with the keys encoder and token_embedder"

# That of every published model (cnn_50_100_512_4096_sample.json of the old tool), for folders without their file.
DEFAULT_ARCHITECTURE: dict[str, Any] = {
    "encoder": {"name": "elmo", "projection_dim": 512, "cell_clip": 3, "proj_clip": 3, "dim": 4096, "n_layers": 2},
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}


def find(path: Path) -> Path | None:
    """The model's folder, given it, one of its pickles or its config.json."""
    folder = path.parent if path.name in (*_PICKLES, "config.json") else path
    return folder if folder.is_dir() and all((folder / name).is_file() for name in _PICKLES) else None


def read(folder: Path) -> Checkpoint:
    """Open a model folder."""
    architecture, source = _architecture(folder)
    with describing_bilm(source, expected=_EXPECTED):
        plan = _plan(folder, architecture)
    stored = {f"token_embedder.{name}": tensor for name, tensor in _read_pickle(folder / _PICKLES[0]).items()}
    stored |= {f"encoder.{name}": tensor for name, tensor in _read_pickle(folder / _PICKLES[1]).items()}
    tensors = _rename(plan, stored, folder)
    return Checkpoint(plan.config, tensors, plan.vocabulary, card={"source": FORMAT, "tokenizer": "UDPipe"})


@dataclass(frozen=True)
class _Plan:
    """The architecture, from its file and the lexicons."""

    config: BiLMConfig
    vocabulary: Vocabulary | None
    word_dim: int
    """Width of the stored word vectors, before the projection that a model without characters applies to its table."""


def _plan(folder: Path, architecture: dict[str, Any]) -> _Plan:
    encoder, embedder = architecture["encoder"], architecture["token_embedder"]
    for part, name, known in (("encoder", encoder["name"], "elmo"), ("token_embedder", embedder["name"], "cnn")):
        if name.lower() != known:
            raise ConfigError(f"its {part} is of the kind {name!r}, and only {known!r} is supported.")
    lstm = LstmConfig(
        cell_dim=encoder["dim"],
        projection_dim=encoder["projection_dim"],
        num_layers=encoder["n_layers"],
        # 0 meant "no clipping" there.
        cell_clip=float(encoder["cell_clip"]) if encoder.get("cell_clip") else None,
        projection_clip=float(encoder["proj_clip"]) if encoder.get("proj_clip") else None,
        skip_connections=True,
        forget_bias=0.0,
    )
    if not lstm.has_projection:
        raise ConfigError(f"dim and projection_dim are both {lstm.cell_dim}; a square projection is not supported.")
    room = embedder["max_characters_per_token"] - 2
    words = _read_lexicon(folder / "word.dic") if embedder["word_dim"] > 0 else None
    characters = _read_lexicon(folder / "char.dic") if embedder["char_dim"] > 0 else None
    vocabulary = None if words is None else _vocabulary(words, folder / "word.dic")
    # Without characters, the linear layer after the word vectors is applied to the table here.
    width = embedder["word_dim"] if characters is not None else lstm.projection_dim
    config = BiLMConfig(
        lstm,
        characters=None if characters is None else _scheme(characters, room + 2, folder / "char.dic"),
        char_cnn=None if characters is None else _char_cnn(embedder),
        word_embedding=None if vocabulary is None else WordEmbeddingConfig(len(vocabulary), width, max_characters=room),
        begin_sentence=BEGIN_SENTENCE,
        end_sentence=END_SENTENCE,
    )
    return _Plan(config, vocabulary, embedder["word_dim"])


def _char_cnn(embedder: dict[str, Any]) -> CharCnnConfig:
    return CharCnnConfig(
        character_dim=embedder["char_dim"],
        filters=tuple((width, number) for width, number in embedder["filters"]),
        num_highway=embedder["n_highway"],
        activation=embedder["activation"],
    )


def _architecture(folder: Path) -> tuple[dict[str, Any], Path]:
    """The architecture and the file it is from; the default one if that file is missing."""
    settings = folder / "config.json"
    if settings.is_file():
        plain = read_json_object(settings, expected="ELMoForManyLangs' config.json, which names its architecture file")
        if "encoder" in plain and "token_embedder" in plain:
            return plain, settings
        # The path is one on its author's machine, perhaps a Windows one; only the file name matters.
        named = folder / PureWindowsPath(str(plain.get("config_path", ""))).name
        # A search of the folder, because the operating system refuses names that are too long.
        if named in folder.iterdir() and named.is_file():
            return read_json_object(named, expected=_EXPECTED), named
    return DEFAULT_ARCHITECTURE, folder


def _read_lexicon(path: Path) -> dict[str, int]:
    """A .dic file: token TAB id. The tool stripped white space when it wrote U+3000, so an empty token is U+3000."""
    expected = "lines of token, tab and id, which the architecture calls for"
    text = read_text(path, expected=expected, error=CheckpointError)
    ids: dict[str, int] = {}
    for number, line in enumerate(text.rstrip("\n").split("\n"), start=1):
        token, _, index = ("\t" + line.strip()).rpartition("\t")
        if not re.fullmatch(r"[0-9]{1,9}", index) or "\t" in token[1:]:
            refuse(f"{path}, line {number},", f"is {line[:40]!r}", "a token, a tab and its id")
        ids[token[1:] or "\u3000"] = int(index)
    return ids


def _vocabulary(ids: dict[str, int], path: Path) -> Vocabulary:
    _require(ids, (BEGIN_SENTENCE, END_SENTENCE, UNKNOWN), path)
    by_id = {index: word for word, index in ids.items()}
    if len(by_id) != len(ids) or max(by_id) > 2 * len(by_id) + 1000:
        found = f"has {len(by_id):,} ids up to {max(by_id):,} for {len(ids):,} words"
        refuse(path, found, "a different id for every word, numbered consecutively")
    # An id that no word has is a row that is never looked up.
    words = tuple(by_id.get(index, f"<unused{index}>") for index in range(max(by_id) + 1))
    return Vocabulary(words, begin_sentence=BEGIN_SENTENCE, end_sentence=END_SENTENCE, unknown=UNKNOWN)


def _scheme(ids: dict[str, int], max_characters: int, path: Path) -> CharacterScheme:
    special = (PADDING, _BEGIN_WORD, _END_WORD, BEGIN_SENTENCE, END_SENTENCE, UNKNOWN)
    _require(ids, special, path)
    padding, begin_word, end_word, begin, end, unknown = (ids[name] + 1 for name in special)
    table = CharacterIds(
        padding=padding, begin_word=begin_word, end_word=end_word,
        begin_sentence=begin, end_sentence=end, unknown=unknown,
        characters=tuple((token, index + 1) for token, index in ids.items() if len(token) == 1),
        begin_sentence_token=BEGIN_SENTENCE, end_sentence_token=END_SENTENCE,
    )  # fmt: skip
    return CharacterScheme("codepoints", max_characters, table)


def _require(ids: dict[str, int], special: tuple[str, ...], path: Path) -> None:
    if missing := [name for name in special if name not in ids]:
        refuse(path, f"lacks {some_names(missing)}", f"the special tokens {' '.join(special)}")


def _read_pickle(path: Path) -> dict[str, Tensor]:
    loaded = read_torch_pickle(path, expected="a complete torch state dict")
    if not isinstance(loaded, dict) or not all(map(is_plain_tensor, loaded.values())):
        refuse(path, "holds no state dict (names and tensors)", "a pickle of ELMoForManyLangs")
    return {str(name): tensor.detach().float() for name, tensor in loaded.items()}


def _rename(plan: _Plan, stored: dict[str, Tensor], folder: Path) -> dict[str, Tensor]:
    config = plan.config
    parameters = dict(empty_bilm(config).state_dict())
    projected_words = config.char_cnn is None
    if projected_words:
        # The stored table is narrower, and is followed by a linear layer.
        assert config.word_embedding is not None
        width = config.lstm.projection_dim
        parameters[_WORD_TABLE] = torch.empty(config.word_embedding.num_words + 1, plan.word_dim, device="meta")
        parameters[_PROJECTION + "weight"] = torch.empty(width, plan.word_dim, device="meta")
        parameters[_PROJECTION + "bias"] = torch.empty(width, device="meta")
    table = list(renames(config))
    arrays: dict[str, StoredArray] = {name: tensor.numpy() for name, tensor in stored.items()}
    for rename in table:
        if rename.transform is ZERO_ROW_IN_FRONT and rename.theirs in arrays and arrays[rename.theirs].shape:
            # Tables may have more rows than the lexicon has ids.
            arrays[rename.theirs] = arrays[rename.theirs][: len(parameters[rename.ours[0]]) - 1]
    tensors = read_renamed(table, arrays, parameters=parameters, is_extra=lambda name: True, source=str(folder))
    if projected_words:
        weight, bias = tensors.pop(_PROJECTION + "weight").double(), tensors.pop(_PROJECTION + "bias").double()
        tensors[_WORD_TABLE] = (tensors[_WORD_TABLE].double() @ weight.T + bias).float()
        tensors[_WORD_TABLE][0] = 0
    return tensors


def _read_highway(stored: Tensor) -> tuple[Tensor, ...]:
    # Their gate weighs the input and ours the transformed value: the same gate with the opposite sign.
    transform, gate = stored.chunk(2)
    return -gate, transform.contiguous()


HIGHWAY = Transform(
    _read_highway,
    lambda carry, transform: torch.cat([transform, -carry]),
    lambda carry, _: (2 * carry[0], *carry[1:]),
)


def renames(config: BiLMConfig) -> Iterator[Rename]:
    """The table for one model; stored names are those in the two pickles, with the pickle's name as a prefix."""
    theirs, cnn = "token_embedder.", "token_encoder.char_cnn."
    if config.word_embedding is not None:
        yield Rename(theirs + "word_emb_layer.embedding.weight", (_WORD_TABLE,), ZERO_ROW_IN_FRONT)
    if config.char_cnn is not None:
        yield Rename(theirs + "char_emb_layer.embedding.weight", (cnn + "embedding.weight",), ZERO_ROW_IN_FRONT)
        for part in ("weight", "bias"):
            for i in range(len(config.char_cnn.filters)):
                yield Rename(f"{theirs}convolutions.{i}.{part}", (f"{cnn}convolutions.{i}.{part}",), AS_IS)
            for k in range(config.char_cnn.num_highway):
                ours = (f"{cnn}highways.{k}.carry.{part}", f"{cnn}highways.{k}.transform.{part}")
                yield Rename(f"{theirs}highways._layers.{k}.{part}", ours, HIGHWAY)
    for part in ("weight", "bias"):
        yield Rename(f"{theirs}projection.{part}", (_PROJECTION + part,), AS_IS)
    for direction in ("forward", "backward"):
        for i in range(config.lstm.num_layers):
            layer, stack = f"encoder.{direction}_layer_{i}.", f"{direction}_lstm.layers.{i}."
            yield Rename(layer + "input_linearity.weight", (stack + "input_weight",), AS_IS)
            yield Rename(layer + "state_linearity.weight", (stack + "recurrent_weight",), AS_IS)
            yield Rename(layer + "state_linearity.bias", (stack + "bias",), AS_IS)
            yield Rename(layer + "state_projection.weight", (stack + "projection_weight",), AS_IS)
