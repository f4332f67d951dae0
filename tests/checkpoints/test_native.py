"""Our own folder: exact, mapped, in every storage."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from elmo.bilm.model import BiLMState
from elmo.checkpoints import native
from elmo.checkpoints.checkpoint import Checkpoint, SoftmaxWeights
from elmo.checkpoints.detect import open_checkpoint
from elmo.checkpoints.pretrained import PretrainedBiLM, load
from elmo.embedding.embedder import Embedder
from elmo.embedding.word_cache import WORDS_FILE, WordCache
from elmo.errors import CheckpointError, ConfigError
from elmo.text.vocabulary import Vocabulary


@pytest.fixture
def full(make_bilm) -> Checkpoint:
    """A checkpoint with all that can travel with one."""
    bilm = make_bilm()
    vocabulary = Vocabulary.build(["bank", "river", "bank"])
    generator = torch.Generator().manual_seed(1)
    softmax = SoftmaxWeights(torch.randn(len(vocabulary), 6, generator=generator), torch.randn(5, generator=generator))
    state = BiLMState(torch.randn(2, 2, 1, 6, generator=generator), torch.randn(2, 2, 1, 12, generator=generator))
    return Checkpoint(
        bilm.config, dict(bilm.state_dict()), vocabulary, softmax, state, {"name": "test", "text": "naïve"}
    )


def test_everything_is_restored_exactly(full: Checkpoint, tmp_path: Path, assert_same) -> None:
    native.write(full, tmp_path / "model")
    again = open_checkpoint(tmp_path / "model")
    assert_same(full, again)
    assert again.softmax and again.warm_state and full.softmax and full.warm_state
    assert torch.equal(again.softmax.weight, full.softmax.weight)
    assert torch.equal(again.softmax.bias, full.softmax.bias)
    assert torch.equal(again.warm_state.hidden, full.warm_state.hidden)
    assert torch.equal(again.warm_state.cell, full.warm_state.cell)
    assert again.card == full.card


@pytest.mark.parametrize("name", ["efml/word_char", "efml/char_only", "efml/word_only", "bilm/word", "bilm/bare"])
def test_every_old_format_fits(name: str, golden: Path, tmp_path: Path, assert_same) -> None:
    old = open_checkpoint(golden / name)
    native.write(old, tmp_path / "model")
    assert_same(old, open_checkpoint(tmp_path / "model"))


def test_float32_is_mapped_and_not_copied(make_bilm, tmp_path: Path) -> None:
    """Weights come from the file's own pages: what changes in the file before they are touched is seen."""
    make_bilm().save_pretrained(tmp_path / "model")
    tensors = native.read(tmp_path / "model").tensors
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("only Linux tells what is mapped")
    ranges = [line.split()[0] for line in maps.read_text().splitlines() if line.endswith("model.safetensors")]
    spans = [tuple(int(end, 16) for end in span.split("-")) for span in ranges]
    assert spans
    for name, tensor in tensors.items():
        assert any(start <= tensor.data_ptr() < stop for start, stop in spans), f"{name} was copied"


def test_a_model_may_be_saved_over_the_files_it_is_mapped_from(make_bilm, tmp_path: Path) -> None:
    make_bilm(seed=1).save_pretrained(tmp_path)
    bilm = load(tmp_path)
    with torch.no_grad():
        for parameter in bilm.parameters():
            parameter.add_(1)
    bilm.save_pretrained(tmp_path)
    for name, parameter in load(tmp_path).named_parameters():
        assert torch.equal(parameter, make_bilm(seed=1).get_parameter(name) + 1), name


@pytest.mark.parametrize(
    ("storage", "bytes_each", "error"), [("float16", 2, 1e-3), ("bfloat16", 2, 8e-3), ("int8", 1, 1.5e-2)]
)
def test_smaller_storage_types_are_close(
    storage: str, bytes_each: int, error: float, full: Checkpoint, tmp_path: Path
) -> None:
    native.write(full, tmp_path / "model", storage=storage)
    again = native.read(tmp_path / "model")
    for name, tensor in full.tensors.items():
        assert again.tensors[name].dtype == torch.float32
        assert (again.tensors[name] - tensor).abs().max() <= error * tensor.abs().max(), name
    stored = load_file(tmp_path / "model/model.safetensors")["forward_lstm.layers.0.input_weight"]
    assert stored.element_size() == bytes_each
    if storage == "int8":
        assert again.warm_state and full.warm_state
        assert torch.equal(again.warm_state.cell, full.warm_state.cell), "the warm state keeps its precision"


def test_an_unknown_storage_is_refused_before_anything_is_written(full: Checkpoint, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="float32, float16, bfloat16, int8"):
        native.write(full, tmp_path / "model", storage="int4")
    assert not (tmp_path / "model").exists()


def test_a_new_model_does_not_inherit_an_old_softmax(full: Checkpoint, make_bilm, tmp_path: Path) -> None:
    native.write(full, tmp_path)
    make_bilm().save_pretrained(tmp_path)
    again = native.read(tmp_path)
    assert again.softmax is None and again.vocabulary is None and again.warm_state is None


