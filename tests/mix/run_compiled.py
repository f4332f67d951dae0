"""Checks of torch.compile and torch.export; `test_compile.py` runs them without the shape checks of the other tests."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

import torch
from tiny_bilm import make_pretrained
from torch import Tensor, nn
from torch._dynamo.utils import counters

from elmo.mix.elmo_layer import ElmoLayer
from elmo.text.indexer import TokenBatch, WordTable

TRACED = torch.__version__ >= "2.8"
"""Older compilers run the biLM outside of the graph."""
SENTENCES = [
    [["The", "bank", "is", "closed"], ["Hello"]],
    [["A", "longer", "sentence", "than", "the", "others", "."]] * 3,
    [["x", "y"], ["z"], ["x"], ["y", "z"], ["w"]],
    [["a"] * 9, ["b"] * 4, ["c"]],
]


def one_graph() -> None:
    """For all shapes, with the same bits."""
    layer = ElmoLayer(make_pretrained(), dropout=0.0)
    batches = [layer.batch(sentences) for sentences in SENTENCES]
    expected = [layer(batch).places[0] for batch in batches]
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=TRACED, dynamic=True)
    with torch._dynamo.config.patch(error_on_recompile=TRACED):
        for batch, theirs in zip(batches, expected, strict=True):
            assert torch.equal(compiled(batch).places[0], theirs)


def few_graphs() -> None:
    """Sizes become dynamic by themselves, long before the limit of recompilations."""
    layer = ElmoLayer(make_pretrained(), dropout=0.0)
    before = counters["stats"]["unique_graphs"]
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=TRACED)
    for number in range(12):
        batch = layer.batch([["word"] * (number % 5 + 2), *([["more", "of", "them"]] * (number % 4 + 1))])
        assert torch.equal(compiled(batch).places[0], layer(batch).places[0])
    assert counters["stats"]["unique_graphs"] - before <= 4


def gradients() -> None:
    """The biLM learns in a compiled layer as it does outside."""
    layer = ElmoLayer(make_pretrained(), dropout=0.0, trainable=True)
    batch, parameters = layer.batch(SENTENCES[0]), list(layer.parameters())

    def gradients_of(run: Callable[[TokenBatch], object]) -> list[Tensor]:
        return list(torch.autograd.grad(run(batch).places[0].square().sum(), parameters))  # type: ignore[attr-defined]

    expected = gradients_of(layer)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=TRACED)
    for ours, theirs in zip(gradients_of(compiled), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


class OfTensors(nn.Module):
    """torch.export takes tensors."""

    def __init__(self, layer: ElmoLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, characters: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        return self.layer(TokenBatch(WordTable((), characters, None), positions, lengths)).places[0]


def export() -> None:
    """An exported layer gives the same bits, at every size."""
    layer = ElmoLayer(make_pretrained(), dropout=0.0).eval()
    inputs = []
    for sentences in SENTENCES:
        batch = layer.batch(sentences)
        assert batch.words.characters is not None
        inputs.append((batch.words.characters, batch.positions, batch.lengths))
    any_size = torch.export.Dim.AUTO
    shapes = ({0: any_size, 1: any_size}, {0: any_size, 1: any_size}, {0: any_size})
    program = torch.export.export(OfTensors(layer), inputs[0], dynamic_shapes=shapes, strict=False)
    graphs = [module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    called = [str(node.target) for graph in graphs for node in graph.nodes]
    assert "elmo.encode_words.default" in called and "elmo.lstm_stacks.default" in called, called
    for arguments in inputs:
        assert torch.equal(program.module()(*arguments), OfTensors(layer)(*arguments))


if __name__ == "__main__":
    warnings.simplefilter("error", UserWarning)  # the limit of recompilations is one
    for name in sys.argv[1:]:
        torch._dynamo.reset()
        globals()[name]()
