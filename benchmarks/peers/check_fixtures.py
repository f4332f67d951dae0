"""Show that an old tool run with our stubs still gives the numbers of its own published fixtures.

    BILM_ENV/bin/python check_fixtures.py bilm FIXTURES/bilm-tf
    ALLENNLP_ENV/bin/python check_fixtures.py allennlp FIXTURES/allennlp

The fixtures hold 30 sentences as 10 successive batches of 3 with the LSTM state carried along; file k holds
row k of every batch, top layer, as (direction, token, dim). Prints the largest difference; fails above
1.5e-6, which is how AllenNLP's own tests read "six decimals".
"""

import argparse
import json
from pathlib import Path

import h5py
import numpy as np

NUM_BATCHES = 10
TOLERANCE = 1.5e-6


def allennlp_batches(folder: Path, batches: list[list[list[str]]]):
    from allennlp.commands.elmo import ElmoEmbedder

    embedder = ElmoEmbedder(str(folder / "options.json"), str(folder / "lm_weights.hdf5"))
    for batch in batches:
        yield [layers[-1] for layers in embedder.embed_batch(batch)]


def bilm_batches(folder: Path, batches: list[list[list[str]]]):
    from stubs import tensorflow_v1

    tf = tensorflow_v1()
    from bilm import Batcher, BidirectionalLanguageModel

    ids = tf.placeholder("int32", shape=(None, None, 50))
    model = BidirectionalLanguageModel(str(folder / "options.json"), str(folder / "lm_weights.hdf5"))
    ops = model(ids)
    batcher = Batcher(str(folder / "vocab_test.txt"), 50)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for batch in batches:
            layers = session.run(ops["lm_embeddings"], {ids: batcher.batch_sentences(batch)})
            yield [layers[row, -1, : len(sentence)] for row, sentence in enumerate(batch)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", choices=["allennlp", "bilm"])
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()

    (sentences_file,) = arguments.folder.glob("*sentences.json")
    rows = json.loads(sentences_file.read_text(encoding="utf-8"))
    batches = [[row[k].split() for row in rows] for k in range(NUM_BATCHES)]
    expected = [h5py.File(arguments.folder / f"lm_embeddings_{k}.hdf5", "r") for k in range(len(rows))]

    run = allennlp_batches if arguments.tool == "allennlp" else bilm_batches
    worst = 0.0
    for k, batch in enumerate(run(arguments.folder, batches)):
        for row, vectors in enumerate(batch):
            forward, backward = expected[row][str(k)][...]
            worst = max(worst, float(np.abs(vectors - np.concatenate([forward, backward], axis=-1)).max()))
    print(f"{arguments.tool}: largest difference {worst:.2e}")
    if worst > TOLERANCE:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
