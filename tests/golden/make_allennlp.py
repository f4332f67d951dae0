"""Make tests/golden/allennlp: tiny random biLMs in AllenNLP's layout and what AllenNLP 0.9.0 gives for them.

    benchmarks/peers/setup.sh allennlp ENV
    ENV/bin/python tests/golden/make_allennlp.py

README.md next to this file tells what each written array is.
"""

import json
from pathlib import Path

import numpy as np
import torch
from allennlp.commands.elmo import ElmoEmbedder
from allennlp.modules.elmo import Elmo, _ElmoBiLm, batch_to_ids
from allennlp.modules.scalar_mix import ScalarMix
from random_weights import random_weights, write_hdf5
from sentences import BATCHES, LINES, WITH_EMPTY_SENTENCE

HERE = Path(__file__).parent / "allennlp"


def _options(
    *, layers: int, activation: str, highways: int, clip: float = 3.0, dims: tuple[int, int] = (12, 7)
) -> dict:
    return {
        "lstm": {
            "use_skip_connections": True,
            "projection_dim": dims[1],
            "cell_clip": clip,
            "proj_clip": clip,
            "dim": dims[0],
            "n_layers": layers,
        },
        "char_cnn": {
            "activation": activation,
            "filters": [[1, 3], [2, 4], [3, 6], [5, 5]],
            "n_highway": highways,
            "embedding": {"dim": 4},
            "n_characters": 262,
            "max_characters_per_token": 50,
        },
    }


# The clips of `tanh3` are low enough that both of them cut, the cell's and the projection's.
MODELS = {
    "relu2": (_options(layers=2, activation="relu", highways=2), 1.2, 1),
    "tanh3": (_options(layers=3, activation="tanh", highways=1, clip=0.25), 1.2, 2),
    "relu1": (_options(layers=1, activation="relu", highways=1, dims=(9, 5)), 1.2, 3),
}


def make_model(name: str) -> tuple[str, str]:
    options, gain, seed = MODELS[name]
    folder = HERE / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(options) + "\n")
    write_hdf5(random_weights(options, seed, gain=gain), folder / "weights.hdf5")
    return str(folder / "options.json"), str(folder / "weights.hdf5")


def save(path: Path, arrays: dict[str, torch.Tensor | np.ndarray]) -> None:
    as_numpy = {k: v.detach().numpy() if isinstance(v, torch.Tensor) else v for k, v in arrays.items()}
    np.savez_compressed(path, **as_numpy)
    print(f"{path.relative_to(HERE.parent)}: {len(as_numpy)} arrays")


def all_layers(bilm: _ElmoBiLm, batch: list[list[str]]) -> torch.Tensor:
    """(layers, rows, tokens + 2, 2 * projection), sentence markers included."""
    return torch.stack(bilm(batch_to_ids(batch))["activations"])


def make_layers(name: str, options: str, weights: str) -> None:
    bilm = _ElmoBiLm(options, weights)
    arrays = {}
    for k, batch in enumerate(BATCHES):
        bilm._elmo_lstm.reset_states()
        arrays[f"reset_{k}"] = all_layers(bilm, batch)
    for prefix, batches in (("carry", BATCHES), ("empty_carry", WITH_EMPTY_SENTENCE)):
        bilm._elmo_lstm.reset_states()
        for k, batch in enumerate(batches):
            arrays[f"{prefix}_{k}"] = all_layers(bilm, batch)
            hidden, cell = bilm._elmo_lstm._states
            arrays[f"{prefix}_hidden_{k}"], arrays[f"{prefix}_cell_{k}"] = hidden.clone(), cell.clone()
    save(HERE / name / "layers.npz", arrays)


def make_embedder(name: str, options: str, weights: str) -> None:
    """Sentence by sentence as ElmoEmbedder hands them out, and the files that `allennlp elmo` writes."""
    embedder = ElmoEmbedder(options, weights)
    arrays = {}
    with torch.no_grad():
        for k, batch in enumerate(BATCHES):
            for row, layers in enumerate(embedder.embed_batch(batch)):
                arrays[f"batch_{k}_row_{row}"] = layers
        arrays["embed_sentence"] = embedder.embed_sentence(BATCHES[0][0])
    save(HERE / name / "embedder.npz", arrays)

    lines = HERE / name / "lines.txt"
    lines.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    for output_format in ("all", "top", "average"):
        with torch.no_grad(), lines.open(encoding="utf-8") as file:
            out = str(HERE / name / f"lines_{output_format}.hdf5")
            ElmoEmbedder(options, weights).embed_file(file, out, output_format, batch_size=2)


def set_mix(mix: ScalarMix, weights: list[float], gamma: float) -> None:
    for parameter, value in zip(mix.scalar_parameters, weights, strict=True):
        parameter.data.fill_(value)
    mix.gamma.data.fill_(gamma)


