"""A biLM that is fine-tuned on the task's text first."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from elmo.checkpoints.checkpoint import SoftmaxWeights
from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.tasks import adaptation
from elmo.tasks.adaptation import adapt
from elmo.text.vocabulary import Vocabulary

MakeBilm = Callable[..., PretrainedBiLM]

SENTENCES = [["the", one, "saw", "the", other, "."] for one in ("dog", "cat", "cow") for other in ("bird", "fox")]


def test_adaptation_lowers_the_perplexity(make_bilm: MakeBilm, tmp_path: Path) -> None:
    bilm = make_bilm()
    before = {name: tensor.clone() for name, tensor in bilm.state_dict().items()}
    made = adapt(bilm, [[*sentence, str(n)] for sentence in SENTENCES for n in range(40)], tmp_path, epochs=60)
    assert made.facts.sentences == 240
    assert made.facts.perplexity_before is not None and made.facts.perplexity_after is not None
    assert made.facts.perplexity_after < 0.9 * made.facts.perplexity_before
    assert all(torch.equal(before[name], tensor) for name, tensor in bilm.state_dict().items()), (
        "the caller's model is unchanged"
    )
    assert any(not torch.equal(before[name], tensor) for name, tensor in made.bilm.state_dict().items())


def test_the_tokens_of_the_task_are_not_tokenized_again(make_bilm: MakeBilm, tmp_path: Path) -> None:
    words = adapt(make_bilm(), [["#one", "a/b", "don't", str(n)] for n in range(9)], tmp_path, epochs=1).bilm.vocabulary
    assert words is not None and set(words) == {"<S>", "</S>", "<UNK>", "#one", "a/b", "don't"}


def test_a_bilm_is_adapted_once_for_a_text(make_bilm: MakeBilm, tmp_path: Path) -> None:
    shares: list[float] = []
    first = adapt(make_bilm(), SENTENCES * 5, tmp_path, epochs=2, progress=shares.append)
    assert shares and shares[-1] >= 1 and first.facts.sentences == len(SENTENCES)
    reports = len(shares)
    again = adapt(make_bilm(), SENTENCES, tmp_path, epochs=2, progress=shares.append)
    assert again.facts == first.facts and len(shares) == reports, "nothing was trained the second time"
    other = adapt(make_bilm(), SENTENCES, tmp_path, epochs=1)
    folders = sorted(tmp_path.iterdir())
    assert len(folders) == 2, "another number of epochs, another biLM; nothing else is left behind"
    assert other.facts.epochs == 1
    for folder in folders:
        assert json.loads((folder / "adapted.json").read_text())["sentences"] == len(SENTENCES)
        assert not (folder / "run").exists()


def test_bilms_with_different_softmaxes_do_not_share_an_adaptation(make_bilm: MakeBilm, tmp_path: Path) -> None:
    first, second = make_bilm(), make_bilm()
    first.vocabulary = second.vocabulary = Vocabulary.build(word for sentence in SENTENCES for word in sentence)
    num_words = len(first.vocabulary)
    first.softmax = SoftmaxWeights(torch.zeros(num_words, 6), torch.zeros(num_words))
    second.softmax = SoftmaxWeights(torch.ones(num_words, 6), torch.zeros(num_words))
    assert first.digest() == second.digest()
    adapted = [adapt(bilm, SENTENCES, tmp_path, epochs=1).bilm for bilm in (first, second)]
    assert adapted[0].digest() != adapted[1].digest()


def test_an_interrupted_adaptation_is_resumed(make_bilm: MakeBilm, tmp_path: Path) -> None:
    whole = adapt(make_bilm(), SENTENCES, tmp_path / "whole", epochs=2)

    def stop(share: float) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        adapt(make_bilm(), SENTENCES, tmp_path / "broken", epochs=2, progress=stop)
    resumed = adapt(make_bilm(), SENTENCES, tmp_path / "broken", epochs=2)
    for name, tensor in whole.bilm.state_dict().items():
        assert torch.equal(tensor, resumed.bilm.state_dict()[name]), name


def test_the_first_perplexity_survives_an_interruption(make_bilm: MakeBilm, tmp_path: Path) -> None:
    text = [[*sentence, str(n)] for sentence in SENTENCES for n in range(40)]
    whole = adapt(make_bilm(), text, tmp_path / "whole", epochs=40).facts

    def stop(share: float) -> None:
        if share > 0.5:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        adapt(make_bilm(), text, tmp_path / "broken", epochs=40, progress=stop)
    resumed = adapt(make_bilm(), text, tmp_path / "broken", epochs=40).facts
    assert resumed.perplexity_before == whole.perplexity_before
    assert resumed.perplexity_after == whole.perplexity_after


def test_killed_while_the_run_is_deleted(make_bilm: MakeBilm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = adapt(make_bilm(), SENTENCES, tmp_path / "whole", epochs=2)
    delete = adaptation.shutil.rmtree

    def half(path: Path, **options: bool) -> None:
        if Path(path).name == "run":
            delete(Path(path) / "checkpoints")
            raise InterruptedError
        delete(path, **options)

    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        patch.setattr(adaptation.shutil, "rmtree", half)
        adapt(make_bilm(), SENTENCES, tmp_path / "killed", epochs=2)
    again = adapt(make_bilm(), SENTENCES, tmp_path / "killed", epochs=2)
    for name, tensor in whole.bilm.state_dict().items():
        assert torch.equal(tensor, again.bilm.state_dict()[name]), name
    (folder,) = (tmp_path / "killed").iterdir()
    assert not (folder / "run").exists(), "the next call deletes the rest"
