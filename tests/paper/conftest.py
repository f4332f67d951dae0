"""A task that trains in a second, and a folder of data in the layout of the real one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from known_encoder import encoder
from sense_files import senses_folder, wordnet_folder

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.paper.data import DataFolder
from elmo.paper.plan import Plan
from elmo.paper.study import Study
from elmo.tasks.job import DataFiles
from elmo.tasks.runs import Begin, RunStore, TaskSetup, Trainer
from elmo.tasks.static_vectors import VectorSettings

__all__ = ["encoder", "senses_folder", "wordnet_folder"]

# Named entities in sentences of a few words: learned in a second.
_NAMES = [
    "Ann\tB-PER\nleft\tO\nRome\tB-LOC\n",
    "Bob\tB-PER\nsaw\tO\nNew\tB-LOC\nYork\tI-LOC\n",
    "Paris\tB-LOC\nliked\tO\nAnn\tB-PER\n",
    "Rome\tB-LOC\nsaw\tO\nBob\tB-PER\n",
]
_SMALL = (
    "text.words.dim=8", "text.words.min_count=1", "text.characters.num_filters=4", "model.hidden_dim=8",
    "model.dropout=0.1", "elmo.dropout=0.1", "training.learning_rate=0.02", "training.epochs=2",
    "training.batch_size=4",
)  # fmt: skip


@pytest.fixture
def make_setup(tmp_path: Path) -> Callable[..., TaskSetup]:
    """A small task whose training, development and test sets are one."""

    def make(*, seeds: int = 1, num_sentences: int = 20) -> TaskSetup:
        path = tmp_path / "names.conll"
        text = "\n".join(_NAMES[number % len(_NAMES)] for number in range(num_sentences))
        path.write_text(text, encoding="utf-8")
        return TaskSetup("named_entities", DataFiles(*[str(path)] * 3), overrides=_SMALL, seeds=seeds)

    return make


_PAIRS = [
    ("a man runs", "a man moves", "entailment"),
    ("a man runs", "a man sleeps", "contradiction"),
    ("a dog runs", "the dog is big", "neutral"),
    ("a dog sleeps", "a dog rests", "entailment"),
]
_ENTITIES = ["Ann\tB-PER\nleft\tO\nRome\tB-LOC\n", "Bob\tB-PER\nsaw\tO\nNew\tB-LOC\nYork\tI-LOC\n"]
_WORDS = "1\tThe\t_\tDET\tDT\t_\t_\t_\t_\t_\n2\t{}\t_\tNOUN\tNN\t_\t_\t_\t_\t_\n3\t{}\t_\tVERB\tVBZ\t_\t_\t_\t_\t_\n\n"
_RIVER, _MONEY = "bank%1:17:00::", "bank%1:14:01::"
_SENSES = [("muddy river {} here", _RIVER), ("wide river {} there", _RIVER), ("the money {} paid", _MONEY)]

SMALL = (
    "text.words.dim=8", "text.words.min_count=1", "model.hidden_dim=8", "elmo.dropout=0.1",
    "training.epochs=2", "training.batch_size=4",
)  # fmt: skip


def write_data(folder: Path) -> Path:
    """Everything but four of the tasks."""
    files = {"ud/EWT/x-{}.conllu": "".join(_WORDS.format(*pair) for pair in [("dog", "barks"), ("cat", "sleeps")] * 4)}
    parts = ("TRAIN", "TRIAL", "TEST")
    pairs = "".join(f"{a}\t{b}\t{label}\t{part}\n" for part in parts for a, b, label in _PAIRS * 4)
    files["nli-sick/SICK.txt"] = f"sentence_A\tsentence_B\tentailment_label\tSemEval_set\n{pairs}"
    files["ner/uner-ewt/en_ewt-ud-{}.iob2"] = "\n".join(_ENTITIES * 8)
    for name, text in files.items():
        for part in ("train", "dev", "test"):
            path = folder / name.format(part)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for place, name in (("wsd", "semcor"), ("wsd/Evaluation_Datasets/senseval2", "senseval2")):
        (folder / place).mkdir(parents=True)
        sentences, keys = [], []
        for number, (text, key) in enumerate(_SENSES):
            words = [f"<wf>{word}</wf>" for word in text.split()]
            words[words.index("<wf>{}</wf>")] = f'<instance id="t{number}" lemma="bank" pos="NOUN">bank</instance>'
            sentences.append(f'<sentence id="s{number}">{"".join(words)}</sentence>')
            keys.append(f"t{number} {key}")
        (folder / place / f"{name}.data.xml").write_text(f"<corpus><text>{''.join(sentences)}</text></corpus>")
        (folder / place / f"{name}.gold.key.txt").write_text("\n".join(keys) + "\n")
    dictionary = folder / "wordnet-3.0" / "dict"
    dictionary.mkdir(parents=True)
    (dictionary / "index.sense").write_text(f"{_RIVER} 00000001 1 5\n{_MONEY} 00000002 2 4\n")
    (folder / "lm" / "small").mkdir(parents=True)
    (folder / "lm" / "small" / "train.txt").write_text("a man runs\nAnn left Rome\nthe river bank\n" * 5)
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data(tmp_path / "data")


@pytest.fixture
def small_plan() -> Plan:
    return Plan(
        seeds=1,
        tasks=("named_entities", "sentiment"),
        ablated=("entailment", "semantic_roles"),
        curves=("entailment",),
        shares=(0.25, 1.0),
        vectors=VectorSettings(dim=8, min_count=1, epochs=1, threads=1),
        probe_epochs=2,
        neighbour_word="bank",
        overrides=SMALL,
    )


@pytest.fixture
def make_study(
    data: Path, small_plan: Plan, tmp_path: Path, make_bilm: Callable[..., PretrainedBiLM]
) -> Callable[..., Study]:
    def make(
        *,
        plan: Plan = small_plan,
        say: Callable[[str], None] = lambda line: None,
        begin: Begin = lambda run: lambda event: None,
    ) -> Study:
        train = Trainer(RunStore(tmp_path / "report" / "runs"), make_bilm(), "tiny", begin)
        return Study(train, DataFolder(data), plan, say=say)

    return make
