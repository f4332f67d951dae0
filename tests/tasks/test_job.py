"""From files to results, and a saved model in a new process."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.errors import CheckpointError, InputError
from elmo.tasks.job import DataFiles, TaskJob, prepare, run
from elmo.tasks.layers.elmo_input import ElmoSettings, TextSettings
from elmo.tasks.layers.tag_schemes import tags_of_spans
from elmo.tasks.named_entities.data import TaggedSentence
from elmo.tasks.named_entities.model import EntityModelSettings
from elmo.tasks.named_entities.task import NamedEntities, NamedEntitiesSettings
from elmo.tasks.trained import TrainedTask
from elmo.tasks.training_settings import TrainingSettings
from tasks.named_entities.test_model import make_examples

MakeBilm = Callable[..., PretrainedBiLM]


def write(path: Path, sentences: list[TaggedSentence]) -> str:
    blocks = []
    for sentence in sentences:
        tags = tags_of_spans(sentence.entities, len(sentence.tokens), "iob2")
        blocks.append("\n".join(f"{token}\t{tag}" for token, tag in zip(sentence.tokens, tags, strict=True)))
    path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def job(tmp_path: Path, tiny_text: TextSettings) -> TaskJob:
    settings = NamedEntitiesSettings(
        text=tiny_text,
        elmo=ElmoSettings(place="both", dropout=0.1),
        model=EntityModelSettings(hidden_dim=8, num_layers=1, dropout=0.1),
        training=TrainingSettings(batch_size=5, epochs=2, learning_rate=2e-2),
    )
    train = write(tmp_path / "train.conll", make_examples(20))
    dev = write(tmp_path / "dev.conll", make_examples(8))
    files = DataFiles(train, dev, dev)
    return TaskJob(NamedEntities(), settings, files, tmp_path / "run", seeds=(0, 1), elmo_name="tiny")


def test_a_run_gives_results_for_every_seed(job: TaskJob, make_bilm: MakeBilm) -> None:
    events: list[Any] = []
    results = run(job, bilm=make_bilm(), report=events.append)
    assert json.loads((job.folder / "results.json").read_text()) == json.loads(json.dumps(results))
    assert [seed["seed"] for seed in results["seeds"]] == [0, 1]
    scores = [seed["test"]["f1"] for seed in results["seeds"]]
    assert results["test"]["mean"] == pytest.approx(sum(scores) / 2, abs=1e-3)
    assert len(results["seeds"][0]["mix_weights"]) == 2, "two places"
    assert results["elmo"] == "tiny" and results["place"] == "both"
    assert results["cache_bytes"] > 0
    assert events[0] == f"the biLM's layers are cached while training: {results['cache_bytes'] / 1e6:,.0f} MB"
    assert not list((job.folder / "cache").iterdir()), "the layers' file is gone unless a folder was named for it"


def test_a_saved_model_predicts_the_same_in_a_new_process(job: TaskJob, make_bilm: MakeBilm, tmp_path: Path) -> None:
    run(replace(job, seeds=(0,)), bilm=make_bilm())
    code = (
        "import sys, json; from elmo.tasks.trained import TrainedTask; t = TrainedTask.load(sys.argv[1]);"
        "e = t.task.read(sys.argv[2], t.settings, 'evaluate'); p = t.predict(e);"
        "print(json.dumps([t.task.record(a, b) for a, b in zip(e, p)]))"
    )
    command = [sys.executable, "-c", code, str(job.folder), job.files.dev]
    elsewhere = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    here = TrainedTask.load(job.folder)
    examples = here.task.read(job.files.dev, here.settings, "evaluate")
    records = [
        here.task.record(example, prediction)
        for example, prediction in zip(examples, here.predict(examples), strict=True)
    ]
    assert json.loads(elsewhere) == records
    assert here.evaluate(examples) == json.loads((job.folder / "results.json").read_text())["seeds"][0]["test"]


def test_the_cache_changes_no_result(job: TaskJob, make_bilm: MakeBilm, tmp_path: Path) -> None:
    cached = run(replace(job, cache_folder=tmp_path / "kept"), bilm=make_bilm())
    live = run(replace(job, cache=False, folder=tmp_path / "live"), bilm=make_bilm())
    assert cached["seeds"][0]["test"] == pytest.approx(live["seeds"][0]["test"])
    assert live["cache_bytes"] == 0
    assert len(list((tmp_path / "kept").iterdir())) == 2, "cached for other runs"


def test_a_trained_bilm_is_saved_with_each_seed(job: TaskJob, make_bilm: MakeBilm) -> None:
    settings = replace(job.settings, elmo=replace(job.settings.elmo, learning_rate=1e-3))
    bilm = make_bilm()
    before = {name: tensor.clone() for name, tensor in bilm.state_dict().items()}
    results = run(replace(job, settings=settings, seeds=(0, 1)), bilm=bilm)
    assert all((before[name] == tensor).all() for name, tensor in bilm.state_dict().items()), (
        "the caller's model is unchanged"
    )
    trained = TrainedTask.load(job.folder / "seed-1")
    assert trained.bilm is not None
    assert any((before[name] != tensor).any() for name, tensor in trained.bilm.state_dict().items())
    examples = trained.task.read(job.files.dev, trained.settings, "evaluate")
    assert trained.evaluate(examples) == results["seeds"][1]["test"]


def test_an_adapted_bilm_is_saved(job: TaskJob, make_bilm: MakeBilm) -> None:
    settings = replace(job.settings, elmo=replace(job.settings.elmo, finetune_epochs=1.0))
    bilm = make_bilm()
    results = run(replace(job, settings=settings, seeds=(0,)), bilm=bilm)
    assert results["adaptation"]["epochs"] == 1 and results["adaptation"]["sentences"] > 0
    assert not list((job.folder / "cache").iterdir())
    trained = TrainedTask.load(job.folder)
    assert trained.bilm is not None
    read = trained.bilm.state_dict()
    assert any((read[name] != tensor).any() for name, tensor in bilm.state_dict().items())
    examples = trained.task.read(job.files.dev, trained.settings, "evaluate")
    assert trained.evaluate(examples) == results["seeds"][0]["test"]


def test_the_baseline_needs_no_bilm(job: TaskJob) -> None:
    results = run(replace(job, seeds=(0,)))
    assert results["elmo"] is None and results["seeds"][0]["mix_weights"] is None
    assert TrainedTask.load(job.folder).bilm is None


def test_a_folder_of_other_data_or_settings_is_not_resumed(job: TaskJob) -> None:
    first = run(replace(job, seeds=(0,)))
    longer = replace(job.settings, training=replace(job.settings.training, epochs=3))
    assert len(run(replace(job, settings=longer, seeds=(0,)))["seeds"][0]["history"]) == 3, "more epochs may follow"
    slower = replace(job.settings, training=replace(job.settings.training, learning_rate=1e-8))
    other_data = write(Path(job.files.train).with_name("other.conll"), make_examples(24))
    for changed in (replace(job, settings=slower), replace(job, files=replace(job.files, train=other_data))):
        with pytest.raises(CheckpointError, match="other data or other settings"):
            run(changed)
    assert first["seeds"][0]["epochs"] == 2
    with pytest.raises(CheckpointError, match=r"after 3 epochs; expected at most training\.epochs=2"):
        run(replace(job, seeds=(0,)))


def test_a_rate_that_falls_over_all_epochs_is_not_resumed_with_more_of_them(job: TaskJob) -> None:
    linear = replace(job.settings, training=replace(job.settings.training, schedule="linear"))
    longer = replace(linear, training=replace(linear.training, epochs=3))
    run(replace(job, settings=linear, seeds=(0,)))
    with pytest.raises(CheckpointError, match="other data or other settings"):
        run(replace(job, settings=longer, seeds=(0,)))


def test_both_arms_use_the_static_vectors(job: TaskJob, tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("ann 1 0 0\nrome 0 1 0\nfuture 0 0 1\nunused 1 1 1\n", encoding="utf-8")
    words = replace(job.settings.text.words, vectors=str(path), max_vectors=3, learn=False)
    settings = replace(job.settings, text=replace(job.settings.text, words=words))
    data = prepare(replace(job, settings=settings))
    assert data.vectors is not None and data.vectors.words == ("ann", "rome", "future")
    table = data.table(settings, seed=0)
    assert table[data.words.id_of("Ann")].tolist() == [1, 0, 0]
    assert data.words.id_of("Acme") != data.words.id_of("Bob"), "words that the file lacks have rows of their own"
    assert table[data.words.id_of("future")].tolist() == [0, 0, 1]


def test_a_fraction_of_the_data_is_the_same_part_every_time(job: TaskJob) -> None:
    settings = replace(job.settings, training=replace(job.settings.training, fraction=0.25))
    parts = [prepare(replace(job, settings=settings)).train for _ in range(2)]
    assert parts[0] == parts[1] and len(parts[0]) == 5


def test_bad_data_is_refused_before_anything_is_written(job: TaskJob, tmp_path: Path) -> None:
    (tmp_path / "other.conll").write_text("Ann\tB-EVENT\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"other\.conll, line 1: found the label 'EVENT'"):
        run(replace(job, files=replace(job.files, dev=str(tmp_path / "other.conll"))))
    settings = replace(job.settings, text=replace(job.settings.text, max_tokens=3))
    with pytest.raises(InputError, match=r"train\.conll, line 1: found a text of \d+ tokens; expected at most 3"):
        run(replace(job, settings=settings))
    assert not job.folder.exists()


def test_a_folder_without_a_trained_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="elmo task train"):
        TrainedTask.load(tmp_path)


def test_a_refused_run_does_not_change_the_finished_one(job: TaskJob, make_bilm: MakeBilm) -> None:
    run(replace(job, seeds=(0,)), bilm=make_bilm())
    before = {path: path.read_bytes() for path in job.folder.rglob("*") if path.is_file()}
    for seeds in ((0,), (1,)):
        with pytest.raises(CheckpointError, match="belongs to another model"):
            run(replace(job, seeds=seeds), bilm=make_bilm(seed=1))
        assert {path: path.read_bytes() for path in job.folder.rglob("*") if path.is_file()} == before


def test_a_test_file_that_adds_word_vectors_does_not_continue_a_run(job: TaskJob, tmp_path: Path) -> None:
    """Its words change the table of frozen vectors that the run was trained with."""
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{word} {' '.join('1' * 8)}\n" for word in ("Ann", "Zanzibar")), encoding="utf-8")
    words = replace(job.settings.text.words, vectors=str(vectors), dim=8, max_vectors=0, learn=False)
    settings = replace(job.settings, text=replace(job.settings.text, words=words))
    job = replace(job, settings=settings, seeds=(0,), files=replace(job.files, test=None))
    run(job)
    same = write(tmp_path / "same.conll", make_examples(4))
    assert run(replace(job, files=replace(job.files, test=same)))["test"] is not None
    other = write(tmp_path / "other.conll", [TaggedSentence(("Zanzibar",), ())])
    with pytest.raises(CheckpointError):
        run(replace(job, files=replace(job.files, test=other)))
