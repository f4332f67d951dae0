"""Against AllenNLP 0.9's own numbers (tests/golden), and the corners of its interface."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from replicas import replicas_of

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.bilm.initialise import initialise
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.embedding.embedder import Embedder
from elmo.errors import ConfigError, InputError
from elmo.integrations.allennlp import Elmo, ElmoEmbedder, ElmoTokenEmbedder, ScalarMix, _ElmoBiLm, batch_to_ids
from elmo.text.characters import CharacterScheme

GOLDEN = Path(__file__).parent.parent / "golden"
TEXT = json.loads((GOLDEN / "sentences.json").read_text(encoding="utf-8"))
BATCHES = TEXT["batches"]
RELU2 = GOLDEN / "allennlp" / "relu2"
FILES = str(RELU2 / "options.json"), str(RELU2 / "weights.hdf5")


def close(actual: torch.Tensor | np.ndarray, expected: np.ndarray, tolerance: float = 1e-6) -> None:
    actual = actual.detach().numpy() if isinstance(actual, torch.Tensor) else actual
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


def fresh(representations: int = 1, **switches: Any) -> Elmo:
    return Elmo(*FILES, representations, dropout=0.0, **switches)


def test_character_ids() -> None:
    expected = np.load(GOLDEN / "allennlp" / "character_ids.npz")
    for k, batch in enumerate(BATCHES):
        np.testing.assert_array_equal(batch_to_ids(batch).numpy(), expected[f"batch_{k}"])


@pytest.mark.parametrize("name", ["relu2", "tanh3", "relu1"])
def test_activations_stateful_and_not(name: str) -> None:
    folder = GOLDEN / "allennlp" / name
    expected = np.load(folder / "layers.npz")
    stateful, pure = (_ElmoBiLm(folder / "options.json", folder / "weights.hdf5") for _ in range(2))
    pure._elmo_lstm.stateful = False
    for prefix, batches in (("carry", BATCHES), ("empty_carry", TEXT["with_empty_sentence"])):
        stateful._elmo_lstm.reset_states()
        assert stateful._elmo_lstm._states is None
        for k, batch in enumerate(batches):
            output = stateful(batch_to_ids(batch))
            close(torch.stack(output["activations"]), expected[f"{prefix}_{k}"])
            assert output["mask"].dtype == torch.bool
            states = stateful._elmo_lstm._states
            assert states is not None
            close(states[0], expected[f"{prefix}_hidden_{k}"])
            close(states[1], expected[f"{prefix}_cell_{k}"])
            if prefix == "carry":
                close(torch.stack(pure(batch_to_ids(batch))["activations"]), expected[f"reset_{k}"])


def test_a_saved_state_can_be_restored() -> None:
    bilm = _ElmoBiLm(*FILES)
    ids = batch_to_ids(BATCHES[0])
    bilm(ids)
    saved = bilm._elmo_lstm._states
    second = bilm(ids)["activations"][2]
    bilm._elmo_lstm._states = saved
    torch.testing.assert_close(bilm(ids)["activations"][2], second)
    bilm._elmo_lstm._states = None
    assert not torch.allclose(bilm(ids)["activations"][2], second)


def check(case: str, module: Elmo, *inputs: torch.Tensor) -> None:
    expected = np.load(RELU2 / "elmo_module.npz")
    output = module(*inputs)
    names = [name for name in expected.files if name.startswith(f"{case}_") and name[len(case) + 1 :].isdigit()]
    assert len(output["elmo_representations"]) == len(names) > 0
    for k, representation in enumerate(output["elmo_representations"]):
        close(representation, expected[f"{case}_{k}"])
    np.testing.assert_array_equal(output["mask"].numpy(), expected[f"{case}_mask"])


def set_mix(mix: Any, weights: list[float], gamma: float) -> None:
    for parameter, value in zip(mix.scalar_parameters, weights, strict=True):
        parameter.data.fill_(value)
    mix.gamma.data.fill_(gamma)


@pytest.mark.parametrize(("case", "layer_norm"), [("mixed", False), ("layer_norm", True)])
def test_learned_mixes_over_two_calls(case: str, layer_norm: bool) -> None:
    module = fresh(3, do_layer_norm=layer_norm)
    set_mix(module.scalar_mix_0, [0.3, -0.7, 1.1], 0.9)
    set_mix(module.scalar_mix_1, [-2.0, 0.0, 2.0], 0.7)
    check(f"{case}_first", module, batch_to_ids(BATCHES[1]))
    check(f"{case}_second", module, batch_to_ids(BATCHES[3]))


def test_a_mix_that_was_replaced_is_used() -> None:
    module, ids = fresh(2), batch_to_ids(BATCHES[1])
    module.scalar_mix_1 = ScalarMix(3, initial_scalar_parameters=[-9e10, 1, -9e10])
    first, second = module(ids)["elmo_representations"]
    close(first, fresh()(ids)["elmo_representations"][0].detach().numpy())
    close(second, np.load(RELU2 / "elmo_module.npz")["only_layer_1_0"])


def test_options_of_the_elmo_module() -> None:
    ids = batch_to_ids(BATCHES[1])
    check("plain", fresh(), ids)
    check("boundaries", fresh(keep_sentence_boundaries=True), ids)
    check("boundaries_layer_norm", fresh(keep_sentence_boundaries=True, do_layer_norm=True), ids)
    check("mix_parameters", fresh(2, scalar_mix_parameters=[0.5, -1.0, 2.0]), ids)
    check("only_layer_1", fresh(scalar_mix_parameters=[-9e10, 1, -9e10]), ids)


def test_four_dimensions_and_cached_words() -> None:
    four_d = batch_to_ids(BATCHES[1] + BATCHES[0]).view(2, 3, -1, 50)
    check("four_d", fresh(2), four_d)
    words = json.loads((RELU2 / "cached_words.json").read_text(encoding="utf-8"))
    word_ids = torch.from_numpy(np.load(RELU2 / "elmo_module.npz")["cached_word_ids"])
    check("cached", fresh(vocab_to_cache=words), four_d.view(6, -1, 50), word_ids)
    check("cached_four_d", fresh(vocab_to_cache=words), four_d, word_ids.view(2, 3, -1))


def test_a_word_outside_the_cache_is_computed() -> None:
    ids = batch_to_ids(BATCHES[1])
    module = fresh(vocab_to_cache=["@@PADDING@@", "the"])
    beyond = torch.full(ids.shape[:2], 7) * (ids > 0).any(-1)
    torch.testing.assert_close(module(ids, beyond)["elmo_representations"][0], fresh()(ids)["elmo_representations"][0])
    plain = fresh()
    torch.testing.assert_close(plain(ids, beyond)["elmo_representations"][0], fresh()(ids)["elmo_representations"][0])


def test_embedder() -> None:
    expected = np.load(RELU2 / "embedder.npz")
    embedder = ElmoEmbedder(*FILES)
    for k, batch in enumerate(BATCHES):
        for row, layers in enumerate(embedder.embed_batch(batch)):
            close(layers, expected[f"batch_{k}_row_{row}"])
    close(embedder.embed_sentence(BATCHES[0][0]), expected["embed_sentence"])
    before = embedder.elmo_bilm._elmo_lstm._states
    assert embedder.embed_sentence([]).shape == (3, 0, 14)
    after = embedder.elmo_bilm._elmo_lstm._states
    assert before is not None and after is not None  # AllenNLP did not run an empty sentence that comes alone
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))
    activations, mask = embedder.batch_to_embeddings(BATCHES[0])
    assert activations.shape == (2, 3, 6, 14) and mask.sum(1).tolist() == [6, 2]


@pytest.mark.parametrize("output_format", ["all", "top", "average"])
def test_files(tmp_path: Path, output_format: str) -> None:
    out = tmp_path / "out.hdf5"
    with (RELU2 / "lines.txt").open(encoding="utf-8") as lines:
        ElmoEmbedder(*FILES).embed_file(lines, str(out), output_format, batch_size=2)
    with h5py.File(out) as ours, h5py.File(RELU2 / f"lines_{output_format}.hdf5") as theirs:
        assert set(ours) == set(theirs)
        for key in theirs:
            if key == "sentence_to_index":
                assert ours[key].shape == theirs[key].shape == (1,)
                assert json.loads(ours[key][0]) == json.loads(theirs[key][0])
            else:
                assert ours[key].dtype == theirs[key].dtype
                close(ours[key][()], theirs[key][()])


def test_options_of_the_file_writer(tmp_path: Path) -> None:
    embedder, out = ElmoEmbedder(*FILES), tmp_path / "out.hdf5"
    embedder.embed_file(io.StringIO("a b\n\nc\n"), str(out), forget_sentences=True)
    with h5py.File(out) as file:
        assert {key: file[key].shape for key in file} == {"0": (3, 2, 14), "1": (3, 0, 14), "2": (3, 1, 14)}
    embedder.embed_file(io.StringIO("a b\nc\n"), str(out), use_sentence_keys=True)
    with h5py.File(out) as file:
        assert set(file) == {"a b", "c"}
    for lines in ("a\na\n", "a\n\nb\n", "a b\n.\n", "a\na/b\n", "a/b\na\n"):
        with pytest.raises(InputError, match="cannot be an hdf5 key"):
            embedder.embed_file(io.StringIO(lines), str(tmp_path / "new.hdf5"), use_sentence_keys=True)
        assert not (tmp_path / "new.hdf5").exists()
    with pytest.raises(ConfigError, match="all, top or average"):
        embedder.embed_file(io.StringIO("a\n"), str(out), "middle")
    for batch_size in (0, -1):
        with pytest.raises(ConfigError, match=f"batch_size is {batch_size}"):
            embedder.embed_file(io.StringIO("a\n"), str(out), batch_size=batch_size)
        with pytest.raises(ConfigError, match=f"batch_size is {batch_size}"):
            list(embedder.embed_sentences([["a"]], batch_size))


def test_a_full_disk_is_one_message(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    (tmp_path / "in.txt").write_text("".join(f"sentence number {row}\n" for row in range(60)))
    code = (
        "import resource, sys; from elmo.integrations.allennlp.__main__ import main\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (8000, {resource.RLIM_INFINITY}))\n"
        "main(['elmo', 'in.txt', 'out.hdf5', '--all', '--options-file', sys.argv[1], '--weight-file', sys.argv[2]])"
    )
    done = subprocess.run([sys.executable, "-c", code, *FILES], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr[-2000:]
    assert "Cannot write out.hdf5: File too large." in done.stderr and "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_scalar_mix() -> None:
    golden = np.load(GOLDEN / "allennlp" / "scalar_mix.npz")
    layers = list(torch.from_numpy(golden["layers"]))
    mask, parameters = torch.from_numpy(golden["mask"]), golden["parameters"].tolist()
    for case, layer_norm in (("plain", False), ("layer_norm", True)):
        close(ScalarMix(4, do_layer_norm=layer_norm)(layers, mask), golden[f"{case}_initial"])
        mix = ScalarMix(4, do_layer_norm=layer_norm, initial_scalar_parameters=parameters, trainable=False)
        mix.gamma.data.fill_(1.7)
        close(mix(layers, mask), golden[f"{case}_given"], 2e-6)
        assert not any(parameter.requires_grad for parameter in mix.parameters())
    close(ScalarMix(4, initial_scalar_parameters=parameters)(layers), golden["plain_no_mask"])
    assert set(ScalarMix(2).state_dict()) == {"gamma", "scalar_parameters.0", "scalar_parameters.1"}
    with pytest.raises(ConfigError):
        ScalarMix(4, initial_scalar_parameters=[1.0])
    with pytest.raises(ConfigError):
        ScalarMix(3)(layers)


def test_which_parameters_get_gradients() -> None:
    ids = batch_to_ids(BATCHES[0])
    frozen = fresh()
    frozen(ids)["elmo_representations"][0].sum().backward()
    assert {name for name, p in frozen.named_parameters() if p.grad is not None} == {
        "scalar_mix_0.gamma", *(f"scalar_mix_0.scalar_parameters.{k}" for k in range(3))
    }  # fmt: skip
    tuned = fresh(requires_grad=True)
    for _ in range(2):  # the second call goes on from the first one's state, whose graph is gone
        tuned(ids)["elmo_representations"][0].square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in tuned._elmo_lstm.bilm.token_encoder.parameters())


def test_dropout_in_training_only() -> None:
    module = Elmo(*FILES, 1, dropout=0.9).eval()
    ids = batch_to_ids(BATCHES[0])
    module._elmo_lstm._elmo_lstm.stateful = False  # type: ignore[union-attr]
    torch.testing.assert_close(module(ids)["elmo_representations"][0], module(ids)["elmo_representations"][0])
    module.train()
    assert (module(ids)["elmo_representations"][0] == 0).float().mean() > 0.5


def test_token_embedder() -> None:
    ids = batch_to_ids(BATCHES[0])
    plain = ElmoTokenEmbedder(*FILES, dropout=0.0)
    torch.testing.assert_close(plain(ids), fresh()(ids)["elmo_representations"][0])
    assert plain.get_output_dim() == 14
    projected = ElmoTokenEmbedder(*FILES, projection_dim=5)
    assert projected(ids).shape == (2, 6, 5) and projected.get_output_dim() == 5


class Words:
    """Of AllenNLP's vocabulary, what the embedder asks for."""

    def get_token_to_index_vocabulary(self, namespace: str) -> dict[str, int]:
        return {word: index for index, word in enumerate(["@@PADDING@@", namespace, "bank"])}


