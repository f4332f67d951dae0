"""Make tests/golden/simple_elmo: what simple_elmo 0.9.2 gives for the model in bilm/char_skip.

benchmarks/peers/setup.sh simple_elmo ENV
ENV/bin/python tests/golden/make_simple_elmo.py
"""

from pathlib import Path

import numpy as np
import tensorflow as tf
from sentences import BATCHES
from simple_elmo import ElmoModel

HERE = Path(__file__).parent
TEXTS = BATCHES[1]


def main() -> None:
    model = ElmoModel()
    model.load(str(HERE / "bilm" / "char_skip"), max_batch_size=2)
    arrays = {"character_ids": model.batcher.batch_sentences(TEXTS).astype(np.int16)}
    for layers in ("top", "average", "all"):
        for name, warmup in (("cold", False), ("warm", True)):
            arrays[f"vectors_{layers}_{name}"] = model.get_elmo_vectors(TEXTS, warmup=warmup, layers=layers)
            arrays[f"mean_{layers}_{name}"] = model.get_elmo_vector_average(TEXTS, warmup=warmup, layers=layers)
    # In a session of one's own, which computes the layers of the last call, the state outlives the call.
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        for k in range(2):
            arrays[f"session_{k}"] = model.get_elmo_vectors(TEXTS, warmup=False, layers="all", session=session)
    target = HERE / "simple_elmo" / "vectors.npz"
    target.parent.mkdir(exist_ok=True)
    np.savez_compressed(target, **{name: np.asarray(array, np.float32) for name, array in arrays.items()})


if __name__ == "__main__":
    main()
