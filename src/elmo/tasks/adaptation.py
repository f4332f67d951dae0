"""Fine-tune a biLM on a task's text, without its labels, before the task is trained (paper, section 3.4).

    made = adapt(bilm, sentences, folder, epochs=2)
    made.bilm, made.facts.perplexity_before, made.facts.perplexity_after

The result is stored in the folder under the digest of biLM, softmax, text and number of epochs, so that all seeds share
it. An interrupted run is resumed. A biLM without a softmax gets a new one for the words of the text.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from elmo.checkpoints.pretrained import PretrainedBiLM
from elmo.pretrain import finetune
from elmo.pretrain.logs import LOG_FILE, JsonLog, read_log
from elmo.pretrain.loop import Report, evaluate, train
from elmo.pretrain.settings import SoftmaxSettings, Source
from elmo.pretrain.world import World
from elmo.storage.atomic import write_atomic, writing
from elmo.storage.digest import text_digest
from elmo.storage.json_file import read_json_object
from elmo.storage.locks import locked

_FACTS_FILE = "adapted.json"
_HOLD_OUT = 20
"""One sentence in 20 is held out."""


@dataclass(frozen=True)
class AdaptationFacts:
    """The effect of fine-tuning on the perplexity of the held-out sentences; None if there are too few sentences."""

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
    """Fine-tune on the distinct sentences; `progress` is called with the fraction of the work that is done."""
    lines = [" ".join(sentence) for sentence in dict.fromkeys(map(tuple, sentences)) if sentence]
    place = folder / f"adapted-{text_digest([f'{bilm.language_model_digest()} {epochs}', *lines])}"
    with writing(place):
        folder.mkdir(parents=True, exist_ok=True)
    # Runs may share a folder: one process adapts the biLM while the others wait for the lock.
    with locked(place):
        if not (place / _FACTS_FILE).exists():
            facts = _finetune(bilm, lines, place, epochs, progress)
            # If this file exists, the model is complete. A kill while the run is deleted must not train it again.
            write_atomic(place / _FACTS_FILE, json.dumps(asdict(facts), indent=2) + "\n")
        shutil.rmtree(place / "run", ignore_errors=True)
        _text_file(place).unlink(missing_ok=True)
    facts = AdaptationFacts(**read_json_object(place / _FACTS_FILE, expected="the facts of an adapted biLM"))
    return Adapted(PretrainedBiLM.from_pretrained(place), facts)


def _finetune(
    bilm: PretrainedBiLM, lines: list[str], place: Path, epochs: float, progress: Callable[[float], None]
) -> AdaptationFacts:
    def quiet(line: str) -> None:
        """Messages of the fine-tuning are not shown."""

    world, seconds, perplexities = World(), 0.0, []
    if not finetune.has_plan(place):
        shutil.rmtree(place, ignore_errors=True)
        text, start = _text_file(place), place.with_name(f"{place.name}.start")
        text.write_text("\n".join(lines) + "\n", encoding="utf-8")
        bilm.save_pretrained(start)
        settings = _settings(text, epochs, hold_out=_HOLD_OUT if len(lines) > _HOLD_OUT else 0)
        finetune.begin(str(start), place, settings, world=world, say=quiet)
        shutil.rmtree(start)
    for _, project in finetune.stages(place, world=world, say=quiet):
        # The log has the perplexities that an interrupted run measured, too.
        log = JsonLog(project.run_folder / LOG_FILE, from_update=project.run.progress.update)

        def observe(report: Report, log: JsonLog = log) -> None:
            log(report)
            if report.kind == "train":
                progress(report.values["share"])

        if project.run.progress.update == 0 and project.run.corpus.role("heldout"):
            evaluate(project.run, observe)
        if not train(project.run, project.checkpoints, observe=observe, export=project.export):
            raise KeyboardInterrupt
        seconds += project.run.progress.seconds
        measured = [line for line in read_log(project.run_folder / LOG_FILE) if line["kind"] in ("heldout", "final")]
        perplexities = [line["all"]["both"] for line in measured]
    return AdaptationFacts(
        epochs=epochs,
        sentences=len(lines),
        perplexity_before=perplexities[0] if perplexities else None,
        perplexity_after=min(perplexities, default=None),
        seconds=round(seconds, 1),
    )


def _settings(text: Path, epochs: float, *, hold_out: int) -> finetune.FinetuneSettings:
    base = finetune.FinetuneSettings()
    source = Source(name="task", files=(str(text),))
    return replace(
        base,
        data=replace(base.data, train=(source,), hold_out=hold_out, tokenized=True),
        # As in the training of the bundled model: task texts are small, and more negatives only cost time.
        softmax=SoftmaxSettings(negatives=2048),
        training=replace(base.training, epochs=epochs, log_every=10),
    )


def _text_file(place: Path) -> Path:
    """Beside the model's folder, which fine-tuning creates itself."""
    return place.with_name(f"{place.name}.txt")