def make_elmo_module(name: str, options: str, weights: str) -> None:
    """The Elmo module's switches, each from a fresh module (zero state), dropout 0."""
    first, second = batch_to_ids(BATCHES[1]), batch_to_ids(BATCHES[3])
    arrays = {}

    def record(case: str, module: Elmo, *inputs: torch.Tensor) -> None:
        output = module(*inputs)
        for k, representation in enumerate(output["elmo_representations"]):
            arrays[f"{case}_{k}"] = representation
        arrays[f"{case}_mask"] = output["mask"]

    def fresh(num_representations: int = 1, **switches) -> Elmo:
        return Elmo(options, weights, num_representations, dropout=0.0, **switches)

    record("plain", fresh(), first)

    for case, layer_norm in (("mixed", False), ("layer_norm", True)):
        module = fresh(3, do_layer_norm=layer_norm)
        set_mix(module.scalar_mix_0, [0.3, -0.7, 1.1], 0.9)
        set_mix(module.scalar_mix_1, [-2.0, 0.0, 2.0], 0.7)
        record(f"{case}_first", module, first)
        record(f"{case}_second", module, second)  # the state of the first call carried along

    record("boundaries", fresh(keep_sentence_boundaries=True), first)
    record("boundaries_layer_norm", fresh(keep_sentence_boundaries=True, do_layer_norm=True), first)
    record("mix_parameters", fresh(2, scalar_mix_parameters=[0.5, -1.0, 2.0]), first)
    record("only_layer_1", fresh(scalar_mix_parameters=[-9e10, 1, -9e10]), first)

    four_d = batch_to_ids(BATCHES[1] + BATCHES[0]).view(2, 3, -1, 50)
    record("four_d", fresh(2), four_d)

    words = ["@@PADDING@@", "@@UNKNOWN@@", *sorted({word for s in BATCHES[1] + BATCHES[0] for word in s})]
    word_ids = torch.zeros(four_d.shape[:-1], dtype=torch.long).view(6, -1)
    for row, sentence in enumerate(BATCHES[1] + BATCHES[0]):
        word_ids[row, : len(sentence)] = torch.tensor([words.index(word) for word in sentence])
    (HERE / name / "cached_words.json").write_text(json.dumps(words, ensure_ascii=False) + "\n", encoding="utf-8")
    arrays["cached_word_ids"] = word_ids
    record("cached", fresh(vocab_to_cache=words), four_d.view(6, -1, 50), word_ids)
    record("cached_four_d", fresh(vocab_to_cache=words), four_d, word_ids.view(2, 3, -1))
    save(HERE / name / "elmo_module.npz", arrays)


def make_tuned(name: str, options: str, weights: str) -> None:
    """A task model's `Elmo` after a few steps of training its biLM: its state dict, and what it then gives."""
    module = Elmo(options, weights, 2, requires_grad=True, dropout=0.0)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for batch in BATCHES[:3]:
        optimizer.zero_grad()
        sum(r.square().mean() for r in module(batch_to_ids(batch))["elmo_representations"]).backward()
        optimizer.step()
    module._elmo_lstm._elmo_lstm.reset_states()
    arrays = {f"state/{name}": tensor for name, tensor in module.state_dict().items()}
    output = module(batch_to_ids(BATCHES[1]))["elmo_representations"]
    save(HERE / name / "tuned.npz", arrays | {f"representation_{k}": vectors for k, vectors in enumerate(output)})


def make_scalar_mix() -> None:
    rng = np.random.default_rng(7)
    layers = [torch.from_numpy(rng.normal(k, k + 1, (3, 5, 4)).astype(np.float32)) for k in range(4)]
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]])
    parameters = [0.4, -1.2, 0.0, 2.5]
    arrays = {"layers": torch.stack(layers), "mask": mask, "parameters": np.array(parameters, np.float32)}
    for case, layer_norm in (("plain", False), ("layer_norm", True)):
        arrays[f"{case}_initial"] = ScalarMix(4, do_layer_norm=layer_norm)(layers, mask)
        mix = ScalarMix(4, do_layer_norm=layer_norm, initial_scalar_parameters=parameters, trainable=False)
        mix.gamma.data.fill_(1.7)
        arrays[f"{case}_given"] = mix(layers, mask)
    arrays["plain_no_mask"] = ScalarMix(4, initial_scalar_parameters=parameters)(layers)
    save(HERE / "scalar_mix.npz", arrays)


def make_character_ids() -> None:
    save(
        HERE / "character_ids.npz",
        {f"batch_{k}": batch_to_ids(b).numpy().astype(np.int16) for k, b in enumerate(BATCHES)},
    )


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for name in MODELS:
        make_layers(name, *make_model(name))
    files = make_model("relu2")
    make_embedder("relu2", *files)
    make_elmo_module("relu2", *files)
    make_tuned("relu2", *files)
    make_scalar_mix()
    make_character_ids()


if __name__ == "__main__":
    main()
