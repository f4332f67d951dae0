"""Against elmoformanylangs' own numbers (tests/golden)."""

import json
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo.errors import ConfigError, InputError
from elmo.integrations.many_langs import Embedder, logger
from elmo.integrations.many_langs.__main__ import main

GOLDEN = Path(__file__).parent.parent / "golden"
TEXT = json.loads((GOLDEN / "sentences.json").read_text(encoding="utf-8"))
FOLDERS = ["word_char", "char_only", "word_only"]


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", FOLDERS)
def test_every_output_layer(name: str) -> None:
    expected = np.load(GOLDEN / "efml" / name / "vectors.npz")
    embedder = Embedder(GOLDEN / "efml" / name)
    for layer, shown in ((0, "layer_0"), (1, "layer_1"), (2, "layer_2"), (-1, "average"), (-2, "all")):
        for row, vectors in enumerate(embedder.sents2elmo(TEXT["batches"][1], output_layer=layer)):
            close(vectors, expected[f"output_{shown}_row_{row}"])
    for k, batch in enumerate(TEXT["batches"]):
        for row, vectors in enumerate(embedder.sents2elmo(batch, -2)):
            close(vectors, expected[f"reset_{k}_row_{row}"])


@pytest.mark.parametrize("name", FOLDERS)
def test_carried_state_by_rank(name: str) -> None:
    expected = np.load(GOLDEN / "efml" / name / "vectors.npz")
    for prefix, batches in (("carry", TEXT["batches"]), ("empty_carry", TEXT["with_empty_sentence"])):
        embedder = Embedder(GOLDEN / "efml" / name, state="carry")
        for k, batch in enumerate(batches):
            for row, vectors in enumerate(embedder.sents2elmo(batch, output_layer=-2)):
                close(vectors, expected[f"{prefix}_{k}_row_{row}"])


def test_invalid_input_is_refused() -> None:
    embedder = Embedder(GOLDEN / "efml" / "char_only")
    assert embedder.sents2elmo([]) == []
    with pytest.raises(ConfigError, match="output_layer is 3"):
        embedder.sents2elmo([["a"]], output_layer=3)
    with pytest.raises(InputError, match="lists of tokens"):
        embedder.sents2elmo(["a sentence"])


def test_attributes_that_old_programs_use() -> None:
    embedder = Embedder(GOLDEN / "efml" / "char_only")
    embedder.model.eval()
    assert embedder.config["lstm"]["num_layers"] == 2 and not embedder.use_cuda
    assert logger.name == "elmoformanylangs"
    rows = embedder.sents2elmo([np.array(["two", "words"])])
    np.testing.assert_array_equal(rows[0], embedder.sents2elmo([["two", "words"]])[0])


CONLLU = "# text = New York 3.5\n1\tNew York\t_\n2-3\tab\n2\ta\t_\n3\tb\t_\n\n1\tx/y.\t_\n\n1\tx/y.\t_\n\n"


@pytest.mark.parametrize(
    ("input_format", "text", "sentences"),
    [
        ("plain", "New York\tis\n\nx/y.\nx/y.\n", [["New York", "is"], ["x/y."]]),
        ("conll", CONLLU, [["New York", "a", "b"], ["x/y."]]),
        ("conll_char", CONLLU, [[*"New York", "a", "b"], [*"x/y."]]),
        ("conll_char_vi", CONLLU, [["New", "York", "a", "b"], ["x/y."]]),
    ],
)
def test_the_command(tmp_path: Path, input_format: str, text: str, sentences: list[list[str]]) -> None:
    (tmp_path / "in.txt").write_text(text, encoding="utf-8")
    folder, prefix = GOLDEN / "efml" / "word_char", tmp_path / "out"
    main([
        "test", "--input", str(tmp_path / "in.txt"), "--input_format", input_format, "--model", str(folder),
        "--output_prefix", str(prefix), "--output_format", "hdf5,txt", "--output_layer", "-1,0",
    ])  # fmt: skip
    assert len(list(tmp_path.iterdir())) == 5
    for layer in (-1, 0):
        expected = Embedder(folder).sents2elmo(sentences, layer)
        with h5py.File(f"{prefix}.ly{layer}.hdf5") as file:
            keys = ["\t".join(tokens).replace(".", "$period$").replace("/", "$backslash$") for tokens in sentences]
            assert set(file) == set(keys)
            for key, vectors in zip(keys, expected, strict=True):
                close(file[key][()], vectors)
        blocks = Path(f"{prefix}.ly{layer}.txt").read_text(encoding="utf-8").split("\n\n")[:-1]
        for block, tokens, vectors in zip(blocks, sentences, expected, strict=True):
            rows = [line.split("\t") for line in block.split("\n")]
            assert [row[0] for row in rows] == tokens
            close(np.array([[float(value) for value in row[1:]] for row in rows]), vectors)


def test_a_layer_and_a_format_may_be_named_twice(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\tb\n", encoding="utf-8")
    main([
        "test", "--input", str(tmp_path / "in.txt"), "--model", str(GOLDEN / "efml" / "char_only"), "--output_prefix",
        str(tmp_path / "out"), "--output_format", "hdf5,hdf5", "--output_layer", "0,0",
    ])  # fmt: skip
    with h5py.File(tmp_path / "out.ly0.hdf5") as file:
        assert set(file) == {"a\tb"}


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.txt").write_text("a\tb\n", encoding="utf-8")
    words = ["test", "--input", str(tmp_path / "in.txt"), "--model", str(GOLDEN / "efml" / "char_only")]
    words += ["--output_prefix", str(tmp_path / "out")]
    for wrong in (["--output_layer", "3"], ["--output_format", "plain"], ["--input", "nowhere.txt"], ["--gpu", "99"]):
        with pytest.raises(SystemExit) as stopped:
            main([*words, *wrong])
        assert stopped.value.code == 2 and wrong[1] in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_a_full_disk_is_one_message(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    (tmp_path / "in.txt").write_text("".join(f"sentence\tnumber\t{row}\n" for row in range(60)))
    code = (
        "import resource, sys; from elmo.integrations.many_langs.__main__ import main\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (8000, {resource.RLIM_INFINITY}))\n"
        "main(['test', '--input', 'in.txt', '--model', sys.argv[1], '--output_prefix', 'out', '--output_layer', '0,1'])"
    )
    model = str(GOLDEN / "efml" / "char_only")
    done = subprocess.run([sys.executable, "-c", code, model], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr[-2000:]
    assert "Cannot write out.ly" in done.stderr and "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
