"""How near to the machine's limit each part of the kernels comes.

    python benchmarks/bench_kernels.py [--seconds 1.0] [full small]

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


def bench_lstm(model: BiLM, size: str, *, batch: int, words: int, peak: float, seconds: float) -> list[Line]:
    lines = []
    for precision in ("float32", "float16", "int8"):
        model.precision = precision  # type: ignore[assignment]
        inputs = lstm_inputs(model, batch, 25 if batch > 1 else 22, words)
        with torch.no_grad():
            taken = fastest(lambda inputs=inputs: model.contextualize(*inputs, need_state=False), seconds)  # type: ignore[misc]
        gflops = lstm_flops(model, batch, inputs[1].shape[1], words) / taken / 1e9
        what = f"{batch} sentences" if batch > 1 else "one sentence"
        share = gflops / peak if batch > 1 and precision == "float32" else None
        lines.append(Line(f"{size} LSTM, {what}, {precision}", 1e3 * taken, gflops, share))
    model.precision = "float32"
    return lines


def bench_encoder(model: BiLM, size: str, *, words: int, peak: float, seconds: float) -> list[Line]:
    scheme, cnn = CharacterScheme.utf8(), model.token_encoder.char_cnn
    assert isinstance(cnn, CharCnn)
    spelt = torch.tensor([scheme.encode_word(f"w{number * 7919 % 99991}rd") for number in range(words)])
    with torch.no_grad():
        convolutions = fastest(lambda: cnn.find(spelt), seconds)
        whole = fastest(lambda: cnn(spelt), seconds)
    flops = words * len(cnn.highways) * 4 * cnn.config.num_filters**2
    gflops = flops / (whole - convolutions) / 1e9
    return [
        Line(f"{size} convolutions, {words} words", 1e3 * convolutions, 0.0, None),
        Line(f"{size} highways, {words} words", 1e3 * (whole - convolutions), gflops, gflops / peak),
    ]


def bench_training(model: BiLM, size: str, *, batch: int, peak: float, seconds: float) -> list[Line]:
    stack, lstm = model.forward_lstm, model.config.lstm
    assert isinstance(stack, LstmStack)
    tokens = torch.randn(batch, 20, lstm.projection_dim, requires_grad=True)
    lengths = torch.full((batch,), 20)

    def update() -> None:
        stack(tokens, lengths).layers[-1].sum().backward()
        with torch.no_grad():
            for parameter in stack.parameters():
                parameter.mul_(1.0)  # as an optimiser's step: the weights are packed anew

    taken = fastest(update, seconds)
    flops = 3 * 2 * batch * 20 * lstm.num_layers * 9 * lstm.cell_dim * lstm.projection_dim
    gflops = flops / taken / 1e9
    return [Line(f"{size} LSTM training, {batch} x 20, one direction", 1e3 * taken, gflops, gflops / peak)]


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
    lines: list[Line] = []
    for size in arguments.sizes:
        model = make_model(size)
        options = {"peak": peak, "seconds": arguments.seconds}
        lines += bench_lstm(model, size, batch=64, words=640, **options)
        lines += bench_lstm(model, size, batch=1, words=22, **options)
        lines += bench_encoder(model, size, words=640, **options)
        lines += bench_training(model, size, batch=128, **options)
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
