"""Make tests/golden/checkpoints: checkpoints trained by bilm 0.1.post5 itself, and what it says of them.

    benchmarks/peers/setup.sh bilm ENV
    ENV/bin/python tests/golden/make_bilm_checkpoints.py

README.md next to this file tells what each written file is.
"""

import json
import os
import random
import shutil
import tempfile
from pathlib import Path

import h5py
import numpy as np
from make_bilm import Runner, record_layers, tf

tf.logging.set_verbosity(tf.logging.ERROR)

# After make_bilm, which sets up the TensorFlow that these import.
from bilm.data import BidirectionalLMDataset, LMDataset
from bilm.training import (
    LanguageModel,
    _get_feed_dict_from_X,
    dump_weights,
    load_vocab,
    test,
    train,
)

HERE = Path(__file__).parent / "checkpoints"
TRAINING_LINES = [
    "the cat sat on the mat .",
    "a dog ran in the park .",
    "the bank raised its rates .",
    "she sat by the bank of the river .",
    "the dog and the cat sat in the park .",
    "it ran .",
    "she ran by the river and the dog ran .",
    "the rates of the bank .",
]
HELD_OUT_LINES = ["the dog sat by the river .", "an otter ran in Österreich .", "it sat ."]


def _options(*, char: bool, layers: int, skip: bool, num_words: int) -> dict:
    """The settings of bilm's training script at a tiny size; `n_characters` is 261 while training."""
    options = {
        "bidirectional": True,
        "char_cnn": {
            "activation": "relu",
            "embedding": {"dim": 4},
            "filters": [[1, 4], [2, 4], [3, 6]],
            "max_characters_per_token": 50,
            "n_characters": 261,
            "n_highway": 2,
        },
        "dropout": 0.1,
        "lstm": {
            "cell_clip": 3,
            "dim": 10,
            "n_layers": layers,
            "proj_clip": 3,
            "projection_dim": 6,
            "use_skip_connections": skip,
        },
        "all_clip_norm_val": 10.0,
        "n_epochs": 2,
        "n_train_tokens": 60,
        "batch_size": 2,
        "n_tokens_vocab": num_words,
        "unroll_steps": 5,
        "n_negative_samples_batch": 8,
    }
    if not char:
        del options["char_cnn"]
    return options


def end_streams_quietly() -> None:
    """bilm ends a test set with StopIteration inside a generator, which Python has refused since 3.7."""
    original = LMDataset.get_sentence

    def get_sentence(self):
        try:
            yield from original(self)
        except RuntimeError:
            return

    LMDataset.get_sentence = get_sentence


def vocabulary_words() -> list[str]:
    words = [word for line in TRAINING_LINES for word in line.split()]
    return ["<S>", "</S>", "<UNK>", *sorted(set(words), key=lambda word: (-words.count(word), word))]


def write_texts(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary_words()) + "\n", encoding="utf-8")
    (folder / "train.txt").write_text("\n".join(TRAINING_LINES) + "\n", encoding="utf-8")
    (folder / "held_out.txt").write_text("\n".join(HELD_OUT_LINES) + "\n", encoding="utf-8")


def dataset(options: dict, text: str, *, held_out: bool, shuffle: bool) -> BidirectionalLMDataset:
    vocabulary = load_vocab(str(HERE / "vocab.txt"), 50 if "char_cnn" in options else None)
    return BidirectionalLMDataset(str(HERE / text), vocabulary, test=held_out, shuffle_on_load=shuffle)


def run_training(options: dict, name: str, *, shuffle: bool = True, restart: str | None = None) -> str:
    """Train in HERE/name; as that path is relative, so is the `checkpoint` file. Returns the last one."""
    tf.reset_default_graph()
    tf.set_random_seed(5)
    random.seed(5)
    (HERE / name).mkdir(exist_ok=True)
    data = dataset(options, "train.txt", held_out=False, shuffle=shuffle)
    home = Path.cwd()
    os.chdir(HERE)
    try:
        with tempfile.TemporaryDirectory() as logs:
            train(options, data, 1, name, logs, restart_ckpt_file=restart)
    finally:
        os.chdir(home)
    return tf.train.latest_checkpoint(str(HERE / name))


