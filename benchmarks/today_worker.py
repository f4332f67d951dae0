"""One tool of `bench_today.py` in a process of its own: contextual vectors for the tokens of a text.

    python today_worker.py prepare TOOL FOLDER                    # random weights, the vocabulary, the exported graph
    python today_worker.py first TOOL FOLDER                      # a line as soon as the first sentence has its vectors
    python today_worker.py bulk TOOL FOLDER --sentences 384       # JSON: tokens per core-second, peak memory, width
    python today_worker.py size DISTRIBUTION...                   # JSON: MB of these and of all that they require

Nothing is imported before the tool itself. Every tool gets the tokens of tokenized sentences and returns one array per
sentence, (tokens, dim); for a word of several pieces the first piece's vector is taken, as is usual for tagging.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from peers.measure import Sentence, peak_memory_mb, read_sentences

Embed = Callable[[list[Sentence]], list[Any]]

TEXT = Path(__file__).parent / "text" / "wikipedia.txt"
WARM_UP = 8
BATCH = 32
"""Sentences of like length that run together, for tools that leave this to their user."""
ONE = ["She", "sat", "on", "the", "bank", "of", "the", "river", "."]

# Layers, width, attention heads and inner width, as their authors published them.
TRANSFORMERS = {
    "bert-base": ("bert", 12, 768, 12, 3072),
    "distilbert": ("distilbert", 6, 768, 12, 3072),
    "minilm-l6": ("bert", 6, 384, 12, 1536),
}


def in_batches(sentences: list[Sentence], run: Embed) -> list[Any]:
    """Sorted by length, so that batches hold little padding; results in the order of the text."""
    results: list[Any] = [None] * len(sentences)
    order = sorted(range(len(sentences)), key=lambda index: -len(sentences[index]))
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        for row, vectors in zip(rows, run([sentences[row] for row in rows]), strict=True):
            results[row] = vectors
    return results


# transformers, with torch and with onnxruntime


def prepare_transformer(shape: str, folder: Path) -> None:
    import torch
    import transformers
    from tokenizers import BertWordPieceTokenizer

    # A vocabulary of this very text splits fewer words than BERT's own: in favor of these tools.
    pieces = BertWordPieceTokenizer()
    pieces.train([str(TEXT)], vocab_size=30522, min_frequency=1, show_progress=False)
    pieces.save(str(folder / "tokenizer.json"))
    transformers.BertTokenizerFast(tokenizer_file=str(folder / "tokenizer.json")).save_pretrained(folder)
    torch.manual_seed(0)
    kind, layers, width, heads, inner = TRANSFORMERS[shape]
    if kind == "bert":
        config = transformers.BertConfig(
            num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, intermediate_size=inner
        )
        transformers.BertModel(config).save_pretrained(folder)
    else:
        config = transformers.DistilBertConfig(n_layers=layers, dim=width, n_heads=heads, hidden_dim=inner)
        transformers.DistilBertModel(config).save_pretrained(folder)


def prepare_onnx(shape: str, folder: Path) -> None:
    """Exported, fused by onnxruntime's own optimizer for transformers, weights quantized to int8."""
    import onnx
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer
    from transformers import AutoModel

    prepare_transformer(shape, folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    class Graph(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, mask: Any) -> Any:
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    names = ["input_ids", "attention_mask", "last_hidden_state"]
    ids = torch.ones(2, 7, dtype=torch.long)
    torch.onnx.export(
        Graph(), (ids, ids), str(folder / "float.onnx"), input_names=names[:2], output_names=names[2:],
        dynamic_axes={name: {0: "batch", 1: "tokens"} for name in names}, dynamo=False, opset_version=17,
    )  # fmt: skip
    _, _, width, heads, _ = TRANSFORMERS[shape]
    fused = optimizer.optimize_model(str(folder / "float.onnx"), model_type="bert", num_heads=heads, hidden_size=width)
    fused.save_model_to_file(str(folder / "fused.onnx"))
    quantize_dynamic(
        folder / "fused.onnx", folder / "int8.onnx", weight_type=QuantType.QInt8,
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )  # fmt: skip
    for name in ("float.onnx", "fused.onnx", "model.safetensors"):
        (folder / name).unlink()


def first_pieces(encoding: Any) -> list[int]:
    """The place of each word's first piece."""
    words = encoding.word_ids
    return [place for place, word in enumerate(words) if word is not None and words[place - 1] != word]


def open_transformer(folder: Path) -> Embed:
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()

    def run(sentences: list[Sentence]) -> list[Any]:
        batch = tokenizer(sentences, is_split_into_words=True, padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            hidden = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
        values = hidden.numpy()
        return [values[row, first_pieces(batch[row])] for row in range(len(sentences))]

    return lambda sentences: in_batches(sentences, run)


def open_onnx(folder: Path) -> Embed:
    import numpy as np
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(512)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "int8.onnx", options, providers=["CPUExecutionProvider"])

    def run(sentences: list[Sentence]) -> list[Any]:
        found = tokenizer.encode_batch(sentences, is_pretokenized=True)
        feed = {
            "input_ids": np.array([one.ids for one in found]),
            "attention_mask": np.array([one.attention_mask for one in found]),
        }
        (values,) = session.run(None, feed)
        return [values[row, first_pieces(one)] for row, one in enumerate(found)]

    return lambda sentences: in_batches(sentences, run)


# spaCy


def prepare_spacy(folder: Path) -> None:
    import spacy

    pipeline = spacy.blank("en")
    pipeline.add_pipe("tok2vec")
    pipeline.initialize()
    pipeline.to_disk(folder)


def open_spacy(folder: Path) -> Embed:
    import spacy
    from spacy.tokens import Doc

    pipeline = spacy.load(folder)

    def embed(sentences: list[Sentence]) -> list[Any]:
        return [doc.tensor for doc in pipeline.pipe(Doc(pipeline.vocab, words=tokens) for tokens in sentences)]

    return embed


# Flair


def open_flair(folder: Path) -> Embed:
    """The shape of its published "news" language models, forward and backward, with random weights."""
    from flair.data import Dictionary, Sentence
    from flair.embeddings import FlairEmbeddings, StackedEmbeddings
    from flair.models import LanguageModel

    characters = Dictionary()
    for character in sorted(set(TEXT.read_text(encoding="utf-8"))):
        characters.add_item(character)
    models = [
        LanguageModel(characters, is_forward_lm=forward, hidden_size=2048, nlayers=1, embedding_size=100, dropout=0.0)
        for forward in (True, False)
    ]
    stacked = StackedEmbeddings([FlairEmbeddings(model.eval()) for model in models])

    def run(sentences: list[Any]) -> list[Any]:
        found = [Sentence(tokens) for tokens in sentences]
        stacked.embed(found)
        return [[token.get_embedding().numpy() for token in sentence] for sentence in found]

    return lambda sentences: in_batches(sentences, run)


# ours


def prepare_ours(size: str, folder: Path) -> None:
    from peers.random_weights import PUBLISHED_OPTIONS, random_weights, write_hdf5

    import elmo

    options = PUBLISHED_OPTIONS[size]
    write_hdf5(random_weights(options, seed=0), folder / "weights.hdf5")
    (folder / "options.json").write_text(json.dumps(options))
    elmo.load(folder).save_pretrained(folder / "native")
    (folder / "weights.hdf5").unlink()


def open_ours(model: Path | None, precision: str = "float32") -> Embed:
    import elmo

    return elmo.Embedder(model, precision=precision, layers="top").embed


def open_our_onnx(folder: Path) -> Embed:
    from elmo.integrations.onnx.runner import OnnxEmbedder

    return OnnxEmbedder(folder / "model.onnx", layers="top", threads=1).embed


def prepare_our_onnx(folder: Path) -> None:
    from elmo.integrations.onnx.export import export_onnx

    export_onnx(None, folder / "model.onnx")


def nothing(folder: Path) -> None:
    """For models that need no files."""


TOOLS: dict[str, tuple[Callable[[Path], None], Callable[[Path], Embed]]] = {
    "elmo bundled": (nothing, lambda folder: open_ours(None)),
    "elmo bundled, int8": (nothing, lambda folder: open_ours(None, "int8")),
    "elmo bundled, onnxruntime": (prepare_our_onnx, open_our_onnx),
    "elmo small": (lambda folder: prepare_ours("small", folder), lambda folder: open_ours(folder / "native")),
    "elmo small, int8": (
        lambda folder: prepare_ours("small", folder),
        lambda folder: open_ours(folder / "native", "int8"),
    ),
    "elmo full": (lambda folder: prepare_ours("original", folder), lambda folder: open_ours(folder / "native")),
    "elmo full, int8": (
        lambda folder: prepare_ours("original", folder),
        lambda folder: open_ours(folder / "native", "int8"),
    ),
    "spaCy tok2vec": (prepare_spacy, open_spacy),
    "Flair": (nothing, open_flair),
}
for _shape, _title in (("bert-base", "BERT-base"), ("distilbert", "DistilBERT"), ("minilm-l6", "MiniLM-L6")):
    TOOLS[f"{_title}, transformers"] = (partial(prepare_transformer, _shape), open_transformer)
    TOOLS[f"{_title}, onnxruntime int8"] = (partial(prepare_onnx, _shape), open_onnx)


def bulk(tool: str, folder: Path, num_sentences: int) -> dict[str, Any]:
    everything = read_sentences(TEXT)
    sentences, others = everything[:num_sentences], everything[-WARM_UP:]
    embed = TOOLS[tool][1](folder)
    embed(others)
    started = time.process_time()
    vectors = embed(sentences)
    seconds = time.process_time() - started
    assert [len(one) for one in vectors] == [len(one) for one in sentences], "one vector for each token"
    tokens = sum(map(len, sentences))
    return {
        "tokens_per_second": round(tokens / seconds, 1),
        "peak_memory_mb": peak_memory_mb(),
        "dim": len(vectors[0][0]),
        "tokens": tokens,
    }


def size(distributions: list[str]) -> dict[str, Any]:
    """Installed megabytes of these distributions and everything that they require, without extras."""
    import re
    from importlib import metadata

    found: dict[str, int] = {}
    waiting = list(distributions)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # required on other systems only
        files = [Path(str(distribution.locate_file(file))) for file in distribution.files or []]
        if name == "elmo-torch":  # an editable installation does not list its files
            files = list((Path(__file__).parent.parent / "src" / "elmo").rglob("*"))
        found[name] = sum(file.stat().st_size for file in files if file.is_file() and file.suffix != ".pyc")
        for requirement in distribution.requires or []:
            if "extra ==" not in requirement:
                waiting.append(re.split(r"[\s;<>=!~\[(]", requirement)[0])
    return {"installed_mb": round(sum(found.values()) / 1e6, 1), "distributions": len(found)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["prepare", "first", "bulk", "size"])
    parser.add_argument("names", nargs="+", help="the tool and its folder, or distributions")
    parser.add_argument("--sentences", type=int, default=384)
    arguments = parser.parse_args()
    if arguments.what == "size":
        print(json.dumps(size(arguments.names)))
        return
    tool, folder = arguments.names[0], Path(arguments.names[1])
    if arguments.what == "prepare":
        TOOLS[tool][0](folder)
        print("{}")
    elif arguments.what == "first":
        vectors = TOOLS[tool][1](folder)([ONE])
        assert len(vectors[0]) == len(ONE)
        print("{}", flush=True)
    else:
        print(json.dumps(bulk(tool, folder, arguments.sentences)))


if __name__ == "__main__":
    main()
