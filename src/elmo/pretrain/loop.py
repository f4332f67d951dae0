"""The training loop of pre-training and fine-tuning.

Left out: the update (`run.py`), the logs (`logs.py`), printing (`elmo.commands`).
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from elmo.errors import ElmoError
from elmo.pretrain import checkpoint
from elmo.pretrain.checkpoint import CheckpointFolder
from elmo.pretrain.perplexity import Perplexity, measure, sentences_of
from elmo.pretrain.run import Run, Update


class TrainingError(ElmoError):
    """Training cannot continue."""


@dataclass(frozen=True)
class Report:
    """A report of a training interval, an evaluation or its progress, a checkpoint, or the end."""

    kind: str
    update: int
    values: dict[str, Any]


Observer = Callable[[Report], None]
SECONDS_BETWEEN_REPORTS = 10.0
"""Reports of an evaluation's progress."""


def train(run: Run, checkpoints: CheckpointFolder, *, observe: Observer, export: Callable[[], None]) -> bool:
    """Train to the end (True) or until a stop signal (False); `export` writes the model when it is the best so far."""
    settings, world, heldout = run.settings.training, run.world, run.corpus.role("heldout")
    begun = run.share_done, run.progress.seconds
    meter, last_saved = _Meter(), time.monotonic()
    tired = 0 < settings.patience <= run.progress.failures  # a resumed run may have been stopped early already
    with _stop_signals() as stop:
        while run.share_done < 1 and not tired:
            update = run.step(stop_asked=stop.asked)
            if not update.is_finite and run.progress.half_scale < 1:
                raise TrainingError(_explain_failure(run, update, checkpoints))
            meter.add(update)
            number, done, better = run.progress.update, run.share_done >= 1, False
            if number % settings.log_every == 0 or done:
                observe(Report("train", number, meter.values(run, begun)))
                meter = _Meter()
            if (number % settings.evaluate_every == 0 or done) and heldout:
                better = evaluate(run, observe)
                done = run.share_done >= 1  # the time of evaluations counts in training.minutes
                tired = 0 < settings.patience <= run.progress.failures
            waited = world.agree(time.monotonic() - last_saved > 60 * settings.checkpoint_minutes)
            if number % settings.checkpoint_every == 0 or done or better or tired or update.stop or waited:
                save(run, checkpoints, observe)
                last_saved = time.monotonic()
                if world.leads and (better or not (heldout or done)):
                    export()
            if update.stop and not done:
                observe(Report("stopped", number, {}))
                return False
    _finish(run, checkpoints, observe, export)
    world.wait()  # every process may load the model next
    observe(Report("early stop" if tired else "finished", run.progress.update, {}))
    return True


def evaluate(run: Run, observe: Observer) -> bool:
    """Held-out perplexity per source, on part of the text; returns whether it is the best so far."""
    results = _measure(run, run.settings.training.evaluate_tokens, observe)
    total, progress = results["all"].both, run.progress
    better = total < progress.best
    values = {name: result.values() for name, result in results.items()}
    if better:
        run.progress = replace(progress, best=total, best_update=progress.update, failures=0)
        run.heldout = values
    else:
        run.progress = replace(progress, failures=progress.failures + 1)
    observe(Report("heldout", progress.update, {**values, "best": better, "tokens": progress.tokens}))
    return better


def _finish(run: Run, checkpoints: CheckpointFolder, observe: Observer, export: Callable[[], None]) -> None:
    """Measure the best model on all held-out text, unless the last evaluation was just that, and export it.

    A resumed run that was finished exports again, because it may have been killed before the model was written.
    """
    best, heldout = checkpoints.path(run.progress.best_update or 0), run.corpus.role("heldout")
    if not heldout and run.world.leads:
        export()
    if not heldout or not best.exists():
        return
    is_last = run.progress.best_update == run.progress.update
    read = run.heldout.get("all", {}).get("tokens", 0)
    is_complete = read == sum(source.num_tokens for source in heldout)
    if not is_last or not is_complete:
        run.load_weights(checkpoint.read(best))
        if not is_complete:  # with a large softmax it takes minutes
            run.heldout = {name: result.values() for name, result in _measure(run, None, observe).items()}
        observe(Report("final", run.progress.best_update or 0, run.heldout))
    if run.world.leads:
        export()


