import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub import HfApi
from replicas import replicas_of

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import CheckpointError, ConfigError, InputError
from elmo.mix.elmo_layer import ElmoLayer

SENTENCES = [["The", "bank", "is", "closed"], ["Hello"]]
MakeBilm = Callable[..., PretrainedBiLM]


def test_every_place_has_its_own_vectors_with_zeros_at_padding(make_bilm: MakeBilm) -> None:
    layer = ElmoLayer(make_bilm(), places=2, dropout=0.0)
    torch.nn.init.constant_(layer.mixes[1].gamma, 3.0)
    output = layer(SENTENCES)
    first, second = output.places
    assert first.shape == (2, 4, layer.output_dim)
    assert output.mask.tolist() == [[True] * 4, [True, False, False, False]]
    torch.testing.assert_close(second, 3 * first)
    assert not first[1, 1:].any()


def test_the_bilm_is_frozen_and_the_mixes_learn(make_bilm: MakeBilm) -> None:
    layer = ElmoLayer(make_bilm(), places=2, dropout=0.0)
    (sum(place.sum() for place in layer(SENTENCES).places) + layer.penalty(0.1)).backward()
    assert all(parameter.grad is None for parameter in layer.bilm.parameters())
    assert all(parameter.grad is not None for parameter in layer.mixes.parameters())


def test_the_bilm_learns_on_request(make_bilm: MakeBilm) -> None:
    layer = ElmoLayer(make_bilm(), dropout=0.0, trainable=True)
    layer(SENTENCES).places[0].square().sum().backward()
    assert all(parameter.grad is not None for parameter in layer.bilm.parameters())


def test_a_bilm_that_learns_keeps_no_graph_under_no_grad(make_bilm: MakeBilm) -> None:
    layer = ElmoLayer(make_bilm(), trainable=True)
    assert layer(SENTENCES).state.hidden.requires_grad
    with torch.no_grad():
        assert not layer(SENTENCES).state.hidden.requires_grad


def test_dropout_is_applied_only_in_training(make_bilm: MakeBilm) -> None:
    layer = ElmoLayer(make_bilm(), dropout=0.5)
    real = layer.train()(SENTENCES).places[0][0]
    assert (real == 0).float().mean() > 0.2
    torch.testing.assert_close(layer.eval()(SENTENCES).places[0], layer(SENTENCES).places[0])


def test_markers_are_kept_on_request(make_bilm: MakeBilm) -> None:
    bilm = make_bilm()
    kept = ElmoLayer(bilm, dropout=0.0, keep_markers=True)(SENTENCES)
    dropped = ElmoLayer(bilm, dropout=0.0)(SENTENCES)
    assert kept.mask.sum(dim=1).tolist() == [6, 3]
    torch.testing.assert_close(kept.places[0][0, 1:5], dropped.places[0][0])


def test_only_chosen_layers_are_mixed(make_bilm: MakeBilm) -> None:
    bilm = make_bilm()
    layers = bilm(bilm.indexer.batch(SENTENCES)).layers
    last = ElmoLayer(bilm, dropout=0.0, layers=(-1,))
    torch.testing.assert_close(last(SENTENCES).places[0], layers[-1])
    assert last.mix_weights() == [[1.0]]
    first = ElmoLayer(bilm, dropout=0.0, layers=(-3,))
    torch.testing.assert_close(first(SENTENCES).places[0], layers[0])
    lower = ElmoLayer(bilm, dropout=0.0, layers=(0, 1))
    torch.testing.assert_close(lower(SENTENCES).places[0], layers[:2].mean(dim=0))
    with pytest.raises(ConfigError, match="expected some of 0 to 2"):
        ElmoLayer(bilm, layers=(3,))


