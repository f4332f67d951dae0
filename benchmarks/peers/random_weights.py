"""Random biLM weights in the hdf5 layout that bilm-tf and AllenNLP read.

    random_weights.py original|medium|small FOLDER     # writes FOLDER/options.json and FOLDER/weights.hdf5

The spread of the numbers follows bilm's initialisation, so that activations have sensible sizes; speed does
not depend on them. Needs only numpy and h5py. Left out: the softmax, which the hdf5 format never holds.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import h5py
import numpy as np

NUM_STORED_CHARACTERS = 261  # readers put the zero row of "no token" in front: 262

_FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]


def _published(dim: int, projection_dim: int, n_highway: int) -> dict[str, Any]:
    return {
        "lstm": {
            "use_skip_connections": True,
            "projection_dim": projection_dim,
            "cell_clip": 3,
            "proj_clip": 3,
            "dim": dim,
            "n_layers": 2,
        },
        "char_cnn": {
            "activation": "relu",
            "filters": _FILTERS,
            "n_highway": n_highway,
            "embedding": {"dim": 16},
            "n_characters": 262,
            "max_characters_per_token": 50,
        },
    }


PUBLISHED_OPTIONS = {
    "original": _published(4096, 512, n_highway=2),
    "medium": _published(2048, 256, n_highway=1),
    "small": _published(1024, 128, n_highway=1),
}


def character_weights(options: dict[str, Any], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The character CNN, highways and projection; each is absent from the file where bilm leaves it out."""
    cnn, projection_dim = options["char_cnn"], options["lstm"]["projection_dim"]
    char_dim, num_filters = cnn["embedding"]["dim"], sum(num for _, num in cnn["filters"])
    weights = {"char_embed": rng.uniform(-1, 1, (NUM_STORED_CHARACTERS, char_dim))}
    for i, (width, num) in enumerate(cnn["filters"]):
        weights[f"CNN/W_cnn_{i}"] = rng.normal(0, math.sqrt(1 / (width * char_dim)), (1, width, char_dim, num))
        weights[f"CNN/b_cnn_{i}"] = rng.normal(0, 0.1, num)
    for k in range(cnn.get("n_highway") or 0):
        for gate, bias in (("carry", -2.0), ("transform", 0.0)):
            weights[f"CNN_high_{k}/W_{gate}"] = rng.normal(0, math.sqrt(1 / num_filters), (num_filters,) * 2)
            weights[f"CNN_high_{k}/b_{gate}"] = rng.normal(bias, 0.1, num_filters)
    if num_filters != projection_dim:
        weights["CNN_proj/W_proj"] = rng.normal(0, math.sqrt(1 / num_filters), (num_filters, projection_dim))
        weights["CNN_proj/b_proj"] = rng.normal(0, 0.1, projection_dim)
    return weights


def lstm_weights(options: dict[str, Any], rng: np.random.Generator, *, gain: float) -> dict[str, np.ndarray]:
    """The LSTMs of both directions; no projection where the cell is as wide as the output."""
    dim, projection_dim = options["lstm"]["dim"], options["lstm"]["projection_dim"]
    weights = {}
    for direction in range(2):
        for layer in range(options["lstm"].get("n_layers", 1)):
            root = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            bound = gain * math.sqrt(6 / (2 * projection_dim + 4 * dim))
            weights[f"{root}/W_0"] = rng.uniform(-bound, bound, (2 * projection_dim, 4 * dim))
            weights[f"{root}/B"] = rng.normal(0, 0.1 * gain, 4 * dim)
            if dim > projection_dim:
                bound = gain * math.sqrt(6 / (dim + projection_dim))
                weights[f"{root}/W_P_0"] = rng.uniform(-bound, bound, (dim, projection_dim))
    return weights


def random_weights(options: dict[str, Any], seed: int, *, gain: float = 1.0) -> dict[str, np.ndarray]:
    """All tensors of an hdf5 file for `options`; `gain` widens the LSTM's numbers."""
    rng = np.random.default_rng(seed)
    characters = character_weights(options, rng) if "char_cnn" in options else {}
    return characters | lstm_weights(options, rng, gain=gain)


def write_hdf5(weights: dict[str, np.ndarray], path: Path) -> None:
    with h5py.File(path, "w") as file:
        for name, value in weights.items():
            file.create_dataset(name, data=value.astype(np.float32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("size", choices=sorted(PUBLISHED_OPTIONS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    options = PUBLISHED_OPTIONS[arguments.size]
    weights = random_weights(options, arguments.seed)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    (arguments.folder / "options.json").write_text(json.dumps(options) + "\n")
    write_hdf5(weights, arguments.folder / "weights.hdf5")
    print(f"{sum(value.size for value in weights.values()):,} stored parameters in {arguments.folder}")


if __name__ == "__main__":
    main()
