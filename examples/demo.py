"""Embed sentences with the bundled model, and compare the vectors of "bank" in two senses.

make demo
"""

from itertools import combinations, product
from pathlib import Path

import numpy as np

import elmo
from elmo.checkpoints.checkpoint import count_parameters
from elmo.embedding.to_file import embed_to_file

HERE = Path(__file__).parent
OUTPUT = Path("runs/demo/sentences.hdf5")


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))


def vectors_of(word: str, sentences: list[str], embedder: elmo.Embedder) -> list[np.ndarray]:
    """The word's vector in each sentence."""
    return [sentence.vectors[sentence.tokens.index(word)] for sentence in embedder.stream(sentences)]


def main() -> None:
    model = elmo.load()
    lines = (HERE / "sentences.txt").read_text(encoding="utf-8").splitlines()
    name = model.card.get("name", "bundled")
    print(f"The bundled model, {name!r}: {count_parameters(model.config):,} parameters.")
    if description := model.card.get("description"):
        print(f"  {description}")

    first = next(elmo.Embedder(model).stream(lines[:1]))
    print(f"\n{lines[0]}\n  tokens   {' '.join(first.tokens)}")
    print(f"  vectors  {first.vectors.shape}: {first.vectors.shape[0]} layers, {len(first.tokens)} tokens, "
          f"{first.vectors.shape[2]} numbers each")  # fmt: skip

    embedder = elmo.Embedder(model, layers="top")
    river, money = vectors_of("bank", lines[:3], embedder), vectors_of("bank", lines[3:6], embedder)
    same = [cosine(a, b) for group in (river, money) for a, b in combinations(group, 2)]
    different = [cosine(a, b) for a, b in product(river, money)]
    print('\nThe word "bank" in three sentences about rivers and three about money, cosine of its top-layer vectors:')
    print(f"  in the same sense   {np.mean(same):.3f}\n  in the two senses   {np.mean(different):.3f}")
    if np.mean(different) < np.mean(same):
        print("  One sense is more similar to itself than to the other: the vectors depend on the context.")
    else:
        print("  This model does not tell the senses apart.")

    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    report = embed_to_file(elmo.Embedder(model), lines, OUTPUT, if_exists="replace")
    print(f"\nAll {report.num_sentences} sentences, {report.num_tokens} tokens, every layer: {OUTPUT.resolve()}")
    print("The same from the command line: elmo embed examples/sentences.txt -o vectors.hdf5")


if __name__ == "__main__":
    main()