def test_a_model_is_opened_by_its_name(make_bilm: MakeBilm, tmp_path: Path) -> None:
    bilm = make_bilm()
    bilm.save_pretrained(tmp_path)
    opened, given = ElmoLayer(tmp_path, dropout=0.0), ElmoLayer(bilm, dropout=0.0)
    torch.testing.assert_close(opened(SENTENCES).places[0], given(SENTENCES).places[0])
    assert not any(parameter.requires_grad for parameter in opened.bilm.parameters())


def test_saving_and_loading_keeps_the_outputs(make_bilm: MakeBilm, tmp_path: Path) -> None:
    layer = ElmoLayer(make_bilm(), places=2, dropout=0.3, layer_norm=True).eval()
    torch.nn.init.normal_(layer.mixes[0].weights)
    layer.save_pretrained(tmp_path)
    again = ElmoLayer.from_pretrained(tmp_path).eval()
    assert again.dropout.p == 0.3 and again.mix_weights() == layer.mix_weights() and again.gammas() == layer.gammas()
    for a, b in zip(layer(SENTENCES).places, again(SENTENCES).places, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize(("options", "private"), [({}, False), ({"private": True}, True)])
def test_pushing_uploads_the_mixes_too(
    make_bilm: MakeBilm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], private: bool
) -> None:
    created = {}

    def create_repo(self: HfApi, name: str, **options: object) -> str:
        created.update(options)
        return f"https://hub.example/{name}"

    def upload_folder(self: HfApi, folder_path: Path, **options: object) -> None:
        shutil.copytree(folder_path, tmp_path / "uploaded")

    monkeypatch.setattr(HfApi, "create_repo", create_repo)
    monkeypatch.setattr(HfApi, "upload_folder", upload_folder)
    layer = ElmoLayer(make_bilm(), places=2)
    torch.nn.init.normal_(layer.mixes[1].weights)
    assert layer.push_to_hub("somebody/elmo", **options) == "https://hub.example/somebody/elmo"
    assert created["private"] is private
    assert ElmoLayer.from_pretrained(tmp_path / "uploaded").mix_weights() == layer.mix_weights()


def test_a_folder_without_mixes_says_what_to_type(make_bilm: MakeBilm, tmp_path: Path) -> None:
    make_bilm().save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"ElmoLayer\(elmo.load"):
        ElmoLayer.from_pretrained(tmp_path)


@pytest.mark.parametrize("sentences", ["The bank", ["The bank"]])
def test_strings_are_not_split_into_letters(make_bilm: MakeBilm, sentences: object) -> None:
    with pytest.raises(InputError, match="list of tokens"):
        ElmoLayer(make_bilm())(sentences)  # type: ignore[arg-type]


def test_numbers_of_numpy_are_saved_too(make_bilm: MakeBilm, tmp_path: Path) -> None:
    numbers: dict[str, Any] = {"layers": np.arange(2), "places": np.int64(2), "dropout": np.float32(0.25)}
    ElmoLayer(make_bilm(), **numbers).save_pretrained(tmp_path)
    layer = ElmoLayer.from_pretrained(tmp_path)
    assert layer.layers == [0, 1] and len(layer.mixes) == 2 and layer.dropout.p == 0.25


