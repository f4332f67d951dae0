"""One measurement of training for bench_pretrain.py: a process of its own, so that its peak of memory is its own.

    python benchmarks/pretrain_worker.py --size small --seconds 30           # one JSON line

The text is a sample of Wikipedia; the vocabulary is filled up with invented words, which are drawn as negatives like
any others. `--readable` measures the same updates by plain torch: kernels off, the sampled softmax through autograd,
memory as the C library manages it by itself; `--keep-memory` lets it have that part of the fast path.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SIZES = {
    "small": {"model.lstm.cell_dim": 1024, "model.lstm.projection_dim": 128, "model.char_cnn.num_highway": 1},
    "full": {"model.lstm.cell_dim": 4096, "model.lstm.projection_dim": 512, "model.char_cnn.num_highway": 2},
}
WARM_UPDATES = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--words", type=int, default=100_000)
    parser.add_argument("--negatives", type=int, default=8192)
    parser.add_argument("--batching", choices=["streams", "sentences"], default="streams")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--readable", action="store_true")
    parser.add_argument("--keep-memory", action="store_true")
    parser.add_argument("--threads", type=int, default=0, help="of each process; 0 leaves it to torch")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--text", type=Path, default=HERE / "text" / "wikipedia.txt")
    arguments = parser.parse_args()
    if arguments.readable:
        os.environ["ELMO_KERNEL"] = "off"
    with tempfile.TemporaryDirectory() as folder:
        result = measure(arguments, Path(folder))
        if result is not None:
            print(json.dumps(result))


def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, Any] | None:
    """The figures; under torchrun those of all processes, from the leading one alone."""
    from elmo.commands import training_run
    from elmo.commands.options import ComputeOptions

    if arguments.readable and not arguments.keep_memory:
        training_run._keep_memory = lambda: None
    world, _ = training_run.prepare(ComputeOptions(threads=arguments.threads))
    from elmo.pretrain import run as training

    if arguments.readable:
        training.sampled_loss = readable_sampled_loss  # type: ignore[attr-defined]
    run = make_run(arguments, world.gather(folder)[0], world)
    for _ in range(WARM_UPDATES):
        run.step()
    tokens, rates = 0, []
    words: list[int] = []
    inner_encode = run.encoder.encode

    def counted_encode(batch: Any) -> Any:
        inputs = inner_encode(batch)
        words.append(len(inputs.words))
        return inputs

    run.encoder.encode = counted_encode
    started = time.perf_counter()
    seconds = 0.0
    while not world.agree(seconds >= arguments.seconds):
        before, update = seconds, run.step()
        seconds = time.perf_counter() - started
        tokens += update.num_tokens
        rates.append(update.num_tokens / (seconds - before))
    updates = len(rates)
    num_words = sum(world.gather(sum(words))) / updates
    world.leave()
    if not world.leads:
        return None
    return {
        "tokens_per_second": tokens / seconds,
        "best_tokens_per_second": max(rates),
        "updates": updates,
        "tokens_per_update": tokens / updates,
        "distinct_words": num_words,
        "flops_per_token": needed_flops(run, num_words, tokens / updates),
        "peak_memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "loss": update.forward_loss,
        "kernel": kernel_name(),
    }


def make_run(arguments: argparse.Namespace, folder: Path, world: Any) -> Any:
    from elmo.pretrain import start
    from elmo.pretrain.settings import PretrainSettings
    from elmo.settings import read_settings
    from elmo.text.vocabulary import Vocabulary

    known = Vocabulary.build(arguments.text.read_text(encoding="utf-8").split()).words[: arguments.words]
    invented = (f"invented{index}" for index in range(arguments.words - len(known)))
    if world.leads:
        Vocabulary((*known, *invented)).save(folder / "words.txt")
    world.wait()
    overrides = [
        f'data.train=[{{name = "text", files = ["{arguments.text}"]}}]',
        f"data.vocabulary={folder / 'words.txt'}",
        f"data.batching={arguments.batching}",
        f"softmax.negatives={arguments.negatives}",
        f"training.precision={arguments.precision}",
        *(f"{name}={value}" for name, value in SIZES[arguments.size].items()),
    ]
    settings = read_settings(PretrainSettings, "paper-small", overrides=overrides)
    return start.begin(settings, folder / "run", world=world).run


def needed_flops(run: Any, num_words: float, num_tokens: float) -> float:
    """Multiplications and additions in the products that an update cannot do without, for each token.

    Everything is needed three times, once forward and twice for gradients, but the convolutions: behind their maximum
    only one window of each filter has a gradient.
    """
    sys.path.insert(0, str(HERE))
    from needed_work import step_flops

    config = run.bilm.config
    lstm, cnn = config.lstm, config.char_cnn
    first_input = 2 * 2 * lstm.projection_dim * 4 * lstm.cell_dim
    token = 3 * (step_flops(config) + first_input)
    token += 3 * 2 * 2 * run.settings.softmax.negatives * lstm.projection_dim
    # The words of a batch are mostly the frequent ones, which the lexicon has first.
    spelt = float((run.encoder.spelling[: int(num_words)] != config.characters.padding).sum(axis=1).mean())
    # A window may start at every character of the word, and once in the padding behind it.
    word = sum(2 * (spelt + 1) * width * cnn.character_dim * number for width, number in cnn.filters)
    word += 3 * (cnn.num_highway * 2 * 2 * cnn.num_filters**2 + 2 * cnn.num_filters * lstm.projection_dim)
    return token + word * num_words / num_tokens


def readable_sampled_loss(rows: Any, hidden: Any, targets: Any, *, negatives: Any, **_: Any) -> Any:
    """The formula, left to autograd."""
    import torch

    from elmo.pretrain.negatives import log_expected_count

    num_words = negatives.num_words
    wanted, others = rows.rows_of(targets), rows.rows_of(negatives.ids)
    target = (hidden * rows.weight[wanted]).sum(dim=-1) + rows.bias[wanted]
    target = target - log_expected_count(targets, num_words, negatives.tries)
    logits = hidden @ rows.weight[others].T + rows.bias[others]
    logits = logits - log_expected_count(negatives.ids, num_words, negatives.tries)
    logits = logits.masked_fill(targets[:, None] == negatives.ids, -torch.inf)
    return (torch.logsumexp(torch.cat([target[:, None], logits], dim=1), dim=1) - target).sum()


def kernel_name() -> str:
    from elmo.bilm.kernels.binding import kernel_info

    return str(kernel_info().name)


if __name__ == "__main__":
    main()