def evaluate(options: dict, checkpoint: str) -> dict:
    """bilm's own test perplexities, and the loss of every token in each direction from the same graph."""
    perplexities = {}
    for batch_size in (1, 2):
        tf.reset_default_graph()
        data = dataset(options, "held_out.txt", held_out=True, shuffle=False)
        perplexities[f"perplexity_batch_{batch_size}"] = float(test(options, checkpoint, data, batch_size=batch_size))

    tf.reset_default_graph()
    with tf.Session() as session, tf.variable_scope("lm"):
        model = LanguageModel(options | {"batch_size": 1, "unroll_steps": 1}, False)
        tf.train.Saver().restore(session, checkpoint)
        characters = "char_cnn" in options
        data = dataset(options, "held_out.txt", held_out=True, shuffle=False)
        feed, losses = {}, []
        for batch in data.iter_batches(1, 1):
            feed.update(_get_feed_dict_from_X(batch, 0, 1, model, characters, True))
            values, states = session.run([model.individual_losses, model.final_lstm_state], feed)
            feed.update(zip(model.init_lstm_state, states, strict=True))
            losses.append([float(value) for value in values])
    forward, backward = zip(*losses, strict=True)
    assert abs(np.exp(np.mean(losses)) - perplexities["perplexity_batch_1"]) < 1e-3
    return perplexities | {"forward_losses": forward, "backward_losses": backward}


def dumped_vectors(options: dict, folder: Path) -> dict[str, np.ndarray]:
    """What bilm's inference gives after its own `dump_weights`, once its users' hand edits are done."""
    tf.reset_default_graph()
    dump_weights(str(folder), str(folder / "weights.hdf5"))
    with tempfile.TemporaryDirectory() as scratch:
        edited = json.loads(json.dumps(options))
        if "char_cnn" in edited:
            edited["char_cnn"]["n_characters"] = 262
        options_file = Path(scratch) / "options.json"
        options_file.write_text(json.dumps(edited))
        weights_file = Path(scratch) / "weights.hdf5"
        shutil.copy(folder / "weights.hdf5", weights_file)
        rename_single_layer(weights_file)
        runner = Runner(options_file, weights_file, HERE / "vocab.txt", words="char_cnn" not in options)
        return record_layers(runner)


def rename_single_layer(path: Path) -> None:
    """bilm cannot read its own one-layer dump: it writes RNN_d/RNN/LSTMCell, and looks for a MultiRNNCell."""
    with h5py.File(path, "a") as file:
        for direction in ("RNN_0", "RNN_1"):
            group = file[direction]["RNN"]
            if "LSTMCell" in group:
                group.move("LSTMCell", "MultiRNNCell/Cell0/LSTMCell")


def make_checkpoint(name: str, options: dict) -> None:
    folder = HERE / name
    checkpoint = run_training(options, name)
    (folder / "evaluation.json").write_text(json.dumps(evaluate(options, checkpoint), indent=1) + "\n")
    np.savez_compressed(folder / "layers.npz", **dumped_vectors(options, folder))


def make_exact_training(name: str, options: dict) -> None:
    """Two checkpoints, four steps apart, with no chance between: full softmax, no dropout, no shuffling."""
    certain = {"dropout": 0.0, "sample_softmax": False, "all_clip_norm_val": 1.0}  # a norm that cuts every step
    options = options | certain | {"n_epochs": 1, "n_train_tokens": 10}
    start = run_training(options, f"{name}/start", shuffle=False)
    end = run_training(
        options | {"n_train_tokens": 40},
        f"{name}/end",
        shuffle=False,
        restart=str(Path(start).relative_to(HERE)),
    )
    shutil.copy(HERE / name / "start" / "options.json", HERE / name / "end" / "options.json")
    reader = tf.train.load_checkpoint(end)
    print(f"{name}: global_step {reader.get_tensor('global_step')}")


def move_house(folder: Path) -> None:
    """A folder that was trained under an absolute path and then copied away, as most published ones were."""
    index = folder / "checkpoint"
    index.write_text(index.read_text().replace('"model.ckpt', '"/home/somebody/output/model.ckpt'))


def drop_graphs(folder: Path) -> None:
    """The .meta file holds the drawn graph, no weights, and is larger than all the rest."""
    for path in folder.rglob("*.meta"):
        path.unlink()


def main() -> None:
    end_streams_quietly()
    shutil.rmtree(HERE, ignore_errors=True)
    write_texts(HERE)
    num_words = len(vocabulary_words())
    make_checkpoint("char", _options(char=True, layers=2, skip=True, num_words=num_words))
    make_checkpoint("word", _options(char=False, layers=2, skip=False, num_words=num_words))
    make_checkpoint("one_layer", _options(char=True, layers=1, skip=True, num_words=num_words))
    (HERE / "exact_training").mkdir()
    make_exact_training("exact_training", _options(char=True, layers=2, skip=True, num_words=num_words))
    move_house(HERE / "one_layer")
    drop_graphs(HERE)


if __name__ == "__main__":
    main()