def _measure(run: Run, max_tokens: int | None, observe: Observer) -> dict[str, Perplexity]:
    """Perplexity of every held-out source and of all together, each process measuring a part."""
    world, results, total = run.world, {}, Perplexity(0.0, 0.0, 0)
    started = last_report = time.monotonic()
    for source in run.corpus.role("heldout"):

        def report(done: int, count: int, name: str = source.name) -> None:
            nonlocal last_report
            if time.monotonic() - last_report >= SECONDS_BETWEEN_REPORTS:
                last_report = time.monotonic()
                observe(Report("measuring", run.progress.update, {"source": name, "share": done / count}))

        sentences = sentences_of(source, max_tokens=max_tokens, shard=(world.rank, world.size))
        part = measure(run.bilm, run.softmax, run.corpus, sentences, progress=report)
        sums = [part.forward_loss, part.backward_loss, part.num_tokens, part.num_unknown]
        everyone = world.sum(torch.tensor(sums, dtype=torch.float64, device=world.device)).tolist()
        results[source.name] = Perplexity(everyone[0], everyone[1], int(everyone[2]), int(everyone[3]))
        total += results[source.name]
    # All processes must use the same time: that of the leading process.
    seconds = time.monotonic() - started if world.leads else 0.0
    elapsed = world.sum(torch.tensor(seconds, dtype=torch.float64, device=world.device)).item()
    run.progress = replace(run.progress, seconds=run.progress.seconds + elapsed)
    return {**results, "all": total}


def save(run: Run, checkpoints: CheckpointFolder, observe: Observer) -> None:
    """Write a checkpoint. Every process must call this."""
    state = run.state()
    if run.world.leads:
        path = checkpoints.save(state, update=run.progress.update, best_update=run.progress.best_update)
        observe(Report("checkpoint", run.progress.update, {"path": str(path)}))
    run.world.wait()


class _Meter:
    """Means over the updates since the last report."""

    def __init__(self) -> None:
        self.updates: list[Update] = []

    def add(self, update: Update) -> None:
        self.updates.append(update)

    def values(self, run: Run, begun: tuple[float, float]) -> dict[str, Any]:
        """`begun`: the fraction and the seconds done when this process started; its speed gives the time left."""
        tokens = sum(update.num_tokens for update in self.updates)
        forward = sum(update.forward_loss * update.num_tokens for update in self.updates) / tokens
        backward = sum(update.backward_loss * update.num_tokens for update in self.updates) / tokens
        seconds = sum(update.seconds for update in self.updates)
        share = run.share_done
        gained, spent = share - begun[0], run.progress.seconds - begun[1]
        return {
            "epoch": run.batches.epochs_read,
            "share": share,
            "loss_forward": forward,
            "loss_backward": backward,
            "loss": (forward + backward) / 2,
            "sampled": run.is_sampled,
            "gradient_norm": max(update.gradient_norm for update in self.updates),
            "rate": self.updates[-1].rate,
            "tokens": run.progress.tokens,
            "tokens_per_second": tokens / seconds,
            "seconds": run.progress.seconds,
            "seconds_left": spent * (1 - share) / gained if gained else None,
        }


def _explain_failure(run: Run, update: Update, checkpoints: CheckpointFolder) -> str:
    latest = checkpoints.latest()
    found = "There is no checkpoint yet" if latest is None else f"The last checkpoint is {latest}"
    return (
        f"Training diverged at update {run.progress.update}: the losses are {update.forward_loss} and "
        f"{update.backward_loss}, the gradient norm is {update.gradient_norm}; the weights were not changed. {found}. "
        "Lower optimizer.learning_rate or optimizer.clip_norm (--set): elmo pretrain --resume continues from the last "
        "checkpoint, elmo finetune has to start again."
    )


class _Stop:
    asked = False


@contextmanager
def _stop_signals() -> Iterator[_Stop]:
    """Ctrl-C and SIGTERM stop the run after the current update; a second one stops it immediately."""
    stop = _Stop()

    def ask(number: int, frame: Any) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    signals = (signal.SIGINT, signal.SIGTERM)
    try:
        before = [signal.signal(number, ask) for number in signals]
    except ValueError:  # only the main thread can set signal handlers
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
