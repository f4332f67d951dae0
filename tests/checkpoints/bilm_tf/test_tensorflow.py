"""bilm-tf's TensorFlow checkpoints, opened without TensorFlow; the golden ones were written by bilm-tf itself."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from elmo.checkpoints.bilm_tf import tensorflow
from elmo.checkpoints.detect import open_checkpoint
from elmo.errors import CheckpointError


@pytest.mark.parametrize("name", ["char", "word", "one_layer"])
def test_a_checkpoint_holds_what_bilm_dumped_from_it(name: str, copy_of, assert_same) -> None:
    folder = copy_of(f"checkpoints/{name}")
    from_index = open_checkpoint(folder / "model.ckpt-12.index")
    dumped = open_checkpoint(folder / "weights.hdf5")
    assert from_index.config == dumped.config
    for tensor_name, tensor in dumped.tensors.items():
        assert torch.equal(tensor, from_index.tensors[tensor_name]), tensor_name
    assert from_index.softmax is not None and from_index.vocabulary is not None
    assert from_index.softmax.weight.shape == (24, 6)
    assert from_index.softmax.bias.shape == (len(from_index.vocabulary),)
    assert from_index.softmax.bias.any(), "the softmax was trained"
    assert from_index.card["global_step"] == 12


def test_the_softmax_gives_the_losses_that_bilm_measured(golden: Path, copy_of) -> None:
    """Forward loss of the first sentence of the held-out text, from zero state, by the full softmax."""
    folder = copy_of("checkpoints/char")
    from elmo.checkpoints.pretrained import PretrainedBiLM

    checkpoint = open_checkpoint(folder / "model.ckpt-12.index")
    assert checkpoint.softmax is not None and checkpoint.vocabulary is not None
    bilm = PretrainedBiLM.from_checkpoint(checkpoint, source="golden")
    sentence = (golden / "checkpoints/held_out.txt").read_text().split("\n")[0].split()
    with torch.no_grad():
        layers = bilm(bilm.indexer.batch([sentence]), keep_markers=True).layers
    forward = layers[-1, 0, :-1, : bilm.config.lstm.projection_dim]
    logits = forward @ checkpoint.softmax.weight.T + checkpoint.softmax.bias
    targets = torch.tensor(checkpoint.vocabulary.ids([*sentence, "</S>"]))
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    expected = json.loads((folder / "evaluation.json").read_text())["forward_losses"][: len(targets)]
    torch.testing.assert_close(losses, torch.tensor(expected), rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    "given",
    ["", "model.ckpt-12", "model.ckpt-12.index", "model.ckpt-12.data-00000-of-00001", "checkpoint", "options.json"],
)
def test_every_file_of_a_checkpoint_opens_it(given: str, copy_of) -> None:
    folder = copy_of("checkpoints/one_layer")
    (folder / "weights.hdf5").unlink()
    files = tensorflow.find(folder / given)
    assert files is not None and files.prefix == folder / "model.ckpt-12"
    assert open_checkpoint(folder / given).softmax is not None


def test_the_latest_is_the_one_that_training_named_or_the_highest_step(copy_of) -> None:
    folder = copy_of("checkpoints/char")
    for part in ("index", "data-00000-of-00001"):
        (folder / f"model.ckpt-9.{part}").write_bytes((folder / f"model.ckpt-12.{part}").read_bytes())
    assert tensorflow.find(folder).prefix.name == "model.ckpt-12"
    (folder / "checkpoint").write_text('model_checkpoint_path: "/home/somebody/model.ckpt-9"\n')
    assert tensorflow.find(folder).prefix.name == "model.ckpt-9"
    (folder / "checkpoint").unlink()
    assert tensorflow.find(folder).prefix.name == "model.ckpt-12"


def test_a_vocabulary_of_another_size_is_refused_with_both_sizes(copy_of) -> None:
    folder = copy_of("checkpoints/char")
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nword\n")
    with pytest.raises(CheckpointError, match=r"softmax of .* needs a vocabulary of 24 words, but vocab.txt has 4"):
        open_checkpoint(folder / "model.ckpt-12.index")
    (folder / "vocab.txt").unlink()
    assert open_checkpoint(folder / "model.ckpt-12.index").vocabulary is None


def test_damage_anywhere_is_detected(copy_of, assert_same) -> None:
    """Any changed byte is an error, unless it is one that no weight depends on (what the optimiser kept)."""
    folder = copy_of("checkpoints/char")
    whole = open_checkpoint(folder / "model.ckpt-12.index")
    generator = random.Random(0)
    refused = 0
    for name in ("model.ckpt-12.index", "model.ckpt-12.data-00000-of-00001"):
        original = (folder / name).read_bytes()
        for _ in range(60):
            damaged = bytearray(original)
            damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
            (folder / name).write_bytes(damaged)
            try:
                assert_same(whole, open_checkpoint(folder / "model.ckpt-12.index"))
            except CheckpointError:
                refused += 1
        (folder / name).write_bytes(original)
    assert refused >= 70


@pytest.mark.parametrize("kept", [0, 10, 1000, -1])
@pytest.mark.parametrize("name", ["model.ckpt-12.index", "model.ckpt-12.data-00000-of-00001"])
def test_cut_files_are_refused(name: str, kept: int, copy_of) -> None:
    folder = copy_of("checkpoints/char")
    (folder / name).write_bytes((folder / name).read_bytes()[:kept])
    with pytest.raises(CheckpointError, match=r"complete index|too short|cut short|damaged"):
        open_checkpoint(folder / "model.ckpt-12.index")


def test_missing_parts_are_named(copy_of) -> None:
    folder = copy_of("checkpoints/char")
    (folder / "model.ckpt-12.data-00000-of-00001").unlink()
    with pytest.raises(CheckpointError, match="data-00000-of-00001 is missing"):
        open_checkpoint(folder / "model.ckpt-12.index")
    (folder / "options.json").unlink()
    with pytest.raises(CheckpointError, match=r"Expected an options.json of bilm-tf beside it"):
        open_checkpoint(folder / "model.ckpt-12.index")


def test_version_1_is_recognized(copy_of) -> None:
    folder = copy_of("checkpoints/char", "options.json", "model.ckpt-12.index")
    (folder / "model.ckpt-12.index").rename(folder / "model.ckpt-12")
    for path in (folder, folder / "model.ckpt-12"):
        with pytest.raises(CheckpointError, match="checkpoint of version 1"):
            open_checkpoint(path)


def test_tensorflow_is_not_imported(golden: Path) -> None:
    code = (
        "import sys; from elmo.checkpoints.detect import open_checkpoint; "
        f"open_checkpoint({str(golden / 'checkpoints/char/model.ckpt-12.index')!r}); "
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ["softmax/W", "softmax/b"])
def test_nan_in_the_softmax_is_refused(name: str, copy_of) -> None:
    folder = copy_of("checkpoints/char")
    checkpoint = open_checkpoint(folder / "model.ckpt-12.index")
    assert checkpoint.softmax is not None
    stored = {"softmax/W": checkpoint.softmax.weight.numpy(), "softmax/b": checkpoint.softmax.bias.numpy()}
    stored[name].flat[3] = float("nan")
    with pytest.raises(CheckpointError, match=name):
        tensorflow._softmax(stored, checkpoint.config, folder / "model.ckpt-12")
