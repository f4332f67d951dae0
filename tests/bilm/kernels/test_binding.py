"""Finding and choosing the library: by environment, by processor, and without one."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from elmo.bilm.config import BiLMConfig, LstmConfig, WordEmbeddingConfig
from elmo.bilm.kernels import binding, kernel_info
from elmo.bilm.kernels.dense import multiply, product
from elmo.bilm.kernels.packing import PackedMatrix
from elmo.bilm.model import BiLM
from elmo.errors import ConfigError

SAY = "from elmo.bilm.kernels import kernel_info; print(kernel_info().name, '|', kernel_info().reason)"


@pytest.fixture(autouse=True)
def choose_again() -> Iterator[None]:
    yield
    binding._load.cache_clear()
    binding.select()


def make_model() -> BiLM:
    config = BiLMConfig(
        lstm=LstmConfig(cell_dim=12, projection_dim=6), word_embedding=WordEmbeddingConfig(num_words=5, dim=6)
    )
    model = BiLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model.eval()


def run(model: BiLM) -> torch.Tensor:
    positions = torch.randint(5, (40, 7), generator=torch.Generator().manual_seed(0))
    vectors = torch.linspace(-1, 1, 30).view(5, 6)
    with torch.no_grad():
        return model.contextualize(vectors, positions, torch.full((40,), 7)).layers


def test_an_environment_variable_selects_the_kernel(variant: str) -> None:
    for wanted, expected in ((variant, variant), ("off", "torch")):
        environment = {**os.environ, "ELMO_KERNEL": wanted, "PYTHONPATH": os.pathsep.join(sys.path)}
        said = subprocess.run([sys.executable, "-c", SAY], env=environment, capture_output=True, text=True, check=True)
        assert said.stdout.split()[0] == expected


def test_unknown_names_are_refused(variant: str) -> None:
    with pytest.raises(ConfigError, match="expected one of portable, avx2, avx512, off"):
        binding.select("sse9")


def test_off_and_absent_give_the_same_numbers(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model()
    fast = run(model)
    binding.select("off")
    assert kernel_info().name == "torch"
    assert (run(model) - fast).abs().max() < 1e-5
    monkeypatch.setattr(binding, "_library_path", lambda: None)
    binding._load.cache_clear()
    assert binding.select().reason == "the package was installed without a C compiler"
    assert (run(model) - fast).abs().max() < 1e-5


def test_a_library_that_does_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ELMO_KERNEL", raising=False)
    broken = tmp_path / "_native.so"
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(binding, "_library_path", lambda: broken)
    binding._load.cache_clear()
    info = binding.select()
    assert info.name == "torch"
    assert "does not load" in info.reason


def test_a_library_built_from_other_sources_is_not_called(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_layout", lambda: 1)
    binding._load.cache_clear()
    assert "install the package again" in binding.select().reason


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_starts_its_own_threads(variant: str) -> None:
    """The parent's threads do not exist in the child; waiting for them would be for ever."""
    model, before = make_model(), torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        expected = run(model)
        context = multiprocessing.get_context("fork")
        queue = context.SimpleQueue()
        child = context.Process(target=lambda: queue.put(torch.equal(run(model), expected)))
        child.start()
        child.join(timeout=60)
        assert child.exitcode == 0
        assert queue.get()
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(sys.platform != "linux", reason="no limit on memory here")
@pytest.mark.parametrize("job", ["inference", "training", "product"])
def test_no_memory_is_an_error_wherever_it_ends(variant: str, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one more free scratch block each time, every allocation of a call is the first that fails once."""
    import resource

    monkeypatch.setattr(binding, "has_fast_bfloat16", lambda: True)
    model = make_model()
    model.precision = "int8"
    layer, x = torch.nn.Linear(30, 20), torch.rand(50, 30)
    matrix, out = PackedMatrix(layer.weight, precision="int8"), torch.empty(50, 20)
    described = product(x, matrix, out=out)

    def train() -> torch.Tensor:
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            tokens = torch.linspace(-1, 1, 40 * 7 * 6).view(40, 7, 6)
            model.forward_lstm(tokens, torch.full((40,), 7)).layers.sum().backward()
        return torch.cat([p.grad.flatten() for p in model.forward_lstm.parameters() if p.grad is not None])

    def multiply_once() -> torch.Tensor:
        multiply(described)
        return out.clone()

    jobs: dict[str, Callable[[], torch.Tensor]] = {
        "inference": lambda: run(model), "training": train, "product": multiply_once,
    }  # fmt: skip
    expected = jobs[job]()
    blocks = [binding.scratch(1 << 20) for _ in range(16)]
    errors, (soft, hard) = 0, resource.getrlimit(resource.RLIMIT_AS)
    while blocks:
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        # Less than a new block takes, which is 4 MB for a moment, and enough for everything else.
        resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 20), hard))
        try:
            found = jobs[job]()
        except MemoryError:
            errors += 1
        else:
            assert torch.equal(found, expected)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        blocks.pop()
    assert 0 < errors < 16


def test_memory_of_the_kernels_is_not_freed_at_exit() -> None:
    """A daemon thread may still use it. Functions that are registered first run last."""
    code = (
        "import atexit; kept = []; atexit.register(lambda: print(kept[0].sum().item()));"
        "from elmo.bilm.kernels import binding; kept.append(binding.mapped(1 << 12).fill_(1))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0 and result.stdout.strip() == str(1 << 12), result.stderr
