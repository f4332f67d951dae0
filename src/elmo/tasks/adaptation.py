"""Fine-tune a biLM on a task's text, without its labels, before the task is trained (paper, section 3.4).

    made = adapt(bilm, sentences, folder, epochs=2)
    made.bilm, made.perplexity_before, made.perplexity_after

The result is stored in the folder under the digest of biLM, text and number of epochs, so that all seeds share it. An
interrupted run is resumed. A biLM without a softmax gets a new one for the words of the text.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.pretrain import finetune
from elmo.pretrain.loop import Report, evaluate, train
from elmo.pretrain.settings import SoftmaxSettings, Source
from elmo.pretrain.world import World
from elmo.storage.atomic import write_atomic, writing
from elmo.storage.digest import text_digest
from elmo.storage.json_file import read_json_object
from elmo.storage.locks import locked

_FACTS_FILE = "adapted.json"
_JOURNAL_FILE = "measured.json"
_HOLD_OUT = 20
"""One sentence in so many is held out."""


@dataclass(frozen=True)
class AdaptationFacts:
    """What fine-tuning did to the perplexity of the held-out sentences; None if there are too few sentences."""

    epochs: float
    sentences: int
    perplexity_before: float | None
    perplexity_after: float | None
    seconds: float


@dataclass(frozen=True)
class Adapted:
    """The fine-tuned biLM."""

    bilm: PretrainedBiLM
    facts: AdaptationFacts


def adapt(
    bilm: PretrainedBiLM,
    sentences: Iterable[Sequence[str]],
    folder: Path,
    *,
    epochs: float,
    progress: Callable[[float], None] = lambda share: None,
) -> Adapted:
    """Fine-tune on the distinct sentences; `progress` is called with the share of the work that is done."""
    lines = [" ".join(sentence) for sentence in dict.fromkeys(map(tuple, sentences)) if sentence]
    place = folder / _name(bilm, lines, epochs)
    with writing(place):
        folder.mkdir(parents=True, exist_ok=True)
    # Runs may share a folder: one adapts the biLM while the others wait for it.
    with locked(place):
        if not (place / _FACTS_FILE).exists():
            facts = _finetune(bilm, lines, place, epochs, progress)
            shutil.rmtree(place / "run")
            _text_file(place).unlink()
            # Last of all: where this file is, the model is complete.
            write_atomic(place / _FACTS_FILE, json.dumps(asdict(facts), indent=2) + "\n")
    facts = AdaptationFacts(**read_json_object(place / _FACTS_FILE, expected="the facts of an adapted biLM"))
    return Adapted(PretrainedBiLM.from_pretrained(place), facts)


def _finetune(
    bilm: PretrainedBiLM, lines: list[str], place: Path, epochs: float, progress: Callable[[float], None]
) -> AdaptationFacts:
    journal = _Journal.open(place / "run" / _JOURNAL_FILE)

    def observe(report: Report) -> None:
        if report.kind == "train":
            progress(report.values["share"])
        elif report.kind in ("heldout", "final"):
            journal.note(report.values["all"]["both"])

    def quiet(line: str) -> None:
        """Messages of the fine-tuning are not shown."""

    world = World()
    if not (place / "run" / "finetune.toml").exists():
        shutil.rmtree(place, ignore_errors=True)
        text, start = _text_file(place), place.with_name(f"{place.name}.start")
        place.parent.mkdir(parents=True, exist_ok=True)
        text.write_text("\n".join(lines) + "\n", encoding="utf-8")
        bilm.save_pretrained(start)
        finetune.begin(
            str(start),
            place,
            _settings(text, epochs, hold_out=_HOLD_OUT if len(lines) > _HOLD_OUT else 0),
            world=world,
            say=quiet,
        )
        shutil.rmtree(start)
    for _, project in finetune.stages(place, world=world, say=quiet):
        if project.run.progress.update == 0:
            journal.forget()  # the perplexities of a stage that trained a new softmax
            if project.run.corpus.role("heldout"):
                evaluate(project.run, observe)
        if not train(project.run, project.checkpoints, observe=observe, export=project.export):
            raise KeyboardInterrupt
    return AdaptationFacts(
        epochs=epochs,
        sentences=len(lines),
        perplexity_before=journal.perplexities[0] if journal.perplexities else None,
        perplexity_after=min(journal.perplexities, default=None),
        seconds=round(journal.seconds(), 1),
    )


@dataclass
class _Journal:
    """The perplexities measured so far, on disk, so that a resumed run has the first one."""

    path: Path
    perplexities: list[float] = field(default_factory=list)
    seconds_before: float = 0.0
    """Of the interrupted parts of the run, each up to its last measurement."""
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def open(cls, path: Path) -> _Journal:
        if not path.exists():
            return cls(path)
        kept = read_json_object(path, expected="the measurements of a run")
        return cls(path, kept["perplexities"], kept["seconds"])

    def note(self, perplexity: float) -> None:
        self.perplexities.append(perplexity)
        write_atomic(self.path, json.dumps({"perplexities": self.perplexities, "seconds": self.seconds()}))

    def forget(self) -> None:
        self.perplexities.clear()

    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.started


def _settings(text: Path, epochs: float, *, hold_out: int) -> finetune.FinetuneSettings:
    base = finetune.FinetuneSettings()
    source = Source(name="task", files=(str(text),))
    return replace(
        base,
        data=replace(base.data, train=(source,), hold_out=hold_out),
        # As in the training of the bundled model: task texts are small, and more negatives only cost time.
        softmax=SoftmaxSettings(negatives=2048),
        training=replace(base.training, epochs=epochs, log_every=10),
    )


def _text_file(place: Path) -> Path:
    """Beside the model's folder, which fine-tuning creates itself."""
    return place.with_name(f"{place.name}.txt")


def _name(bilm: PretrainedBiLM, lines: Sequence[str], epochs: float) -> str:
    return f"adapted-{text_digest([f'{bilm.digest()} {epochs}', *lines])}"
