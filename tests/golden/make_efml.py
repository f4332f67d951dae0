"""Make tests/golden/efml: tiny random folders and what elmoformanylangs 0.0.4.post2 gives for them.

    benchmarks/peers/setup.sh efml ENV
    ENV/bin/python tests/golden/make_efml.py

README.md next to this file tells what each written array is.
"""

import json
import logging
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from elmoformanylangs import Embedder
from elmoformanylangs.frontend import Model
from elmoformanylangs.modules.embedding_layer import EmbeddingLayer
from sentences import BATCHES, WITH_EMPTY_SENTENCE

HERE = Path(__file__).parent / "efml"
CONFIG_NAME = "cnn_tiny.json"
SPECIAL_WORDS = ["<oov>", "<bos>", "<eos>", "<pad>"]
SPECIAL_CHARACTERS = ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]


def _config(*, word_dim: int, char_dim: int, activation: str, highways: int) -> dict:
    return {
        "encoder": {
            "name": "elmo",
            "projection_dim": 6,
            "cell_clip": 3,
            "proj_clip": 3,
            "dim": 10,
            "n_layers": 2,
        },
        "token_embedder": {
            "name": "cnn",
            "activation": activation,
            "filters": [[1, 3], [2, 4], [3, 5]],
            "n_highway": highways,
            "word_dim": word_dim,
            "char_dim": char_dim,
            "max_characters_per_token": 50,
        },
        "classifier": {"name": "sampled_softmax", "n_samples": 8192},
        "dropout": 0.1,
    }


MODELS = {
    "word_char": _config(word_dim=5, char_dim=4, activation="relu", highways=2),
    "char_only": _config(word_dim=0, char_dim=4, activation="tanh", highways=1),
    "word_only": _config(word_dim=5, char_dim=0, activation="relu", highways=1),
}


def lexicon(special: list[str], items: list[str], *, unknown_every: int) -> dict[str, int]:
    """Ids by falling frequency after the special ones; every so many items are left out, to be unknown."""
    ranked = [item for item, _ in Counter(items).most_common() if item not in special]
    kept = [item for rank, item in enumerate(ranked) if rank % unknown_every != unknown_every - 1]
    return {item: index for index, item in enumerate(special + kept)}


def write_lexicon(path: Path, ids: dict[str, int]) -> None:
    path.write_text("".join(f"{item}\t{index}\n" for item, index in ids.items()), encoding="utf-8")


def randomise(model: Model) -> None:
    """Numbers wide enough that gates and clips take part; the embeddings keep EFML's unit rows."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("embedding.weight"):
                continue
            fan_in = parameter[0].numel() if parameter.dim() > 1 else 4
            parameter.normal_(0, 1.2 / fan_in**0.5)


def write_folder(name: str, config: dict) -> Path:
    """The folder as EFML's training writes it, made on somebody else's machine."""
    folder = HERE / name
    folder.mkdir(parents=True, exist_ok=True)
    sentences = [sentence for batch in BATCHES + WITH_EMPTY_SENTENCE for sentence in batch]
    # Control characters cannot stand in a .dic file: EFML strips and splits its lines at them.
    words = [word for sentence in sentences for word in sentence if word and word.isprintable() and " " not in word]
    word_ids = lexicon(SPECIAL_WORDS, words, unknown_every=4)
    char_ids = lexicon(SPECIAL_CHARACTERS, [char for word in words for char in word], unknown_every=5)
    for ids in (word_ids, char_ids):
        ids["\u3000"] = len(ids)
    (folder / CONFIG_NAME).write_text(json.dumps(config, indent=1) + "\n")
    training_arguments = {
        "seed": 1,
        "gpu": 0,
        "train_path": "/home/somebody/corpus/train.raw",
        "config_path": f"/home/somebody/elmo/configs/{CONFIG_NAME}",
        "word_embedding": None,
        "optimizer": "adam",
        "lr": 0.001,
        "model": "/home/somebody/elmo/output/tiny",
        "batch_size": 32,
        "max_epoch": 10,
        "max_sent_len": 20,
        "min_count": 3,
    }
    (folder / "config.json").write_text(json.dumps(training_arguments) + "\n")
    write_lexicon(folder / "word.dic", word_ids)
    embedder = config["token_embedder"]
    if embedder["char_dim"]:
        write_lexicon(folder / "char.dic", char_ids)
    model = Model(
        config,
        EmbeddingLayer(embedder["word_dim"], word_ids, fix_emb=False) if embedder["word_dim"] else None,
        EmbeddingLayer(embedder["char_dim"], char_ids, fix_emb=False) if embedder["char_dim"] else None,
    )
    randomise(model)
    # Published folders are older than torch's zip format; one of ours has the new one, as if saved again.
    zipped = name == "char_only"
    for part in ("token_embedder", "encoder"):
        state = getattr(model, part).state_dict()
        torch.save(state, folder / f"{part}.pkl", _use_new_zipfile_serialization=zipped)
    return folder


def make_vectors(folder: Path) -> None:
    embedder = Embedder(str(folder), batch_size=64)
    encoder = embedder.model.encoder
    arrays = {}

    def record(prefix: str, sentences: list[list[str]], output_layer: int) -> None:
        for row, vectors in enumerate(embedder.sents2elmo(sentences, output_layer)):
            arrays[f"{prefix}_row_{row}"] = vectors

    for k, batch in enumerate(BATCHES):
        encoder.reset_states()
        record(f"reset_{k}", batch, -2)
    for output_layer, name in ((0, "layer_0"), (1, "layer_1"), (2, "layer_2"), (-1, "average"), (-2, "all")):
        encoder.reset_states()
        record(f"output_{name}", BATCHES[1], output_layer)
    for prefix, batches in (("carry", BATCHES), ("empty_carry", WITH_EMPTY_SENTENCE)):
        encoder.reset_states()
        for k, batch in enumerate(batches):
            record(f"{prefix}_{k}", batch, -2)
            hidden, cell = encoder._states
            arrays[f"{prefix}_hidden_{k}"], arrays[f"{prefix}_cell_{k}"] = (
                hidden.numpy().copy(),
                cell.numpy().copy(),
            )
    np.savez_compressed(folder / "vectors.npz", **arrays)
    print(f"{folder.relative_to(HERE.parent)}: {len(arrays)} arrays")


def tag_storages_as_gpu() -> None:
    """Write "cuda:0" into the pickles, as published ones have it, so that a reader must map it to the CPU."""
    torch.serialization.register_package(0, lambda storage: "cuda:0", lambda storage, location: None)


def main() -> None:
    logging.getLogger("elmoformanylangs").setLevel(logging.ERROR)
    torch.manual_seed(4)
    torch.set_num_threads(1)
    tag_storages_as_gpu()
    for name, config in MODELS.items():
        make_vectors(write_folder(name, config))


if __name__ == "__main__":
    main()