@pytest.mark.parametrize("name", ["elmo_layer.safetensors", "elmo_layer.json"])
def test_a_failed_save_leaves_the_old_file(make_bilm: MakeBilm, tmp_path: Path, name: str) -> None:
    ElmoLayer(make_bilm(), places=2).save_pretrained(tmp_path)
    before = (tmp_path / name).read_bytes()
    # A folder of the name that is written to first: the system's own refusal.
    (tmp_path / f"{name}.partial").mkdir()
    with pytest.raises(Exception, match="directory"):
        ElmoLayer(make_bilm(), places=1).save_pretrained(tmp_path)
    assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("elmo_layer.json", b'{"places": 2,', r"elmo_layer.json is not JSON"),
        ("elmo_layer.json", b'{"colour": 2}', r"do not fit.*unexpected keyword argument 'colour'"),
        ("elmo_layer.json", b'{"places": 3}', r"do not fit.*Missing key.*2.gamma"),
        ("elmo_layer.json", b'{"layers": [9]}', r"do not fit.*expected some of 0 to 2, this"),
        ("elmo_layer.safetensors", b"x" * 50, r"elmo_layer.safetensors cannot be read"),
        ("elmo_layer.safetensors", None, r"elmo_layer.safetensors cannot be read"),
    ],
)
def test_a_damaged_folder_says_what_is_wrong(
    make_bilm: MakeBilm, tmp_path: Path, file: str, content: bytes | None, message: str
) -> None:
    ElmoLayer(make_bilm(), places=2).save_pretrained(tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as refusal:
        ElmoLayer.from_pretrained(tmp_path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"places": 0}, "places is 0; expected a whole number, at least 1"),
        ({"places": 1.5}, "places is 1.5; expected a whole number"),
        ({"places": True}, "places is True; expected a whole number"),
        ({"dropout": 2}, "dropout is 2; expected a number, at least 0 and at most 1"),
        ({"dropout": -0.1}, "dropout is -0.1; expected a number"),
        ({"dropout": float("nan")}, "dropout is nan; expected a number"),
        ({"dropout": "half"}, "dropout is 'half'; expected a number"),
        ({"layers": 1}, "layers is 1; expected some of 0 to 2"),
        ({"layers": [0.5]}, r"layers is \[0.5\]; expected some of 0 to 2"),
        ({"layers": ()}, r"layers is \(\); expected some of 0 to 2"),
    ],
)
def test_arguments_out_of_range_are_refused(make_bilm: MakeBilm, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ElmoLayer(make_bilm(), **arguments)


def test_tokens_that_are_not_words_are_refused(make_bilm: MakeBilm) -> None:
    with pytest.raises(InputError, match=r"A token is int \('1'\); expected a string"):
        ElmoLayer(make_bilm())([[1, 2]])  # type: ignore[list-item]


@pytest.mark.parametrize("arguments", [{"places": 0}, {"dropout": 2}])
def test_arguments_are_checked_before_the_model_is_opened(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(arguments))} is"):
        ElmoLayer("./no-such-model", **arguments)


def test_a_part_of_the_bilm_that_is_unfrozen_by_hand_learns(make_bilm: MakeBilm) -> None:
    layer = ElmoLayer(make_bilm(), dropout=0.0)
    layer.bilm.forward_lstm.requires_grad_(True)
    layer(SENTENCES).places[0].square().sum().backward()
    assert all(parameter.grad is not None for parameter in layer.bilm.forward_lstm.parameters())
    assert all(parameter.grad is None for parameter in layer.bilm.backward_lstm.parameters())


def test_the_copies_of_data_parallel_give_gradients(make_bilm: MakeBilm) -> None:
    """Their weights are plain tensors, which `parameters()` does not find."""
    layer = ElmoLayer(make_bilm(), dropout=0.0, trainable=True)
    for replica in replicas_of(layer):
        replica(SENTENCES).places[0].square().sum().backward()
    through_copies = [parameter.grad for parameter in layer.parameters()]
    layer.zero_grad()
    (2 * layer(SENTENCES).places[0].square().sum()).backward()
    for found, parameter in zip(through_copies, layer.parameters(), strict=True):
        assert found is not None
        torch.testing.assert_close(found, parameter.grad)


def test_the_copies_of_data_parallel_keep_the_bilm_frozen(make_bilm: MakeBilm) -> None:
    layer = ElmoLayer(make_bilm(), dropout=0.0)
    layer.bilm.forward_lstm.requires_grad_(True)
    replicas_of(layer)[1](SENTENCES).places[0].square().sum().backward()
    assert all(parameter.grad is not None for parameter in layer.bilm.forward_lstm.parameters())
    assert all(parameter.grad is None for parameter in layer.bilm.backward_lstm.parameters())
