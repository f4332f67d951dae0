"""Make tests/golden/bilm: tiny random biLMs in bilm-tf's hdf5 layout and what bilm 0.1.post5 gives for them.

    benchmarks/peers/setup.sh bilm ENV
    ENV/bin/python tests/golden/make_bilm.py

README.md next to this file tells what each written array is.
make_bilm_checkpoints.py does TensorFlow checkpoints.
"""

import json
import tempfile
from pathlib import Path

import h5py
import numpy as np
from random_weights import random_weights, write_hdf5
from sentences import BATCHES, LINES, WITH_EMPTY_SENTENCE
from stubs import tensorflow_v1

tf = tensorflow_v1()

from bilm import (
    Batcher,
    BidirectionalLanguageModel,
    TokenBatcher,
    dump_bilm_embeddings,
    dump_token_embeddings,
    weight_layers,
)

HERE = Path(__file__).parent / "bilm"
NUM_ROWS = 8  # of kept state; bilm's own default is 128


def _lstm(*, layers: int = 2, skip: bool, dims: tuple[int, int] = (12, 7), cell_clip=3.0, proj_clip=3.0) -> dict:
    return {
        "use_skip_connections": skip,
        "projection_dim": dims[1],
        "cell_clip": cell_clip,
        "proj_clip": proj_clip,
        "dim": dims[0],
        "n_layers": layers,
    }


def _char_cnn(*, activation: str, highways: int | None = 1, max_characters: int = 50) -> dict:
    highway = {} if highways is None else {"n_highway": highways}
    return {
        "activation": activation,
        "filters": [[1, 3], [2, 4], [3, 6], [5, 5]],
        "embedding": {"dim": 4},
        "n_characters": 262,
        "max_characters_per_token": max_characters,
    } | highway


# `bare` leaves out all that bilm lets go: no CNN_proj (as many filters as dimensions), no highway, no LSTM
# projection (so that its low proj_clip must do nothing), no cell clip.
MODELS = {
    "char_noskip": {"lstm": _lstm(skip=False), "char_cnn": _char_cnn(activation="relu", highways=2)},
    "char_skip": {
        "lstm": _lstm(skip=True, cell_clip=0.3, proj_clip=0.2),
        "char_cnn": _char_cnn(activation="tanh"),
    },
    "char_1layer": {
        "lstm": _lstm(layers=1, skip=True, dims=(9, 5)),
        "char_cnn": _char_cnn(activation="relu"),
    },
    "bare": {
        "lstm": _lstm(skip=False, dims=(18, 18), cell_clip=None, proj_clip=0.1),
        "char_cnn": _char_cnn(activation="relu", highways=None, max_characters=20),
    },
    "word": {"lstm": _lstm(skip=True)},
}


def write_vocabulary(path: Path) -> int:
    """Special words first; a third of the words are left out, to be unknown. Returns the number of ids."""
    words = sorted({word for batch in BATCHES for sentence in batch for word in sentence if word.isprintable()} - {""})
    kept = [word for k, word in enumerate(words) if k % 3 and word == word.strip() and word[0] != "<"]
    lines = ["<S>", "</S>", "<UNK>", "!!!MAXTERMID", *kept]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines) - 1


def make_model(name: str, seed: int) -> Path:
    options, folder = MODELS[name], HERE / name
    folder.mkdir(parents=True, exist_ok=True)
    num_words = write_vocabulary(folder / "vocab.txt")
    weights = random_weights(options, seed, gain=1.2)
    if "char_cnn" not in options:
        rng = np.random.default_rng(seed + 100)
        weights["embedding"] = rng.normal(0, 0.7, (num_words, options["lstm"]["projection_dim"]))
    (folder / "options.json").write_text(json.dumps(options) + "\n")
    write_hdf5(weights, folder / "weights.hdf5")
    return folder


class Runner:
    """One bilm model in one TensorFlow session."""

    def __init__(
        self, options: Path, weights: Path, vocabulary: Path, *, words: bool, embedding: Path | None = None
    ) -> None:
        tf.reset_default_graph()
        if words:
            self.ids = tf.placeholder("int32", shape=(None, None))
            self.batcher = TokenBatcher(str(vocabulary))
            kind = {"use_character_inputs": False, "embedding_weight_file": str(embedding or weights)}
        else:
            length = json.loads(options.read_text())["char_cnn"]["max_characters_per_token"]
            self.ids = tf.placeholder("int32", shape=(None, None, length))
            self.batcher = Batcher(str(vocabulary), length)
            kind = {}
        self.model = BidirectionalLanguageModel(str(options), str(weights), max_batch_size=NUM_ROWS, **kind)
        self.ops = self.model(self.ids)
        self.session = tf.Session()
        self.reset()

    def reset(self) -> None:
        self.session.run(tf.global_variables_initializer())

    def run(self, batch: list[list[str]], fetch="lm_embeddings"):
        op = self.ops[fetch] if isinstance(fetch, str) else fetch
        return self.session.run(op, {self.ids: self.batcher.batch_sentences(batch)})

    def layers(self, batch: list[list[str]]) -> np.ndarray:
        """(layers, rows, tokens, 2 * projection) with zeros at padding, where bilm leaves rubbish."""
        layers = self.run(batch).transpose(1, 0, 2, 3).copy()
        for row, sentence in enumerate(batch):
            layers[:, row, len(sentence) :] = 0
        return layers

    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """Hidden (layers, rows, 2P) and cell (layers, rows, 2C), forward half first."""
        states = self.session.run(self.model._graphs[self.ids].lstm_init_states)
        pairs = list(zip(states["forward"], states["backward"], strict=True))
        cell, hidden = (np.stack([np.concatenate([f[i], b[i]], axis=-1) for f, b in pairs]) for i in range(2))
        return hidden, cell


