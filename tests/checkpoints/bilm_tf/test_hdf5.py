"""bilm-tf's and AllenNLP's options and hdf5 weights, both ways."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from elmo.bilm.config import BiLMConfig, WordEmbeddingConfig
from elmo.checkpoints.bilm_tf import hdf5
from elmo.checkpoints.checkpoint import Checkpoint
from elmo.checkpoints.detect import open_checkpoint
from elmo.errors import CheckpointError
from elmo.text.vocabulary import Vocabulary

MODELS = [
    "allennlp/relu1", "allennlp/relu2", "allennlp/tanh3",
    "bilm/char_noskip", "bilm/char_skip", "bilm/char_1layer", "bilm/bare", "bilm/word",
]  # fmt: skip


def change_options(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    options = json.loads((folder / "options.json").read_text())
    change(options)
    (folder / "options.json").write_text(json.dumps(options))


@pytest.mark.parametrize("name", MODELS)
def test_ours_to_hdf5_and_back_is_exact(name: str, golden: Path, tmp_path: Path, assert_same) -> None:
    first = open_checkpoint(golden / name)
    hdf5.write(first, tmp_path / "weights.hdf5")
    assert_same(first, open_checkpoint(tmp_path))
    assert not list(tmp_path.glob("*.partial"))


def test_weights_are_flushed_before_they_get_their_name(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, fsync, flushed = tmp_path / "w.hdf5", os.fsync, []

    def watched(descriptor: int) -> None:
        flushed.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, weights.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    hdf5.write(open_checkpoint(golden / "allennlp/relu1"), weights)
    assert ("w.hdf5", False) in flushed and ("w_options.json.partial", False) in flushed
    assert flushed[-1] == (tmp_path.name, True)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_written_is_what_the_old_tool_wrote(name: str, golden: Path, tmp_path: Path) -> None:
    hdf5.write(open_checkpoint(golden / name), tmp_path / "w.hdf5")
    with h5py.File(golden / name / "weights.hdf5") as theirs, h5py.File(tmp_path / "w.hdf5") as ours:
        names: list[str] = []
        theirs.visititems(lambda path, item: names.append(path) if isinstance(item, h5py.Dataset) else None)
        for path in names:
            assert ours[path].dtype == np.float32
            np.testing.assert_array_equal(ours[path][...], theirs[path][...], err_msg=path)
    theirs_options = json.loads((golden / name / "options.json").read_text())
    ours_options = json.loads((tmp_path / "w_options.json").read_text())
    theirs_options.get("char_cnn", {}).setdefault("n_highway", 0)
    assert ours_options["lstm"] == theirs_options["lstm"]
    assert ours_options.get("char_cnn") == theirs_options.get("char_cnn")


def test_261_and_262_characters_are_the_same_and_262_is_written(copy_of, tmp_path: Path, assert_same) -> None:
    folder = copy_of("allennlp/relu2")
    before = open_checkpoint(folder)
    change_options(folder, lambda options: options["char_cnn"].update(n_characters=261))
    after = open_checkpoint(folder)
    assert_same(before, after)
    hdf5.write(after, tmp_path / "w.hdf5")
    assert json.loads((tmp_path / "w_options.json").read_text())["char_cnn"]["n_characters"] == 262


def test_unknown_options_are_ignored_but_kept(copy_of, tmp_path: Path) -> None:
    folder = copy_of("allennlp/relu2")
    change_options(folder, lambda options: options.update(n_train_tokens=768648884, colour="red"))
    checkpoint = open_checkpoint(folder)
    hdf5.write(checkpoint, tmp_path / "w.hdf5")
    assert json.loads((tmp_path / "w_options.json").read_text())["n_train_tokens"] == 768648884


@pytest.mark.parametrize("kind", ["never written", "external", "virtual"])
def test_an_array_that_is_not_in_the_file_is_refused(kind: str, copy_of, tmp_path: Path) -> None:
    """It would be read as zeros, or from any other file that the user can read."""
    folder, elsewhere = copy_of("allennlp/relu2"), tmp_path / "elsewhere.h5"
    with h5py.File(folder / "weights.hdf5", "r+") as weights, h5py.File(elsewhere, "w") as other:
        name = "CNN_proj/W_proj"
        other["array"] = array = weights[name][...]
        del weights[name]
        if kind == "virtual":
            layout = h5py.VirtualLayout(array.shape, array.dtype)
            layout[:] = h5py.VirtualSource(other["array"])
            weights.create_virtual_dataset(name, layout)
        else:
            external = [(str(elsewhere), 0, array.nbytes)] if kind == "external" else None
            weights.create_dataset(name, array.shape, array.dtype, external=external)
    with pytest.raises(CheckpointError, match=r"stores 0 bytes for '/CNN_proj/W_proj'"):
        open_checkpoint(folder)


def test_a_card_of_a_users_own_is_not_taken_for_options(golden: Path, tmp_path: Path) -> None:
    checkpoint = replace(open_checkpoint(golden / "allennlp/relu2"), card={"options": "see the paper"})
    hdf5.write(checkpoint, tmp_path / "w.hdf5")
    assert json.loads((tmp_path / "w_options.json").read_text()).keys() == {"lstm", "char_cnn"}


def test_missing_options_take_bilms_defaults(copy_of) -> None:
    folder = copy_of("bilm/char_1layer")
    change_options(folder, lambda options: [options["lstm"].pop(key) for key in ("n_layers", "use_skip_connections")])
    change_options(folder, lambda options: options["lstm"].pop("cell_clip"))
    lstm = open_checkpoint(folder).config.lstm
    assert (lstm.num_layers, lstm.skip_connections, lstm.cell_clip) == (1, False, None)


@pytest.mark.parametrize("given", ["elmo_options.json", "elmo_weights.hdf5", ""])
def test_either_file_or_the_folder_opens_the_pair(given: str, copy_of, golden: Path, assert_same) -> None:
    folder = copy_of("allennlp/relu2", "options.json", "weights.hdf5")
    (folder / "options.json").rename(folder / "elmo_options.json")
    (folder / "weights.hdf5").rename(folder / "elmo_weights.hdf5")
    assert_same(open_checkpoint(folder / given), open_checkpoint(golden / "allennlp/relu2"))


def test_two_models_in_a_folder_are_distinguished_by_name(copy_of, golden: Path, assert_same) -> None:
    folder = copy_of("allennlp/relu2", "options.json", "weights.hdf5")
    for file in list(folder.iterdir()):
        file.rename(folder / f"small_{file.name}")
    for name in ("options.json", "weights.hdf5"):
        (folder / f"large_{name}").write_bytes((golden / "allennlp/tanh3" / name).read_bytes())
    assert_same(open_checkpoint(folder / "small_weights.hdf5"), open_checkpoint(golden / "allennlp/relu2"))
    assert_same(open_checkpoint(folder / "large_options.json"), open_checkpoint(golden / "allennlp/tanh3"))
    with pytest.raises(CheckpointError, match="several options files"):
        open_checkpoint(folder)


def test_the_cell_of_a_one_layer_dump_needs_no_number(golden: Path, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(golden / "checkpoints/one_layer/weights.hdf5")
    assert checkpoint.config.lstm.num_layers == 1
    hdf5.write(checkpoint, tmp_path / "w.hdf5")
    with h5py.File(tmp_path / "w.hdf5") as file:
        assert "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0" in file


def test_float16_and_float64_weights_are_read_as_float32(copy_of) -> None:
    folder = copy_of("allennlp/relu1")
    before = open_checkpoint(folder)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        table = file["char_embed"][...]
        del file["char_embed"]
        file["char_embed"] = table.astype(np.float64)
    after = open_checkpoint(folder)
    name = "token_encoder.char_cnn.embedding.weight"
    assert after.tensors[name].dtype == torch.float32
    assert torch.equal(after.tensors[name], before.tensors[name])


def test_our_forget_bias_is_written_into_the_bias(make_bilm, tmp_path: Path) -> None:
    """bilm-tf's readers add 1 to the forget gate; a model that adds nothing must come out the same."""
    ours = make_bilm(forget_bias=0.0)
    hdf5.write(ours.to_checkpoint(), tmp_path / "weights.hdf5")
    theirs = type(ours).from_pretrained(tmp_path)
    assert theirs.config.lstm.forget_bias == 1.0
    with torch.no_grad():
        expected, found = (bilm(ours.indexer.batch([["a", "river", "bank"]])).layers for bilm in (ours, theirs))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_a_word_model_needs_its_vocabulary(copy_of) -> None:
    folder = copy_of("bilm/word")
    size = len(open_checkpoint(folder).vocabulary)
    words = (folder / "vocab.txt").read_text(encoding="utf-8")
    (folder / "vocab.txt").write_text(words + "one\nmore\n", encoding="utf-8")
    with pytest.raises(CheckpointError, match=rf"vocabulary of {size} words, but vocab.txt has {size + 2}"):
        open_checkpoint(folder)
    (folder / "vocab.txt").unlink()
    with pytest.raises(CheckpointError, match=f"needs a vocabulary of {size} words, but there is none"):
        open_checkpoint(folder)