def test_a_softmax_that_is_also_the_word_table_is_saved_twice(golden: Path, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(golden / "bilm/word")
    table = checkpoint.tensors["token_encoder.word_embedding.weight"]
    shared = Checkpoint(
        checkpoint.config,
        checkpoint.tensors,
        checkpoint.vocabulary,
        SoftmaxWeights(table[1:], torch.zeros(len(table) - 1)),
    )
    native.write(shared, tmp_path)
    softmax = native.read(tmp_path).softmax
    assert softmax and torch.equal(softmax.weight, table[1:])


def change_config(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    tensors = {name: tensor.clone() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file({**tensors, **change(tensors)}, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "config.json").write_text('{"format": "elmo-torch", "version": 99}'), "format version 99"),
        (lambda f: (f / "config.json").write_text('{"format": "elmo-torch"}'), "does not give lstm"),
        (lambda f: (f / "config.json").write_text('{"format": "elmo-torch", "bilm": []}'), "does not describe a biLM"),
        (lambda f: (f / "model.safetensors").unlink(), "model.safetensors cannot be read"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x" * 100), "complete safetensors file"),
        (
            lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-9]),
            "complete safetensors file",
        ),
        (
            lambda f: save_file({"weight": torch.zeros(1)}, f / "softmax.safetensors"),
            "holds weight .1,.. Expected the weight and",
        ),
        (
            lambda f: save_file({"weight": torch.zeros(5, 7), "bias": torch.zeros(5)}, f / "softmax.safetensors"),
            r"holds bias \(5,\), weight \(5, 7\)\. Expected .* \(words, 6\)",
        ),
        (lambda f: change_config(f, special_tokens={"unknown": 3}), "special_tokens {'unknown': 3}. Expected strings"),
        (
            lambda f: change_weights(f, lambda tensors: {"warm_state.hidden": torch.zeros(2, 2, 1, 5)}),
            r"a warm state of the shapes \(2, 2, 1, 5\) and \(2, 2, 1, 12\)",
        ),
        (
            lambda f: change_weights(f, lambda tensors: {"warm_state.cell": torch.full((2, 2, 1, 12), torch.nan)}),
            "holds NaN or infinite values in warm_state.cell",
        ),
        (
            lambda f: change_weights(f, lambda tensors: {f"{min(tensors)}.row_scale": torch.ones(1, 7)}),
            r"holds scales of \(1, 7\).*one per row",
        ),
    ],
)
def test_damaged_folders_say_what_is_wrong(spoil, message: str, full: Checkpoint, tmp_path: Path) -> None:
    native.write(full, tmp_path)
    spoil(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        native.read(tmp_path)


def test_a_word_table_needs_its_own_vocabulary(golden: Path, tmp_path: Path) -> None:
    model = open_checkpoint(golden / "bilm/word")
    native.write(model, tmp_path)
    with (tmp_path / "vocabulary.txt").open("a", encoding="utf-8") as file:
        file.write("added-by-hand\n")
    assert model.vocabulary is not None
    found, expected = f"{len(model.vocabulary) + 1:,}", f"{len(model.vocabulary):,}"
    with pytest.raises(
        CheckpointError, match=f"vocabulary.txt has {found} words. Expected {expected}, one for each row"
    ):
        native.read(tmp_path)


def test_a_setting_of_a_later_version_is_named(full: Checkpoint, tmp_path: Path) -> None:
    native.write(full, tmp_path)
    plain = json.loads((tmp_path / "config.json").read_text())
    plain["bilm"]["lstm"]["colour"] = "red"
    (tmp_path / "config.json").write_text(json.dumps(plain))
    with pytest.raises(CheckpointError, match="colour"):
        PretrainedBiLM.from_pretrained(tmp_path)


@pytest.mark.parametrize("by_convert", [False, True])
def test_a_new_model_does_not_inherit_cached_words(by_convert: bool, make_bilm, tmp_path: Path) -> None:
    old, new = make_bilm(seed=1), make_bilm(seed=2)
    old.save_pretrained(tmp_path)
    cache = WordCache(old)
    cache.warm(["bank"])
    cache.save(tmp_path / WORDS_FILE)
    assert Embedder(tmp_path).embed([["bank"]])
    if by_convert:
        native.write_folder(new.to_checkpoint(), tmp_path, replace=True)
    else:
        new.save_pretrained(tmp_path)
    (found,), (expected,) = Embedder(tmp_path).embed([["bank"]]), Embedder(new).embed([["bank"]])
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0)


def test_a_config_with_a_byte_order_mark_is_ours(make_bilm, tmp_path: Path) -> None:
    make_bilm().save_pretrained(tmp_path)
    config = tmp_path / native.CONFIG_FILE
    config.write_bytes(b"\xef\xbb\xbf" + config.read_bytes())
    assert native.matches(tmp_path) and load(tmp_path).config == make_bilm().config
