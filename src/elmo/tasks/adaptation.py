"""A biLM that reads the task's text before the task is learned (paper, section 3.4): fine-tuning, all labels ignored.

    made = adapt(bilm, sentences, folder, epochs=2)
    made.bilm, made.perplexity_before, made.perplexity_after

The result stays in the folder under a name of its own for this biLM, text and number of epochs, so that all seeds share
it; one that was broken off is gone on with. A biLM without a softmax is given one for the words of the text.
"""

from __future__ import annotations

import hashlib
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
from elmo.whole_files import write_whole

_FACTS_FILE = "adapted.json"
_JOURNAL_FILE = "measured.json"
_HOLD_OUT = 20
"""Every so many sentences one is kept to measure on."""


@dataclass(frozen=True)
class AdaptationFacts:
    """What adapting did, measured on every twentieth of the sentences, which it did not learn from; None if too few."""

    epochs: float
    sentences: int
    perplexity_before: float | None
    perplexity_after: float | None
    seconds: float


@dataclass(frozen=True)
class Adapted:
    """The biLM after it has read the text."""

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
    """Fine-tune on the distinct sentences; `progress` hears which share of the work is done."""
    lines = [" ".join(sentence) for sentence in dict.fromkeys(map(tuple, sentences)) if sentence]
    place = folder / _name(bilm, lines, epochs)
    if not (place / _FACTS_FILE).exists():
        facts = _finetune(bilm, lines, place, epochs, progress)
        shutil.rmtree(place / "run")
        _text_file(place).unlink()
        # Last of all: where this file is, the model is whole.
        write_whole(place / _FACTS_FILE, json.dumps(asdict(facts), indent=2) + "\n")
    facts = AdaptationFacts(**json.loads((place / _FACTS_FILE).read_text(encoding="utf-8")))
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
        """The run's own remarks are for those who asked for it by name."""

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
            journal.forget()  # what a softmax that had to be learned first gave: the text is not read with that one
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
    """What has been measured so far, on disk, so that a run that was broken off knows how it began."""

    path: Path
    perplexities: list[float] = field(default_factory=list)
    seconds_before: float = 0.0
    """Of the run's earlier parts, each up to its last measurement."""
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def open(cls, path: Path) -> _Journal:
        if not path.exists():
            return cls(path)
        kept = json.loads(path.read_text(encoding="utf-8"))
        return cls(path, kept["perplexities"], kept["seconds"])

    def note(self, perplexity: float) -> None:
        self.perplexities.append(perplexity)
        write_whole(self.path, json.dumps({"perplexities": self.perplexities, "seconds": self.seconds()}))

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
        # As many as the bundled model was trained with: texts of tasks are small, and more cost time alone.
        softmax=SoftmaxSettings(negatives=2048),
        training=replace(base.training, epochs=epochs, log_every=10),
    )


def _text_file(place: Path) -> Path:
    """Beside the model's folder, which fine-tuning wants to make itself."""
    return place.with_name(f"{place.name}.txt")


def _name(bilm: PretrainedBiLM, lines: Sequence[str], epochs: float) -> str:
    digest = hashlib.sha256(f"{bilm.identity()} {epochs}\n".encode())
    for line in lines:
        digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return f"adapted-{digest.hexdigest()[:16]}"