def test_settings_of_old_configuration_files() -> None:
    params = {
        "type": "elmo_token_embedder", "options_file": FILES[0], "weight_file": FILES[1], "do_layer_norm": False,
        "dropout": 0.0, "projection_dim": 5,
    }  # fmt: skip
    embedder = ElmoTokenEmbedder.from_params(None, params)
    assert embedder.eval()(batch_to_ids(BATCHES[0])).shape == (2, 6, 5)
    del params["projection_dim"]
    cached = ElmoTokenEmbedder.from_params(Words(), {**params, "namespace_to_cache": "tokens"}).eval()
    ids = batch_to_ids([["bank", "tokens"]])
    by_word = cached(ids, torch.tensor([[2, 1]]))
    torch.testing.assert_close(by_word, ElmoTokenEmbedder.from_params(None, params).eval()(ids))
    with pytest.raises(ConfigError, match="needs the vocabulary"):
        ElmoTokenEmbedder.from_params(None, {**params, "namespace_to_cache": "tokens"})
    with pytest.raises(ConfigError, match="unknown drop_out; missing none"):
        ElmoTokenEmbedder.from_params(None, {**params, "drop_out": 0.1})
    with pytest.raises(ConfigError, match="missing weight_file, num_output_representations"):
        Elmo.from_params({"options_file": FILES[0]})
    with pytest.raises(ConfigError, match="settings of 'embedding'"):
        ElmoTokenEmbedder.from_params(None, {**params, "type": "embedding"})