def test_a_gzipped_vocabulary_is_read(copy_of, assert_same) -> None:
    import gzip

    folder = copy_of("bilm/word")
    before = open_checkpoint(folder)
    (folder / "vocab.txt.gz").write_bytes(gzip.compress((folder / "vocab.txt").read_bytes()))
    (folder / "vocab.txt").unlink()
    assert_same(before, open_checkpoint(folder))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda o: o["char_cnn"].update(activation="gelu"), "activation is 'gelu'; expected one of 'relu', 'tanh'"),
        (lambda o: o["char_cnn"].pop("activation"), "char_cnn.activation is missing"),
        (lambda o: o.pop("lstm"), "lstm.dim is missing"),
        (lambda o: o["lstm"].pop("dim"), "lstm.dim is missing"),
        (lambda o: o["lstm"].update(dim="big"), "cell_dim is 'big'"),
        (lambda o: o["lstm"].update(dim=-4), "cell_dim is -4"),
        (lambda o: o["lstm"].update(cell_clip="x"), "cell_clip is 'x'"),
        (lambda o: o["char_cnn"].update(n_characters=300), "n_characters is 300"),
        (lambda o: o["char_cnn"].update(filters=[1, 2]), r"filters\[0\] is 1; expected a list"),
        (lambda o: o["char_cnn"].update(embedding=4), "char_cnn.embedding.dim is missing"),
        (lambda o: o.update(bidirectional=False), "one direction"),
        (lambda o: o["lstm"].update(projection_dim=9), "W_proj is .* expected"),
        (lambda o: o["lstm"].update(n_layers=1), "not part of the model: RNN_0/RNN/MultiRNNCell/Cell1"),
        (lambda o: o["lstm"].update(n_layers=3), "missing: RNN_0/RNN/MultiRNNCell/Cell2"),
        (lambda o: o.pop("char_cnn"), "has no dataset 'embedding'.*word-id model"),
    ],
)
def test_options_that_do_not_fit_say_why(change, message: str, copy_of) -> None:
    folder = copy_of("allennlp/relu2", "options.json", "weights.hdf5")
    change_options(folder, change)
    with pytest.raises(CheckpointError, match=message):
        hdf5.read(folder / "options.json", folder / "weights.hdf5")


