"""A small language to train on, and runs of a few updates."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from elmo.pretrain import start
from elmo.pretrain.build_corpus import open_or_build
from elmo.pretrain.corpus import Corpus
from elmo.pretrain.loop import train
from elmo.pretrain.settings import DataSettings, PretrainSettings, Source
from elmo.settings import read_settings

TINY = [
    "model.lstm.projection_dim=8",
    "model.lstm.cell_dim=16",
    "model.char_cnn.character_dim=4",
    "model.char_cnn.filters=[[1, 4], [2, 4], [3, 8]]",
    "softmax.negatives=20",
    "data.batch_size=4",
    "data.unroll_steps=6",
    "data.batch_tokens=48",
    "data.max_sentence_tokens=12",
    "optimizer.learning_rate=0.01",
    "optimizer.warmup_updates=3",
    "training.precision=float32",
    "training.updates=12",
    "training.log_every=3",
    "training.evaluate_every=6",
    "training.evaluate_tokens=200",
    "training.checkpoint_every=4",
]


def sentences(count: int, seed: int) -> list[str]:
    """Sentences of a small grammar: enough structure for a biLM to learn, some rare words."""
    generator = random.Random(seed)
    nouns = ["cat", "dog", "bank", "river", "Café", "naïveté", "straße", "猫"]
    verbs = ["sees", "likes", "follows", "finds"]
    found = []
    for _ in range(count):
        words = ["the", generator.choice(nouns), generator.choice(verbs), "the", generator.choice(nouns)]
        while generator.random() < 0.4:
            words += ["and", generator.choice(nouns)]
        if generator.random() < 0.2:
            words.append(f"w{generator.randrange(200)}")
        found.append(" ".join([*words, "."]))
    return found


def run(project: start.Project) -> start.Project:
    """Train a project to its end."""
    train(project.run, project.checkpoints, observe=lambda report: None, export=project.export)
    return project


@pytest.fixture
def train_file(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_text("\n".join(sentences(300, 1)) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def heldout_file(tmp_path: Path) -> Path:
    path = tmp_path / "heldout.txt"
    path.write_text("\n".join([*sentences(60, 2), "an unseen word stands here"]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def corpus(tmp_path: Path, train_file: Path, heldout_file: Path) -> Corpus:
    train, heldout = Source("train", (str(train_file),)), Source("heldout", (str(heldout_file),))
    return open_or_build(tmp_path / "corpus", DataSettings(train=(train,), heldout=(heldout,)))


@pytest.fixture
def settings(train_file: Path, heldout_file: Path) -> Callable[..., PretrainSettings]:
    """Settings of a tiny run; arguments are overrides."""

    def make(*overrides: str) -> PretrainSettings:
        files = [
            f'data.train=[{{name = "train", files = ["{train_file}"]}}]',
            f'data.heldout=[{{name = "heldout", files = ["{heldout_file}"]}}]',
        ]
        return read_settings(PretrainSettings, None, overrides=[*TINY, *files, *overrides])

    return make


@pytest.fixture
def project(tmp_path: Path, settings: Callable[..., PretrainSettings]) -> Callable[..., start.Project]:
    """A tiny run that is ready to train."""

    def make(name: str, *overrides: str) -> start.Project:
        return start.begin(settings(*overrides), tmp_path / name)

    return make