def test_a_module_of_ones_own_and_other_formats() -> None:
    ids = batch_to_ids(BATCHES[0])
    shared = Elmo(None, None, 1, dropout=0.0, module=_ElmoBiLm(*FILES))
    torch.testing.assert_close(shared(ids)["elmo_representations"][0], fresh()(ids)["elmo_representations"][0])
    with pytest.raises(ConfigError, match="not both"):
        Elmo(*FILES, 1, module=_ElmoBiLm(*FILES))
    folder = _ElmoBiLm(RELU2, None)
    torch.testing.assert_close(folder(ids)["activations"][2], _ElmoBiLm(*FILES)(ids)["activations"][2])
    params = {"options_file": FILES[0], "weight_file": FILES[1], "num_output_representations": 2}
    assert len(Elmo.from_params(params)(ids)["elmo_representations"]) == 2


def test_the_copies_of_data_parallel_use_their_own_weights() -> None:
    ids = batch_to_ids(BATCHES[0])
    elmo = fresh(requires_grad=True)
    expected = fresh()(ids)["elmo_representations"][0]
    for replica in replicas_of(elmo):
        ours, original = replica._elmo_lstm, elmo._elmo_lstm
        assert ours.bilm.forward_lstm is ours._elmo_lstm.forward_lstm is not original._elmo_lstm.forward_lstm
        assert ours.bilm.token_encoder is ours._token_embedder.encoder is not original._token_embedder.encoder
        vectors = replica(ids)["elmo_representations"][0]
        # Each copy begins with the state of the module, not with that of the other copy.
        torch.testing.assert_close(vectors, expected)
        vectors.square().sum().backward()
    assert elmo._elmo_lstm._elmo_lstm._states is None
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in elmo._elmo_lstm.bilm.parameters())


@pytest.mark.parametrize("max_characters", [3, 7, 60])
def test_models_with_words_of_another_length(tmp_path: Path, max_characters: int) -> None:
    """`batch_to_ids` knows no model and always gives 50 ids a word."""
    config = BiLMConfig(
        LstmConfig(cell_dim=8, projection_dim=4),
        characters=CharacterScheme.utf8(max_characters),
        char_cnn=CharCnnConfig(character_dim=4, filters=((1, 4), (3, 5)), num_highway=1),
    )
    bilm = PretrainedBiLM(config)
    initialise(bilm, torch.Generator().manual_seed(0))
    bilm.eval().save_pretrained(tmp_path)
    sentences = [["a", "bank", "banks", "banking", "Überraschung", "<S>"], ["ab", "", "abcdef"]]
    output = _ElmoBiLm(tmp_path, None)(batch_to_ids(sentences))
    for row, expected in enumerate(Embedder(bilm, layers="all").embed(sentences)):
        for layer, ours in enumerate(output["activations"]):
            close(ours[row, 1 : len(sentences[row]) + 1], expected[layer])
