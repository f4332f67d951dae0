"""A biLM -> an ONNX graph, written node by node.

    in    characters  int64 (words, characters)   distinct words spelt in the model's ids    models with characters
          word_ids    int64 (words)               ids in the model's vocabulary, plus one    models with word vectors
          positions   int64 (batch, tokens)       rows of those words, markers included; 0 past a sentence's end
          lengths     int64 (batch)               tokens of each sentence, markers included
    out   layers      float (layers, batch, tokens - 2, 2 * projection), markers dropped, zero at padding

All of words, characters, batch and tokens may change from run to run. `characters` is padded with the padding id to the
longest word plus the widest filter, or to the model's full length: the models were trained with that padding.

The LSTMs are `Scan`s: ONNX's own LSTM has no projection and clips its gates, not its cells. A tracer would unroll the
sentence instead and fix its length. Left out: state (every sentence starts from zeros), training, int8.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor, nn

from elmo.bilm.lstm import LstmLayer, LstmStack
from elmo.bilm.model import BiLM
from elmo.bilm.token_encoder import CharCnn, Highway
from elmo.errors import needs

with needs("onnx", extra="onnx"):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

OPSET = 17
# Widely readable: onnxruntime 1.15 and later.
IR_VERSION = 8


class GraphBuilder:
    """Collects nodes and weights; each method adds a node and returns the name of its result."""

    def __init__(self, prefix: str = "") -> None:
        """`prefix`: of all names, so that an inner graph does not hide names of the outer one."""
        self.prefix = prefix
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._count = 0

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: object) -> str:
        result = output or self.name(operator.lower())
        self.nodes.append(helper.make_node(operator, list(inputs), [result], **attributes))
        return result

    def constant(self, values: np.ndarray | Sequence[int] | Sequence[float] | int | float) -> str:
        array = np.asarray(values)
        array = array.astype(np.float32) if array.dtype.kind == "f" else array.astype(np.int64)
        name = self.name("constant")
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weight(self, tensor: Tensor) -> str:
        return self.constant(tensor.detach().cpu().float().numpy())

    def linear(self, x: str, layer: nn.Linear) -> str:
        return self.add("Gemm", x, self.weight(layer.weight), self.weight(layer.bias), transB=1)

    def name(self, stem: str) -> str:
        """A name that is not in use yet."""
        self._count += 1
        return f"{self.prefix}{stem}_{self._count}"


def build(bilm: BiLM) -> onnx.ModelProto:
    """The whole model."""
    builder = GraphBuilder()
    vectors, inputs = _token_encoder(builder, bilm)
    _contextualize(builder, bilm, vectors)
    config = bilm.config
    layers = helper.make_tensor_value_info(
        "layers", TensorProto.FLOAT, [config.num_layers, "batch", "inner_tokens", config.output_dim]
    )
    inputs += [_int_input("positions", "batch", "tokens"), _int_input("lengths", "batch")]
    graph = helper.make_graph(builder.nodes, "elmo", inputs, [layers], builder.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="elmo-torch")
    model.ir_version = IR_VERSION
    return model


def _int_input(name: str, *axes: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.INT64, list(axes))


def _token_encoder(builder: GraphBuilder, bilm: BiLM) -> tuple[str, list[onnx.ValueInfoProto]]:
    """(words, projection), and the inputs it needs."""
    encoder = bilm.token_encoder
    parts, inputs = [], []
    if encoder.word_embedding is not None:
        inputs.append(_int_input("word_ids", "words"))
        parts.append(builder.add("Gather", builder.weight(encoder.word_embedding.weight), "word_ids"))
    if encoder.char_cnn is not None:
        inputs.append(_int_input("characters", "words", "characters"))
        parts.append(_char_cnn(builder, encoder.char_cnn))
    joined = parts[0] if len(parts) == 1 else builder.add("Concat", *parts, axis=1)
    return (joined if encoder.projection is None else builder.linear(joined, encoder.projection)), inputs


def _char_cnn(builder: GraphBuilder, char_cnn: CharCnn) -> str:
    embedded = builder.add("Gather", builder.weight(char_cnn.embedding.weight), "characters")
    embedded = builder.add("Transpose", embedded, perm=[0, 2, 1])
    activation = {"relu": "Relu", "tanh": "Tanh"}[char_cnn.config.activation]
    found = []
    for convolution in char_cnn.convolutions:
        assert isinstance(convolution, nn.Conv1d) and convolution.bias is not None
        result = builder.add("Conv", embedded, builder.weight(convolution.weight), builder.weight(convolution.bias))
        found.append(builder.add(activation, builder.add("ReduceMax", result, axes=[2], keepdims=0)))
    x = found[0] if len(found) == 1 else builder.add("Concat", *found, axis=1)
    for highway in char_cnn.highways:
        assert isinstance(highway, Highway)
        gate = builder.add("Sigmoid", builder.linear(x, highway.carry))
        transformed = builder.add("Relu", builder.linear(x, highway.transform))
        # g * t + (1 - g) * x, with one product less
        x = builder.add("Add", x, builder.add("Mul", gate, builder.add("Sub", transformed, x)))
    return x


def _contextualize(builder: GraphBuilder, bilm: BiLM, vectors: str) -> None:
    # Time comes first, as Scan wants it.
    positions = builder.add("Transpose", "positions", perm=[1, 0])
    tokens = builder.add("Gather", vectors, positions)
    reversed_tokens = _reverse(builder, tokens)
    forward = _stack(builder, bilm.forward_lstm, tokens)
    backward = [_reverse(builder, layer) for layer in _stack(builder, bilm.backward_lstm, reversed_tokens)]
    axes = builder.constant([0])
    layers = []
    for left, right in [(tokens, tokens), *zip(forward, backward, strict=True)]:
        layers.append(builder.add("Unsqueeze", builder.add("Concat", left, right, axis=2), axes))
    stacked = builder.add("Transpose", builder.add("Concat", *layers, axis=0), perm=[0, 2, 1, 3])
    inner = builder.add("Slice", stacked, builder.constant([1]), builder.constant([-1]), builder.constant([2]))
    builder.add("Mul", inner, _inner_mask(builder), output="layers")


def _reverse(builder: GraphBuilder, tokens: str) -> str:
    """Reverse each sentence; its padding stays at the end."""
    return builder.add("ReverseSequence", tokens, "lengths", time_axis=0, batch_axis=1)


def _inner_mask(builder: GraphBuilder) -> str:
    """1.0 where there is a word, (1, batch, tokens - 2, 1)."""
    num_tokens = builder.add("Gather", builder.add("Shape", "positions"), builder.constant(1))
    num_inner = builder.add("Sub", num_tokens, builder.constant(2))
    steps = builder.add("Range", builder.constant(0), num_inner, builder.constant(1))
    lengths = builder.add("Unsqueeze", builder.add("Sub", "lengths", builder.constant(2)), builder.constant([1]))
    mask = builder.add("Cast", builder.add("Less", steps, lengths), to=TensorProto.FLOAT)
    return builder.add("Unsqueeze", mask, builder.constant([0, 3]))


def _stack(builder: GraphBuilder, stack: LstmStack, tokens: str) -> list[str]:
    """Every layer's output, (tokens, batch, projection). What comes after a sentence's end is not yet zero."""
    outputs: list[str] = []
    for index, layer in enumerate(stack.typed_layers):
        layer_input = outputs[-1] if outputs else tokens
        recurrent = _layer(builder, stack, layer, layer_input)
        skips = stack.config.skip_connections and index > 0
        outputs.append(builder.add("Add", recurrent, layer_input) if skips else recurrent)
    return outputs


def _layer(builder: GraphBuilder, stack: LstmStack, layer: LstmLayer, inputs: str) -> str:
    config = stack.config
    bias = layer.bias.detach().clone()
    bias[config.cell_dim : 2 * config.cell_dim] += config.forget_bias  # gates i, f, g, o
    product = builder.add("MatMul", inputs, builder.weight(layer.input_weight.T))
    gates = builder.add("Add", product, builder.weight(bias))
    batch = builder.add("Shape", "lengths")
    hidden, cell = (
        builder.add(
            "ConstantOfShape",
            builder.add("Concat", batch, builder.constant([width]), axis=0),
            value=numpy_helper.from_array(np.zeros(1, np.float32)),
        )
        for width in (config.projection_dim, config.cell_dim)
    )
    body = _step(builder, stack, layer)
    last_hidden, last_cell, every = (builder.name("scan") for _ in range(3))
    node = helper.make_node(
        "Scan", [hidden, cell, gates], [last_hidden, last_cell, every], body=body, num_scan_inputs=1
    )
    builder.nodes.append(node)
    return every


def _step(builder: GraphBuilder, stack: LstmStack, layer: LstmLayer) -> onnx.GraphProto:
    """One token: (h', c', gates from the input) -> (h, c, h). Its weights are in the outer graph."""
    config = stack.config
    recurrent_weight = builder.weight(layer.recurrent_weight.T)
    step = GraphBuilder(prefix=builder.name("step") + "_")
    gates = step.add("Add", "input_gates", step.add("MatMul", "hidden", recurrent_weight))
    i, f, g, o = (step.name("gate") for _ in range(4))
    step.nodes.append(helper.make_node("Split", [gates], [i, f, g, o], axis=-1))
    kept = step.add("Mul", step.add("Sigmoid", f), "cell")
    new = step.add("Mul", step.add("Sigmoid", i), step.add("Tanh", g))
    cell = _clip(builder, step, step.add("Add", kept, new), config.cell_clip)
    hidden = step.add("Mul", step.add("Sigmoid", o), step.add("Tanh", cell))
    if layer.projection_weight is not None:
        projected = step.add("MatMul", hidden, builder.weight(layer.projection_weight.T))
        hidden = _clip(builder, step, projected, config.projection_clip)
    step.add("Identity", hidden, output="next_hidden")
    step.add("Identity", cell, output="next_cell")
    step.add("Identity", hidden, output="step_output")
    hidden_shape, cell_shape = ["batch", config.projection_dim], ["batch", config.cell_dim]
    shapes = {"hidden": hidden_shape, "cell": cell_shape, "input_gates": ["batch", 4 * config.cell_dim]}
    results = {"next_hidden": hidden_shape, "next_cell": cell_shape, "step_output": hidden_shape}
    return helper.make_graph(
        step.nodes,
        "step",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in results.items()],
    )


def _clip(builder: GraphBuilder, step: GraphBuilder, x: str, limit: float | None) -> str:
    if limit is None:
        return x
    return step.add("Clip", x, builder.constant(float(-limit)), builder.constant(float(limit)))
