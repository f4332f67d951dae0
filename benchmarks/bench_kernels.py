"""How near to the machine's limit each part of the kernels comes.

    python benchmarks/bench_kernels.py [--seconds 1.0] [full small]
    pytest benchmarks/bench_kernels.py [-k "small and lstm"] [--benchmark-compare]      # pytest-benchmark's statistics

GFLOP/s of products counted as `needed_work` counts them, beside the best product that this machine does; for a single
sentence, the bytes of weights read for a second. A table, then one JSON line. Speed of the whole program beside other
programs: bench_embed.py and bench_pretrain.py.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import pytest
import torch
from machine import packed_peak, share_of_others
from torch import Tensor

from elmo.bilm.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.bilm.initialise import initialise
from elmo.bilm.kernels import kernel_info
from elmo.bilm.lstm import LstmStack
from elmo.bilm.model import BiLM
from elmo.bilm.token_encoder import CharCnn
from elmo.text.characters import CharacterScheme

SIZES = {"full": (4096, 512, 2), "small": (1024, 128, 1)}
"""Cells, projection, highway layers."""


@dataclass(frozen=True)
class Line:
    """One measured part."""

    part: str
    milliseconds: float
    gflops: float
    share: float | None
    """Of the machine's best product; None where memory is the limit."""


def fastest(run: Callable[[], object], seconds: float) -> float:
    """Seconds of the fastest run; at least three."""
    run()
    best, runs, end = float("inf"), 0, time.perf_counter() + seconds
    while runs < 3 or time.perf_counter() < end:
        started = time.perf_counter()
        run()
        best, runs = min(best, time.perf_counter() - started), runs + 1
    return best


def make_model(size: str) -> BiLM:
    cells, width, highways = SIZES[size]
    config = BiLMConfig(
        lstm=LstmConfig(cell_dim=cells, projection_dim=width),
        characters=CharacterScheme.utf8(),
        char_cnn=CharCnnConfig(num_highway=highways),
    )
    model = BiLM(config).eval()
    initialise(model, torch.Generator().manual_seed(0))
    return model


def lstm_inputs(model: BiLM, batch: int, steps: int, words: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sentences of one length that share the first and the last word only, as markers."""
    generator = torch.Generator().manual_seed(0)
    positions = torch.randint(2, max(words, 3), (batch, steps), generator=generator)
    positions[:, 0], positions[:, -1] = 0, 1
    vectors = torch.randn(max(words, 3), model.config.lstm.projection_dim, generator=generator)
    return vectors, positions, torch.full((batch,), steps)


def lstm_flops(model: BiLM, batch: int, steps: int, words: int) -> float:
    """Both directions; the first step is shared, the last is not read."""
    lstm = model.config.lstm
    nodes = 1 + batch * (steps - 2)
    pair = 2 * lstm.cell_dim * lstm.projection_dim
    layers = lstm.num_layers
    return 2 * pair * (4 * max(words, 3) + nodes * (5 * layers + 4 * (layers - 1)))


@dataclass(frozen=True)
class Case:
    """One part of the kernels at one size, ready to be run any number of times."""

    part: str
    run: Callable[[], object]
    flops: float
    """Of its matrix products; 0 where there are none."""
    by_memory: bool = False
    """Whether reading the weights is the limit, not the arithmetic."""


def lstm_case(size: str, batch: int, precision: str) -> Case:
    model, words = make_model(size), 640 if batch > 1 else 22
    model.precision = precision  # type: ignore[assignment]
    vectors, positions, lengths = lstm_inputs(model, batch, 25 if batch > 1 else 22, words)

    @torch.no_grad()
    def run() -> object:
        return model.contextualize(vectors, positions, lengths, need_state=False)

    what = f"{batch} sentences" if batch > 1 else "one sentence"
    flops = lstm_flops(model, batch, positions.shape[1], words)
    return Case(f"{size} LSTM, {what}, {precision}", run, flops, by_memory=batch == 1 or precision != "float32")


def encoder_case(size: str, part: str, words: int = 640) -> Case:
    scheme, cnn = CharacterScheme.utf8(), make_model(size).token_encoder.char_cnn
    assert isinstance(cnn, CharCnn)
    spelt = torch.tensor([scheme.encode_word(f"w{number * 7919 % 99991}rd") for number in range(words)])
    found = torch.randn(words, cnn.config.num_filters)

    @torch.no_grad()
    def convolve() -> object:
        return cnn.find(spelt)

    @torch.no_grad()
    def carry() -> object:
        result = found
        for highway in cnn.highways:
            result = highway(result)
        return result

    if part == "convolutions":
        return Case(f"{size} convolutions, {words} words", convolve, 0.0)
    return Case(f"{size} highways, {words} words", carry, words * len(cnn.highways) * 4.0 * cnn.config.num_filters**2)


def training_case(size: str, batch: int = 128) -> Case:
    stack = make_model(size).forward_lstm
    assert isinstance(stack, LstmStack)
    lstm = stack.config
    tokens = torch.randn(batch, 20, lstm.projection_dim, requires_grad=True)
    lengths = torch.full((batch,), 20)

    def update() -> None:
        stack(tokens, lengths).layers[-1].sum().backward()
        with torch.no_grad():
            for parameter in stack.parameters():
                parameter.mul_(1.0)  # as an optimiser's step: the weights are packed anew

    flops = 3.0 * 2 * batch * 20 * lstm.num_layers * 9 * lstm.cell_dim * lstm.projection_dim
    return Case(f"{size} LSTM training, {batch} x 20, one direction", update, flops)


CASES: dict[str, Callable[[str], Case]] = {
    **{
        f"lstm-{batch}-{precision}": partial(lstm_case, batch=batch, precision=precision)
        for batch in (64, 1)
        for precision in ("float32", "float16", "int8")
    },
    "convolutions": lambda size: encoder_case(size, "convolutions"),
    "highways": lambda size: encoder_case(size, "highways"),
    "training": training_case,
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", SIZES)
def test_kernel(benchmark: Callable[[Callable[[], object]], object], size: str, name: str) -> None:
    case = CASES[name](size)
    case.run()  # packs the weights
    assert benchmark(case.run) is not None or name == "training"


def measure(case: Case, *, peak: float, seconds: float) -> Line:
    taken = fastest(case.run, seconds)
    gflops = case.flops / taken / 1e9
    share = None if case.by_memory or not case.flops else gflops / peak
    return Line(case.part, 1e3 * taken, gflops, share)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", default=list(SIZES))
    parser.add_argument("--seconds", type=float, default=1.0, help="for each part")
    arguments = parser.parse_args()
    others = share_of_others()
    peak = packed_peak(2.0) / 1e9
    info = kernel_info()
    print(f"kernel {info.name} ({info.reason}), {torch.get_num_threads()} threads, best product {peak:.0f} GFLOP/s")
    if others > 0.05:
        print(f"Not a quiet machine: other processes take {others:.0%} of it; the figures are too low.")
    lines = [
        measure(make(size), peak=peak, seconds=arguments.seconds) for size in arguments.sizes for make in CASES.values()
    ]
    for line in lines:
        share = "" if line.share is None else f"{line.share:6.0%}"
        print(f"{line.part:50} {line.milliseconds:9.2f} ms {line.gflops:8.1f} GFLOP/s {share}")
    print(
        json.dumps(
            {"kernel": info.name, "peak_gflops": peak, "others": others, "parts": [asdict(one) for one in lines]}
        )
    )


if __name__ == "__main__":
    main()