def record_layers(runner: Runner) -> dict[str, np.ndarray]:
    arrays = {}
    for k, batch in enumerate(BATCHES):
        runner.reset()
        arrays[f"reset_{k}"] = runner.layers(batch)
    for prefix, batches in (("carry", BATCHES), ("empty_carry", WITH_EMPTY_SENTENCE)):
        runner.reset()
        for k, batch in enumerate(batches):
            arrays[f"{prefix}_{k}"] = runner.layers(batch)
            arrays[f"{prefix}_hidden_{k}"], arrays[f"{prefix}_cell_{k}"] = runner.state()
    return arrays


def make_mix(runner: Runner, path: Path) -> None:
    """bilm's weight_layers on batch 1 from zero state."""
    cases = {
        "plain": weight_layers("plain", runner.ops, l2_coef=0.5),
        "layer_norm": weight_layers("layer_norm", runner.ops, l2_coef=0.5, do_layer_norm=True),
        "top": weight_layers("top", runner.ops, use_top_only=True),
    }
    values = {"ELMo_W": np.array([0.3, -0.7, 1.1], np.float32), "ELMo_gamma": np.array([0.7], np.float32)}
    arrays = {"weights": values["ELMo_W"], "gamma": values["ELMo_gamma"], "l2_coefficient": np.float32(0.5)}
    initial = {}
    for case, ops in cases.items():
        runner.reset()
        initial[f"{case}_initial"] = runner.run(BATCHES[1], ops["weighted_op"])
        runner.reset()
        for variable in tf.trainable_variables():
            if variable.op.name.startswith(f"{case}_"):
                variable.load(values[variable.op.name.removeprefix(f"{case}_")], runner.session)
        arrays[f"{case}_given"] = runner.run(BATCHES[1], ops["weighted_op"])
        if case != "top":
            arrays[f"{case}_penalty"] = np.float32(runner.run(BATCHES[1], ops["regularization_op"])[0])
    for array in (arrays | initial).values():
        if array.ndim == 3:
            for row, sentence in enumerate(BATCHES[1]):
                array[row, len(sentence) :] = 0
    np.savez_compressed(path, **arrays, **initial)


def make_cached(folder: Path) -> None:
    """The character model read through a table of its own token vectors (`dump_token_embeddings`)."""
    tf.reset_default_graph()
    files = [str(folder / name) for name in ("vocab.txt", "options.json", "weights.hdf5", "token_embeddings.hdf5")]
    dump_token_embeddings(*files)
    vocabulary, options, weights, embedding = map(Path, files)
    runner = Runner(options, weights, vocabulary, words=True, embedding=embedding)
    arrays = {}
    for k in (0, 1):
        runner.reset()
        arrays[f"reset_{k}"] = runner.layers(BATCHES[k])
    np.savez_compressed(folder / "cached.npz", **arrays)


def make_dump(folder: Path) -> None:
    """What `dump_bilm_embeddings` writes for the lines: one after another, with the state carried."""
    tf.reset_default_graph()
    files = [str(folder / name) for name in ("vocab.txt", "options.json", "weights.hdf5", "dump.hdf5")]
    with tempfile.TemporaryDirectory() as scratch:
        lines = Path(scratch) / "lines.txt"
        lines.write_text("\n".join(LINES) + "\n", encoding="utf-8")
        dump_bilm_embeddings(files[0], str(lines), *files[1:])


def main() -> None:
    for seed, name in enumerate(MODELS, start=20):
        folder = make_model(name, seed)
        words = "char_cnn" not in MODELS[name]
        runner = Runner(folder / "options.json", folder / "weights.hdf5", folder / "vocab.txt", words=words)
        arrays = record_layers(runner)
        np.savez_compressed(folder / "layers.npz", **arrays)
        with h5py.File(folder / "weights.hdf5") as file:
            print(f"bilm/{name}: {len(arrays)} arrays, top of the file: {', '.join(file)}")
        if name == "char_skip":
            make_mix(runner, folder / "mix.npz")
            make_cached(folder)
            make_dump(folder)


if __name__ == "__main__":
    main()