def test_what_the_layout_cannot_hold_is_refused_with_the_reason(golden: Path, tmp_path: Path) -> None:
    for name, reason in (("word_char", "both word vectors and characters"), ("char_only", "code points")):
        with pytest.raises(CheckpointError, match=f"{reason}.*--to native.*--words"):
            hdf5.write(open_checkpoint(golden / "efml" / name), tmp_path / "w.hdf5")
    assert not list(tmp_path.iterdir())


def test_a_word_model_of_ours_is_written_with_bilms_special_words(golden: Path, tmp_path: Path) -> None:
    """ELMoForManyLangs' word-only models fit: the special words change their names, not their places."""
    checkpoint = open_checkpoint(golden / "efml/word_only")
    hdf5.write(checkpoint, tmp_path / "weights.hdf5")
    words = Vocabulary.load(tmp_path / "vocab.txt")
    assert words.words[:4] == ("<UNK>", "<S>", "</S>", "<pad>")
    assert len(words) == len(checkpoint.vocabulary or ())


def test_the_published_sizes_have_their_published_names() -> None:
    names = {
        "elmo_2x4096_512_weights.hdf5": "elmo_2x4096_512_options.json",
        "weights.hdf5": "options.json",
        "weights_2.hdf5": "options_2.json",
        "model.hdf5": "options.json",
        "a.hdf5": "a_options.json",
    }
    for weights, options in names.items():
        assert hdf5.options_path(Path("folder") / weights) == Path("folder") / options


def test_a_config_without_vocabulary_cannot_be_a_word_model(make_bilm, tmp_path: Path) -> None:
    lstm = make_bilm().config.lstm
    config = BiLMConfig(lstm, word_embedding=WordEmbeddingConfig(5, lstm.projection_dim))
    with pytest.raises(CheckpointError, match="without a vocabulary"):
        hdf5.expressible(Checkpoint(config, {}))


def test_a_projection_that_allennlp_wrote_is_read(copy_of) -> None:
    folder = copy_of("bilm/bare")
    with h5py.File(folder / "weights.hdf5", "a") as file:
        width = open_checkpoint(folder).config.lstm.projection_dim
        file["CNN_proj/W_proj"], file["CNN_proj/b_proj"] = np.full((width, width), 0.25, "f4"), np.ones(width, "f4")
    assert open_checkpoint(folder).tensors["token_encoder.projection.weight"].eq(0.25).all()


def test_nan_in_the_weights_is_refused(copy_of) -> None:
    folder = copy_of("allennlp/relu2")
    with h5py.File(folder / "weights.hdf5", "a") as file:
        file["CNN_proj/b_proj"][0] = np.nan
    with pytest.raises(CheckpointError, match="NaN or infinite values in CNN_proj/b_proj"):
        open_checkpoint(folder)


def test_other_vocabularies_beside_the_right_one_do_not_matter(copy_of, golden: Path, assert_same) -> None:
    folder = copy_of("bilm/word")
    (folder / "._vocab.txt").write_bytes(b"\x00\x05\x16\x07 Mac OS X \xff")
    (folder / "char_vocab.txt").write_text("a\nb\n")
    (folder / "small_vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
    assert_same(open_checkpoint(folder), open_checkpoint(golden / "bilm/word"))
    (folder / "vocab.txt").unlink()
    with pytest.raises(CheckpointError, match=r"small_vocab.txt has 3 words"):
        open_checkpoint(folder)
    (folder / "small_vocab.txt").unlink()
    with pytest.raises(CheckpointError, match=r"char_vocab.txt: The vocabulary lacks"):
        open_checkpoint(folder)
