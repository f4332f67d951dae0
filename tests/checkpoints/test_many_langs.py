"""ELMoForManyLangs' folders. The vectors themselves are tested in tests/bilm/test_golden.py."""

import json
import os
import pickle
from pathlib import Path

import pytest
import torch

from elmo.checkpoints import many_langs
from elmo.checkpoints.detect import open_checkpoint
from elmo.errors import CheckpointError


def change_json(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_contents_of_a_folder(golden: Path) -> None:
    both, characters, words = (
        open_checkpoint(golden / "efml" / name) for name in ("word_char", "char_only", "word_only")
    )
    assert both.config.word_embedding and both.config.characters
    assert characters.config.word_embedding is None and characters.vocabulary is None
    assert words.config.characters is None and words.config.char_cnn is None
    for checkpoint in (both, characters, words):
        lstm = checkpoint.config.lstm
        assert (lstm.forget_bias, lstm.skip_connections) == (0.0, True)
        assert (checkpoint.config.begin_sentence, checkpoint.config.end_sentence) == ("<bos>", "<eos>")


def test_boundaries_are_swapped(golden: Path) -> None:
    lines = (golden / "efml/word_char/char.dic").read_text(encoding="utf-8").split("\n")
    ids = {line.split("\t")[0]: int(line.split("\t")[1]) for line in lines if "\t" in line}
    scheme = open_checkpoint(golden / "efml/word_char").config.characters
    assert scheme is not None
    spelt = scheme.spell("a")
    assert spelt == [ids["<eow>"] + 1, ids["a"] + 1, ids["<bow>"] + 1]
    assert scheme.spell("<bos>") == [ids["<eow>"] + 1, ids["<bos>"] + 1, ids["<bow>"] + 1]
    assert scheme.spell("\u3000")[1] != scheme.ids.unknown, "the line that lost its character is the ideographic space"


def test_words_are_looked_up_after_they_are_cut(copy_of) -> None:
    folder = copy_of("efml/word_char")
    lexicon = (folder / "word.dic").read_text(encoding="utf-8")
    name, index = lexicon.split("\n")[5].split("\t")
    long_word = "x" * 48
    (folder / "word.dic").write_text(lexicon.replace(f"{name}\t{index}\n", f"{long_word}\t{index}\n"), encoding="utf-8")
    from elmo.checkpoints.pretrained import load

    ids = load(folder).indexer.word_table([long_word, long_word + "yz", "xx"]).word_ids
    assert ids is not None
    assert ids[0] == ids[1] == int(index) + 1 != ids[2]


@pytest.mark.parametrize("given", ["", "config.json", "encoder.pkl", "token_embedder.pkl"])
def test_every_file_of_a_checkpoint_opens_it(given: str, golden: Path, assert_same) -> None:
    folder = golden / "efml/word_char"
    assert_same(open_checkpoint(folder / given), many_langs.read(folder))


def test_the_architecture_is_found_by_its_name(copy_of, assert_same) -> None:
    folder = copy_of("efml/word_char")
    before = many_langs.read(folder)
    for path in ("C:\\Users\\somebody\\cnn_tiny.json", "cnn_tiny.json", "../configs/cnn_tiny.json"):
        change_json(folder / "config.json", config_path=path)
        assert_same(before, many_langs.read(folder))


def test_without_its_architecture_a_model_has_the_published_one(copy_of) -> None:
    folder = copy_of("efml/word_char")
    (folder / "cnn_tiny.json").unlink()
    # The tiny weights are not of that shape, and the error shows which one was expected.
    with pytest.raises(CheckpointError, match=r"expected \(2048, 100\)|expected \(\d+, 100\)"):
        many_langs.read(folder)
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"expected \(\d+, 100\)"):
        many_langs.read(folder)


def test_rows_that_no_word_reaches_are_left_out(copy_of, assert_same) -> None:
    folder = copy_of("efml/word_char")
    before = many_langs.read(folder)
    state = torch.load(folder / "token_embedder.pkl", map_location="cpu", weights_only=True)
    for name in ("word_emb_layer.embedding.weight", "char_emb_layer.embedding.weight"):
        state[name] = torch.cat([state[name], torch.ones(3, state[name].shape[1])])
    torch.save(state, folder / "token_embedder.pkl")
    assert_same(before, many_langs.read(folder))


def test_code_in_a_pickle_does_not_run(copy_of, tmp_path: Path) -> None:
    folder = copy_of("efml/word_char")

    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(tmp_path / "pwned"),)

    for write in (
        lambda: (folder / "encoder.pkl").write_bytes(pickle.dumps({"weight": Bomb()})),
        lambda: torch.save({"weight": Bomb()}, folder / "encoder.pkl"),
    ):
        write()
        with pytest.raises(CheckpointError, match=r"holds Python code besides weights.*not run"):
            many_langs.read(folder)
    assert not (tmp_path / "pwned").exists()


def spoil_encoder(folder: Path, change) -> None:
    state = torch.load(folder / "encoder.pkl", map_location="cpu", weights_only=True)
    change(state)
    torch.save(state, folder / "encoder.pkl")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "encoder.pkl").write_bytes(b""), "complete torch state dict"),
        (lambda f: (f / "encoder.pkl").write_bytes(b"garbage" * 100), "is damaged or holds Python code"),
        (
            lambda f: (f / "encoder.pkl").write_bytes((f / "encoder.pkl").read_bytes()[:-500]),
            "complete torch state dict",
        ),
        (lambda f: torch.save([1, 2], f / "encoder.pkl"), "holds no state dict"),
        (
            lambda f: spoil_encoder(f, lambda s: s.pop("backward_layer_1.state_projection.weight")),
            "missing: encoder.backward_layer_1.state_projection.weight",
        ),
        (
            lambda f: spoil_encoder(f, lambda s: s.update({"forward_layer_0.state_linearity.bias": torch.zeros(4)})),
            r"forward_layer_0.state_linearity.bias is \(4,\), expected \(40,\)",
        ),
        (lambda f: spoil_encoder(f, lambda s: s.update(stray=torch.zeros(4))), "not part of the model: encoder.stray"),
        (lambda f: (f / "char.dic").unlink(), "Cannot read .*char.dic"),
        (lambda f: (f / "char.dic").write_bytes(b"\xff\xfe"), "char.dic is not UTF-8"),
        (lambda f: (f / "char.dic").write_text("a\tb\n"), r"char.dic, line 1, is 'a\\tb'"),
        (lambda f: (f / "char.dic").write_text("a\t0\n"), "char.dic lacks <pad>, <eow>"),
        (lambda f: (f / "word.dic").write_text("a\t0\n"), "word.dic lacks <bos>"),
        (lambda f: (f / "word.dic").write_text("<bos>\t0\n<eos>\t0\n<oov>\t1\n"), "a different id for every word"),
        (lambda f: (f / "cnn_tiny.json").write_text("{"), "cnn_tiny.json is not JSON"),
        (lambda f: (f / "cnn_tiny.json").write_text("{}"), "encoder is missing"),
        (
            lambda f: change_json(f / "cnn_tiny.json", encoder={"name": "lstm"}),
            "encoder is of the kind 'lstm'",
        ),
    ],
)
def test_damaged_folders_say_what_is_wrong(spoil, message: str, copy_of) -> None:
    folder = copy_of("efml/word_char")
    spoil(folder)
    with pytest.raises(CheckpointError, match=message):
        many_langs.read(folder)
